"""FleetService: workers, queues and the cluster itself, as the leader has them in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.message import Message

from taskyard.v1 import fleet_pb2 as pb
from taskyard.v1 import fleet_pb2_grpc, tasks_pb2, workflows_pb2
from taskyard_core.engine import events
from taskyard_core.pauses import Pause
from taskyard_scheduler import __version__
from taskyard_scheduler.egress.explain import wait_reasons
from taskyard_scheduler.egress.pauses import pause_message, pause_values
from taskyard_scheduler.egress.queues import queue_message, queue_values
from taskyard_scheduler.egress.workers import worker_message, worker_values
from taskyard_scheduler.filters import PAUSE_FIELDS, QUEUE_FIELDS, WORKER_FIELDS, matches, parse_filter
from taskyard_scheduler.ingress.named import require_worker
from taskyard_scheduler.ingress.pauses import read_scope
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.paging import read_name_page
from taskyard_scheduler.services.pausing import pause, resume
from taskyard_scheduler.services.repeats import first_answer, remembering
from taskyard_service.errors import FailedPrecondition, NotFound
from taskyard_service.identity import current_identity

Answer = TypeVar("Answer", bound=Message)


class FleetService(fleet_pb2_grpc.FleetServiceServicer):
    """Calls of operators on the fleet. The interceptors have checked token and role."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def ListWorkers(self, request: pb.ListWorkersRequest, context: Any) -> pb.ListWorkersResponse:
        tenant = current_identity().tenant
        page = read_name_page(request, "worker_id", "workers")
        where = parse_filter(request.filter, WORKER_FIELDS)
        workers = self._scheduler.leader().engine.cluster.fleet.workers
        found = []
        for id in sorted(workers):
            worker = workers[id]
            if worker.tenant == tenant and id > page.after:
                if not where or matches(where, worker_values(worker)):
                    found.append(worker_message(worker))
                    if len(found) > page.size:
                        break
        token = page.next_token(len(found), found[page.size - 1].worker_id if len(found) > page.size else "")
        return pb.ListWorkersResponse(workers=found[: page.size], next_page_token=token)

    async def GetWorker(self, request: pb.GetWorkerRequest, context: Any) -> pb.GetWorkerResponse:
        require_worker(request.worker_id)
        worker = self._scheduler.leader().engine.cluster.fleet.workers.get(request.worker_id)
        if worker is None or worker.tenant != current_identity().tenant:
            raise NotFound("WORKER_UNKNOWN", f"there is no worker {request.worker_id[:200]!r}")
        return pb.GetWorkerResponse(worker=worker_message(worker))

    async def DrainWorker(self, request: pb.DrainWorkerRequest, context: Any) -> pb.DrainWorkerResponse:
        def answer(tasks: int) -> pb.DrainWorkerResponse:
            return pb.DrainWorkerResponse(active_tasks=tasks)

        return await self._operate(request, events.DrainWorker, answer)

    async def ForgetWorker(self, request: pb.ForgetWorkerRequest, context: Any) -> pb.ForgetWorkerResponse:
        def answer(tasks: int) -> pb.ForgetWorkerResponse:
            return pb.ForgetWorkerResponse(lost_tasks=tasks)

        return await self._operate(request, events.ForgetWorker, answer)

    async def _operate(
        self,
        request: pb.DrainWorkerRequest | pb.ForgetWorkerRequest,
        event: type[events.DrainWorker] | type[events.ForgetWorker],
        answer: Callable[[int], Answer],
    ) -> Answer:
        """Has the engine do something with a worker, once for each request id."""
        require_worker(request.worker_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, lambda: answer(0))
        if first is not None:
            return first
        remember = remembering(leader, tenant, request, answer)
        outcome = await leader.ask(event(leader.future(), request.worker_id, tenant), remember)
        if isinstance(outcome, events.Refused):
            if outcome.reason == "NOT_FOUND":
                raise NotFound("WORKER_UNKNOWN", f"there is no worker {request.worker_id[:200]!r}")
            raise FailedPrecondition(outcome.reason, outcome.message, metadata={"worker_id": request.worker_id})
        return answer(outcome)

    async def ListQueues(self, request: pb.ListQueuesRequest, context: Any) -> pb.ListQueuesResponse:
        tenant = current_identity().tenant
        page = read_name_page(request, "task_type", "queues")
        where = parse_filter(request.filter, QUEUE_FIELDS)
        leader = self._scheduler.leader()
        queues = [q for q in leader.engine.cluster.queues.values() if q.tenant == tenant and len(q)]
        beyond = (queue for queue in sorted(queues, key=lambda each: each.key) if queue.key > page.after)
        found = list(islice((q for q in beyond if not where or matches(where, queue_values(q))), page.size + 1))
        shown = found[: page.size]
        token = page.next_token(len(found), shown[-1].key if shown else "")
        messages = [queue_message(queue, leader.engine.cluster.pauses) for queue in shown]
        if request.explain:
            for message in messages:
                _explain(leader, message)
        return pb.ListQueuesResponse(queues=messages, next_page_token=token)

    async def PauseWork(self, request: pb.PauseWorkRequest, context: Any) -> pb.PauseWorkResponse:
        scope = read_scope(request.scope, request.name)
        return await pause(self._scheduler, request, scope, request.name, pb.PauseWorkResponse)

    async def ResumeWork(self, request: pb.ResumeWorkRequest, context: Any) -> pb.ResumeWorkResponse:
        scope = read_scope(request.scope, request.name)
        return await resume(self._scheduler, request, scope, request.name, pb.ResumeWorkResponse)

    async def ListPauses(self, request: pb.ListPausesRequest, context: Any) -> pb.ListPausesResponse:
        tenant = current_identity().tenant
        page = read_name_page(request, "scope", "pauses")
        where = parse_filter(request.filter, PAUSE_FIELDS)
        seen = [each for each in self._scheduler.leader().engine.cluster.pauses if each.tenant in ("", tenant)]
        beyond = (each for each in sorted(seen, key=_place) if _place(each) > page.after)
        found = list(islice((each for each in beyond if matches(where, pause_values(each))), page.size + 1))
        shown = found[: page.size]
        token = page.next_token(len(found), _place(shown[-1]) if shown else "")
        return pb.ListPausesResponse(pauses=map(pause_message, shown), next_page_token=token)

    async def GetClusterStatus(self, request: pb.GetClusterStatusRequest, context: Any) -> pb.GetClusterStatusResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        c = leader.engine.cluster
        status = pb.GetClusterStatusResponse(
            scheduler_id=self._scheduler.scheduler_id,
            term=leader.term,
            version=__version__,
            revision=leader.committed_revision,
            tasks_live=c.live_count(),
            tasks_queued=c.waiting_count(),
            tasks_in_flight=sum(len(worker.attempts) for worker in c.fleet.workers.values()),
            runs_live=len(c.runs),
            workers_healthy=c.fleet.healthy,
            workers_known=len(c.fleet.workers),
            database=leader.store.name,
            tasks_ended={
                tasks_pb2.TaskStatus.Name(tasks_pb2.TaskStatus.ValueType(state)).removeprefix("TASK_STATUS_"): count
                for (owner, state), count in leader.ended_counts.items()
                if owner == tenant
            },
            runs_ended={
                workflows_pb2.RunState.Name(workflows_pb2.RunState.ValueType(state)).removeprefix("RUN_STATE_"): count
                for (owner, state), count in leader.run_ended_counts.items()
                if owner == tenant
            },
        )
        status.leader_since_time.FromMilliseconds(c.started_at)
        return status


def _place(pause: Pause) -> str:
    """Returns what pauses are listed by: text, as page tokens are."""
    return f"{int(pause.scope)} {pause.name}"


def _explain(leader: Leader, queue: pb.Queue) -> None:
    """Adds to a queue why its first task waits."""
    reasons = leader.engine.explain(queue.head_task_id, leader.clock.now()) if queue.head_task_id else None
    queue.reasons.extend(wait_reasons(reasons or []))
