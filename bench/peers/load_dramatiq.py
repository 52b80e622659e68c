"""Submits Dramatiq tasks one by one, as its users do, and waits until all are done. Runs in the peers' environment.

`python load_dramatiq.py WARM_UP TASKS`; prints one JSON object with tasks a second.
"""

import json
import os
import sys
import time

import redis  # type: ignore[import-not-found]
from noop_dramatiq import noop  # type: ignore[import-not-found]

MESSAGES = "dramatiq:default.msgs"


def submit_and_wait(tasks: int, broker: "redis.Redis") -> float:
    """Returns tasks a second. A message leaves the broker's hash when its worker has acknowledged it."""
    start = time.perf_counter()
    for _ in range(tasks):
        noop.send()  # pyright: ignore[reportFunctionMemberAccess]
    while broker.hlen(MESSAGES):
        time.sleep(0.01)
    return tasks / (time.perf_counter() - start)


def main() -> None:
    """Measures."""
    warm_up, tasks = int(sys.argv[1]), int(sys.argv[2])
    broker = redis.Redis.from_url(os.environ["PEER_BROKER"])
    submit_and_wait(warm_up, broker)
    print(json.dumps({"rate": submit_and_wait(tasks, broker)}))


main()
