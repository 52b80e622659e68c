"""What a user does first: submit, look, fail, retry, cancel, ask why, read logs, run a workflow."""

from __future__ import annotations

from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import Retry

AT_ONCE = Retry(first_delay=0.0)


async def test_a_task_runs_and_says_what_became_of_it(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker()
    client = site.client()
    handle = await client.submit("double", {"number": 21})
    assert await handle.result(10) == {"double": 42}
    told = await client.get_task(handle.id)
    assert told.task.status == tasks.TASK_STATUS_SUCCESS
    assert [a.attempt for a in told.attempts] == [1]
    assert told.task.worker_id == "worker-1"
