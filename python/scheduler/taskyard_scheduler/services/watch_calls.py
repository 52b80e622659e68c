"""TaskService, the calls that stream: watches of instances, and logs as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import ENDED, INSTANCE_COLUMNS, Instance, Row
from taskyard_scheduler.egress.instances import instance_from_row as task_from_row
from taskyard_scheduler.egress.instances import instance_snapshot as task_from_snapshot
from taskyard_scheduler.ingress.named import require_task
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.lookups import changing, committed_rows, no_task
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
        for place, task_id in enumerate(request.task_ids):
            require_task(task_id, f"task_ids[{place}]")
        watch = leader.watches.open(ids)
        try:
            coming = set() if leader.stalled() else changing(leader, tenant, ids)
            known = [id for id in ids if id not in coming]
            rows = await committed_rows(leader, tenant, known)
            missing = next((id for id in known if id not in rows), None)
            if missing is not None:
                raise no_task(missing)
            progress = _Progress(request.after_revision, coming)
            for response in progress.initial(rows):
                yield response
            while progress.open:
                await watch.wait()
                changed, _ = watch.take()
                for response in progress.changes(changed, watch.revision):
                    yield response
                if watch.ended is not None and progress.open:
                    raise Unavailable(watch.ended, "this scheduler does not lead any more: resume the watch")
        finally:
            leader.watches.close(watch)


class _Progress:
    """What a watcher of instances has been told.

    Args:
        after: Revision that it resumes from.
        coming: Ids whose first word is a change that is being committed.
    """

    def __init__(self, after: int, coming: set[str]) -> None:
        self._after = after
        self._coming = coming
        self._revision = after
        self._seen: dict[str, int] = {}
        self.open = set(coming)

    def initial(self, rows: dict[str, Row]) -> list[pb.WatchTasksResponse]:
        """Returns the present state of what is newer than `after`; one empty frame when nothing is, nor is coming."""
        self._seen = {id: row[_REVISION] for id, row in rows.items()}
        self.open.update(id for id, row in rows.items() if row[_PHASE] != ENDED)
        tasks = [task_from_row(row) for row in rows.values() if row[_REVISION] > self._after]
        if self._coming and not tasks:
            return []
        return self._frames(tasks, max(self._seen.values())) or [pb.WatchTasksResponse(revision=self._revision)]

    def changes(self, changed: Sequence[tuple[Instance, Row]], revision: int) -> list[pb.WatchTasksResponse]:
        """Returns what is news of changes that are committed up to a revision."""
        tasks = []
        for instance, row in changed:
            task = task_from_snapshot(instance, row)
            id = task.task_id
            self._coming.discard(id)
            if task.revision > self._seen.get(id, 0):
                self._seen[id] = task.revision
                tasks.append(task)
                if task.HasField("end_time"):
                    self.open.discard(id)
                else:
                    self.open.add(id)
        return self._frames(tasks, revision)

    def _frames(self, tasks: list[pb.TaskInstance], revision: int) -> list[pb.WatchTasksResponse]:
        """Cuts into frames; the last says how far the watcher has come, which is nowhere while a first word is due."""
        parts = [tasks[start : start + FRAME_TASKS] for start in range(0, len(tasks), FRAME_TASKS)]
        frames = [pb.WatchTasksResponse(tasks=part, revision=self._revision) for part in parts]
        if not self._coming:
            self._revision = max(revision, self._after)
            if frames:
                frames[-1].revision = self._revision
        return frames
