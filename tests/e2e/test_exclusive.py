"""An exclusive task: never two attempts alive at once, whoever hangs."""

from __future__ import annotations

import pytest

from e2e.history import executions
from e2e.process import alive, until
from e2e.site import Site
from taskyard_client import Retry


@pytest.mark.parametrize("hangs", ["scheduler", "worker"])
async def test_the_first_attempt_is_dead_before_the_second_lives(site: Site, hangs: str) -> None:
    """Nobody can renew the lease: the watchdog beside the worker kills the handler 5 s before it ends."""
    scheduler = await site.start_scheduler(settings={"TASKYARD_LEASE_S": "10", "TASKYARD_WORKER_SILENCE_S": "3"})
    worker = await site.start_worker("first")
    client = site.client()
    handle = await client.submit(
        "apart", {"number": 1, "seconds": 3600}, exclusive=True, retry=Retry(max_attempts=100, first_delay=0.0)
    )
    await until(lambda: len(executions(site)) == 1)
    first = executions(site)[0]
    assert alive(first["pid"])
    assert first["pid"] != worker.pid  # in a process of its own
    hanging = scheduler if hangs == "scheduler" else worker
    hanging.freeze()
    await until(lambda: not alive(first["pid"]), what="the end of the first attempt")
    if hangs == "worker":
        await site.start_worker("second")
    hanging.thaw()
    await until(lambda: len(executions(site)) == 2)
    second = executions(site)[1]
    assert (second["attempt"], alive(first["pid"])) == (2, False)
    assert (await client.get_task(handle.id)).task.attempt == 2
    await handle.cancel()
    await handle.wait(60)
    assert not alive(second["pid"])
