"""TaskService, the calls that stream: watches of instances, and logs as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import ENDED, INSTANCE_COLUMNS, Row
from taskyard_scheduler.egress.instances import instance_from_row as task_from_row
from taskyard_scheduler.egress.instances import instance_snapshot as task_from_snapshot
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.lookups import committed_rows, no_task
from taskyard_service.errors import FieldViolation, InvalidArgument, Unavailable
from taskyard_service.identity import current_identity

WATCH_LIMIT = 10_000
FRAME_TASKS = 500
_REVISION = INSTANCE_COLUMNS.index("revision")
_PHASE = INSTANCE_COLUMNS.index("phase")


class WatchCalls:
    """Watches of instances. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> AsyncIterator[pb.WatchTasksResponse]:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        ids = list(dict.fromkeys(request.task_ids))
        if not 1 <= len(ids) <= WATCH_LIMIT:
            said = f"{len(ids)} ids: a watch takes 1 to {WATCH_LIMIT}; open another for more"
            raise InvalidArgument([FieldViolation("task_ids", said)])
        watch = leader.watches.open(ids)
        try:
            rows = await committed_rows(leader, tenant, ids)
            missing = next((id for id in ids if id not in rows), None)
            if missing is not None:
                raise no_task(missing)
            seen = {id: row[_REVISION] for id, row in rows.items()}
            open_ids = {id for id, row in rows.items() if row[_PHASE] != ENDED}
            revision = max(seen.values())
            for response in _initial(rows, request.after_revision, revision):
                yield response
            while open_ids:
                await watch.wait()
                changed, _ = watch.take()
                tasks = []
                for instance, row in changed:
                    task = task_from_snapshot(instance, row)
                    if task.revision > seen[task.task_id]:
                        seen[task.task_id] = task.revision
                        tasks.append(task)
                        if task.HasField("end_time"):
                            open_ids.discard(task.task_id)
                        else:
                            open_ids.add(task.task_id)
                for start in range(0, len(tasks), FRAME_TASKS):
                    part = tasks[start : start + FRAME_TASKS]
                    last = start + FRAME_TASKS >= len(tasks)
                    yield pb.WatchTasksResponse(tasks=part, revision=watch.revision if last else revision)
                revision = watch.revision
                if watch.ended is not None and open_ids:
                    raise Unavailable(watch.ended, "this scheduler does not lead any more: resume the watch")
        finally:
            leader.watches.close(watch)


def _initial(rows: dict[str, Row], after: int, revision: int) -> list[pb.WatchTasksResponse]:
    """Returns the present state of what is newer than `after`; one empty frame when nothing is."""
    tasks = [task_from_row(row) for row in rows.values() if row[_REVISION] > after]
    frames = [
        pb.WatchTasksResponse(tasks=tasks[start : start + FRAME_TASKS]) for start in range(0, len(tasks), FRAME_TASKS)
    ] or [pb.WatchTasksResponse()]
    frames[-1].revision = max(revision, after)
    return frames
