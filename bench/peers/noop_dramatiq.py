"""Dramatiq's no-op task, everything as Dramatiq ships it. Runs in the peers' environment."""

import os

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

broker = RedisBroker(url=os.environ["PEER_BROKER"])
dramatiq.set_broker(broker)


@dramatiq.actor  # type: ignore[untyped-decorator]
def noop() -> None:
    """Does nothing."""
