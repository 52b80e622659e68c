"""The calls that act on all tasks or runs that match a filter, with the count first."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_client import methods
from taskyard_client.session import Session

TaskRequest = tasks_pb2.BulkTasksRequest
RunRequest = workflows_pb2.BulkRunsRequest


class BulkCalls:
    """BulkTasks and BulkRuns.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def check_bulk_tasks(self, filter: str, action: tasks_pb2.BulkAction.ValueType, *, priority: int = 0) -> int:
        """Tells how many tasks `bulk_tasks` would try to act on now; nothing is done.

        Raises:
            InvalidInput: The filter is none or asks for nothing, there is no such action, or no such priority.
        """
        request = TaskRequest(filter=filter, action=action, priority=priority, validate_only=True)
        return (await self._session.caller.call(methods.BULK_TASKS, request)).matched

    async def bulk_tasks(
        self, filter: str, action: tasks_pb2.BulkAction.ValueType, *, reason: str = "", priority: int = 0
    ) -> AsyncGenerator[tasks_pb2.BulkTaskOutcome, None]:
        """Acts on every task that matches a filter, newest first, and yields what became of each.

        Args:
            filter: Which ones; `task_id != ""` is all.
            action: What is done with them.
            reason: For cancels and marks, for people.
            priority: For PRIORITIZE: 1 (first) to 10 (last).

        Raises:
            InvalidInput: As for `check_bulk_tasks`.
        """
        request = TaskRequest(filter=filter, action=action, reason=reason, priority=priority)
        while True:
            request.request_id = self._session.request_ids.one()
            page = await self._session.caller.call(methods.BULK_TASKS, request)
            for outcome in page.outcomes:
                yield outcome
            request.page_token = page.next_page_token
            if not request.page_token:
                return

    async def check_bulk_runs(self, filter: str, action: tasks_pb2.BulkAction.ValueType) -> int:
        """Tells how many runs `bulk_runs` would try to act on now; nothing is done.

        Raises:
            InvalidInput: The filter is none or asks for nothing, or there is no such action.
        """
        request = RunRequest(filter=filter, action=action, validate_only=True)
        return (await self._session.caller.call(methods.BULK_RUNS, request)).matched

    async def bulk_runs(
        self, filter: str, action: tasks_pb2.BulkAction.ValueType, *, reason: str = ""
    ) -> AsyncGenerator[workflows_pb2.BulkRunOutcome, None]:
        """Acts on every run that matches a filter, newest first, and yields what became of each.

        Args:
            filter: Which ones; `run_id != ""` is all.
            action: CANCEL, TERMINATE or RETRY.
            reason: For cancels, for people.

        Raises:
            InvalidInput: As for `check_bulk_runs`.
        """
        request = RunRequest(filter=filter, action=action, reason=reason)
        while True:
            request.request_id = self._session.request_ids.one()
            page = await self._session.caller.call(methods.BULK_RUNS, request)
            for outcome in page.outcomes:
                yield outcome
            request.page_token = page.next_page_token
            if not request.page_token:
                return
