"""TaskService, the calls on logs: a page of lines, or lines as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import ATTEMPT_COLUMNS, ENDED, INSTANCE_COLUMNS, Row
from taskyard_scheduler.ingress.logs import read_selection
from taskyard_scheduler.ingress.named import require_task
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.logs import LogStore
from taskyard_scheduler.logs.wakeups import Subscription
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.lookups import stored_instance
from taskyard_service.errors import FieldViolation, InvalidArgument, NotFound, Unavailable
from taskyard_service.identity import current_identity

PAGE_DEFAULT = 1_000
PAGE_LIMIT = 10_000
READS = 8
"""How often the store is read for one page: what is seldom found must not keep a call for long."""
SETTLE_MS = 2_000
"""How long after an attempt's end its lines are still waited for: results and logs travel apart."""
_TENANT, _ID, _ATTEMPT, _PHASE, _ENDED_AT = (
    INSTANCE_COLUMNS.index(name) for name in ("tenant", "id", "attempt", "phase", "ended_at")
)
_NUMBER, _ATTEMPT_ENDED_AT = (ATTEMPT_COLUMNS.index(name) for name in ("attempt", "ended_at"))


class LogCalls:
    """Calls on logs. The interceptors have checked token and role."""

    _scheduler: Scheduler
    _logs: LogStore

    async def GetLogs(self, request: pb.GetLogsRequest, context: Any) -> pb.GetLogsResponse:
        require_task(request.task_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        row = await stored_instance(leader, tenant, request.task_id)
        attempt = request.attempt or row[_ATTEMPT]
        if not 0 <= attempt <= row[_ATTEMPT]:
            said = f"the task has had {row[_ATTEMPT]} attempts, not {attempt}: name one of them, or 0 for the last"
            raise NotFound("ATTEMPT_NOT_FOUND", said)
        size = _page_size(request.page_size)
        after = _after(request.page_token)
        wanted = read_selection(request.selection)
        if wanted is not None:
            return await self._search(tenant, request.task_id, attempt, after, size, wanted)
        page = await self._logs.read(tenant, request.task_id, attempt, after, size)
        token = str(page.lines[-1].line) if page.more and page.lines else ""
        return pb.GetLogsResponse(lines=page.lines, next_page_token=token)

    async def _search(
        self, tenant: str, task_id: str, attempt: int, after: int, size: int, wanted: Callable[[pb.LogLine], bool]
    ) -> pb.GetLogsResponse:
        """Returns at most `size` lines that are wanted; the token says up to which line was looked."""
        found: list[pb.StoredLogLine] = []
        for _ in range(READS):
            page = await self._logs.read(tenant, task_id, attempt, after, PAGE_LIMIT)
            for line in page.lines:
                after = line.line
                if wanted(line.content):
                    found.append(line)
                    if len(found) == size:
                        return pb.GetLogsResponse(lines=found, next_page_token=str(after))
            if not page.more:
                return pb.GetLogsResponse(lines=found)
        return pb.GetLogsResponse(lines=found, next_page_token=str(after))

    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Any) -> AsyncIterator[pb.StreamLogsResponse]:
        require_task(request.task_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        await stored_instance(leader, tenant, request.task_id)
        attempt = max(1, request.after_attempt)
        after = request.after_line if request.after_attempt else -1
        wanted = read_selection(request.selection)
        with self._logs.changes(tenant, request.task_id) as changes:
            watch = leader.watches.open([request.task_id], changes.wake)
            try:
                while True:
                    page = await self._logs.read(tenant, request.task_id, attempt, after, PAGE_DEFAULT)
                    if page.lines:
                        after = page.lines[-1].line
                        lines = page.lines if wanted is None else [each for each in page.lines if wanted(each.content)]
                        if lines:
                            yield pb.StreamLogsResponse(lines=lines)
                        continue
                    if watch.ended is not None:
                        raise Unavailable(watch.ended, "this scheduler does not lead any more: resume the stream")
                    row = await stored_instance(leader, tenant, request.task_id)
                    ended_at = await _ended_at(leader, row, attempt)
                    if ended_at is None:
                        await changes.wait()
                    elif await _more(changes, ended_at + SETTLE_MS - leader.clock.now()):
                        continue
                    elif attempt < row[_ATTEMPT]:
                        attempt, after = attempt + 1, -1
                    else:
                        return
            finally:
                leader.watches.close(watch)


async def _ended_at(leader: Leader, row: Row, attempt: int) -> int | None:
    """Returns when an attempt ended; None while it may still run or be followed by another."""
    if attempt >= row[_ATTEMPT]:
        return int(row[_ENDED_AT]) if row[_PHASE] == ENDED else None
    for earlier in await leader.store.get_attempts(row[_TENANT], row[_ID]):
        if earlier[_NUMBER] == attempt:
            return int(earlier[_ATTEMPT_ENDED_AT])
    return 0


async def _more(changes: Subscription, wait_ms: int) -> bool:
    """Waits for the last lines of an attempt that has ended; False when none came."""
    if wait_ms <= 0:
        return False
    try:
        async with asyncio.timeout(wait_ms / 1000):
            await changes.wait()
    except TimeoutError:
        return False
    return True


def _page_size(asked: int) -> int:
    if not 0 <= asked <= PAGE_LIMIT:
        raise InvalidArgument([FieldViolation("page_size", f"{asked}: 1 to {PAGE_LIMIT}, or 0 for {PAGE_DEFAULT}")])
    return asked or PAGE_DEFAULT


def _after(token: str) -> int:
    if not token:
        return -1
    if not token.isascii() or not token.isdigit() or len(token) > 18:
        said = f"{token[:200]!r} is not a token of an earlier answer: begin again without one"
        raise InvalidArgument([FieldViolation("page_token", said)])
    return int(token)
