"""Submits Celery tasks one by one, as Celery's users do, and waits for every result. Runs in the peers' environment.

`python load_celery.py WARM_UP TASKS`; prints one JSON object with tasks a second.
"""

import json
import os
import sys
import time

import redis  # type: ignore[import-not-found]
from noop_celery import noop  # type: ignore[import-not-found]


def submit_and_wait(tasks: int, results: "redis.Redis", before: int) -> float:
    """Returns tasks a second. Each result is one key of the results' database, so that counting keys is enough."""
    start = time.perf_counter()
    for _ in range(tasks):
        noop.delay()  # pyright: ignore[reportFunctionMemberAccess]
    while results.dbsize() < before + tasks:
        time.sleep(0.01)
    return tasks / (time.perf_counter() - start)


def main() -> None:
    """Measures."""
    warm_up, tasks = int(sys.argv[1]), int(sys.argv[2])
    results = redis.Redis.from_url(os.environ["PEER_RESULTS"])
    submit_and_wait(warm_up, results, 0)
    print(json.dumps({"rate": submit_and_wait(tasks, results, warm_up)}))


main()
