"""The calls that hold work back and let it go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskyard.v1 import fleet_pb2, workflows_pb2
from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard_client import methods
from taskyard_client.session import Session, page_size_for, pages


class PauseCalls:
    """PauseWork, ResumeWork and ListPauses, and the same for one run.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def pause_work(self, scope: PauseScope.ValueType, name: str = "", *, reason: str = "") -> Pause:
        """Holds something back: nothing of it is sent to a worker until it is resumed. What runs, runs on.

        Args:
            scope: How much: a queue, a task type, a workflow, a run, the tenant, or everything.
            name: Which: the queue's name as `queues` has it, the type, the workflow or the run's id. Empty for the
                tenant and everything.
            reason: For people who ask what a task waits for.

        Returns:
            The pause, as stored.

        Raises:
            PermissionDenied: Everything is paused by an admin alone.
            NotFound: There is no such run, or it has ended.
        """
        request = fleet_pb2.PauseWorkRequest(
            request_id=self._session.request_ids.one(), scope=scope, name=name, reason=reason
        )
        return (await self._session.caller.call(methods.PAUSE_WORK, request)).pause

    async def resume_work(self, scope: PauseScope.ValueType, name: str = "") -> Pause:
        """Lets what was held back go on, in the order in which it would have gone; returns what the pause was.

        Args:
            scope: As for `pause_work`.
            name: As for `pause_work`.

        Raises:
            PermissionDenied: Everything is resumed by an admin alone.
            WrongState: That is not paused by itself.
        """
        request = fleet_pb2.ResumeWorkRequest(request_id=self._session.request_ids.one(), scope=scope, name=name)
        return (await self._session.caller.call(methods.RESUME_WORK, request)).pause

    def pauses(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[Pause, None]:
        """Yields what is paused, by scope and name.

        Args:
            filter: Which ones, for example `scope == "WORKFLOW"`. Empty: all.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = fleet_pb2.ListPausesRequest(page_size=page_size_for(page_size, limit), filter=filter)
        return pages(self._session, methods.LIST_PAUSES, request, lambda page: page.pauses, limit)

    async def pause_run(self, run_id: str, reason: str = "") -> Pause:
        """Holds one run back; it is `pause_work` with the scope RUN.

        Raises:
            NotFound: There is none of that id, or it has ended.
        """
        request = workflows_pb2.PauseRunRequest(
            request_id=self._session.request_ids.one(), run_id=run_id, reason=reason
        )
        return (await self._session.caller.call(methods.PAUSE_RUN, request)).pause

    async def resume_run(self, run_id: str) -> Pause:
        """Lets a run go on that is paused by itself; returns what the pause was.

        Raises:
            WrongState: It is not paused by itself.
        """
        request = workflows_pb2.ResumeRunRequest(request_id=self._session.request_ids.one(), run_id=run_id)
        return (await self._session.caller.call(methods.RESUME_RUN, request)).pause
