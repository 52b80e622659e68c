"""Celery's no-op task: prefork, results on, everything else as Celery ships it. Runs in the peers' environment."""

import os

from celery import Celery  # type: ignore[import-not-found]

app = Celery("noop_celery", broker=os.environ["PEER_BROKER"], backend=os.environ["PEER_RESULTS"])


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop() -> None:
    """Does nothing."""
