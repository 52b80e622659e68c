"""The calls about the fleet: workers, queues, the cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskyard.v1 import fleet_pb2 as pb
from taskyard_client import methods
from taskyard_client.session import Session, page_size_for, pages


class FleetCalls:
    """Calls of FleetService.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def workers(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.Worker, None]:
        """Yields workers by id.

        Args:
            filter: Which ones, for example `state == "HEALTHY"`. Empty: all.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = pb.ListWorkersRequest(page_size=page_size_for(page_size, limit), filter=filter)
        return pages(self._session, methods.LIST_WORKERS, request, lambda page: page.workers, limit)

    async def get_worker(self, worker_id: str) -> pb.Worker:
        """Reads one worker.

        Raises:
            NotFound: There is none of that id.
        """
        request = pb.GetWorkerRequest(worker_id=worker_id)
        return (await self._session.caller.call(methods.GET_WORKER, request)).worker

    async def drain_worker(self, worker_id: str) -> int:
        """Has a worker take no new tasks and stop; returns how many attempts it still has.

        They may end within the worker's grace (`TASKYARD_DRAIN_GRACE_S`, 10 s); the rest is interrupted and runs again
        elsewhere.

        Raises:
            NotFound: There is none of that id.
            WrongState: It has no stream, so it cannot be told.
        """
        request = pb.DrainWorkerRequest(request_id=self._session.request_ids.one(), worker_id=worker_id)
        return (await self._session.caller.call(methods.DRAIN_WORKER, request)).active_tasks

    async def forget_worker(self, worker_id: str) -> int:
        """Forgets a worker that is gone for good; returns how many attempts it had, which are over now.

        Raises:
            NotFound: There is none of that id.
            WrongState: It lives, or it may still run an exclusive task.
        """
        request = pb.ForgetWorkerRequest(request_id=self._session.request_ids.one(), worker_id=worker_id)
        return (await self._session.caller.call(methods.FORGET_WORKER, request)).lost_tasks

    def queues(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None, explain: bool = False
    ) -> AsyncGenerator[pb.Queue, None]:
        """Yields the queues in which something waits.

        Args:
            filter: Which ones, for example `task_type == "shell"`. Empty: all.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
            explain: True: each says why its first task waits.
        """
        size = page_size_for(page_size, limit)
        request = pb.ListQueuesRequest(page_size=size, filter=filter, explain=explain)
        return pages(self._session, methods.LIST_QUEUES, request, lambda page: page.queues, limit)

    async def cluster_status(self) -> pb.GetClusterStatusResponse:
        """Tells who leads and how much is going on."""
        return await self._session.caller.call(methods.GET_CLUSTER_STATUS, pb.GetClusterStatusRequest())
