"""The calls about workflows: define, start, look, wait, stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.tasks_pb2 import STOP_MODE_TERMINATE, STOP_MODE_UNSPECIFIED
from taskyard_client import methods
from taskyard_client.artifact_calls import ArtifactCalls
from taskyard_client.coalescer import Coalescer
from taskyard_client.errors import DeadlineExceeded, ServerError, TaskyardError
from taskyard_client.handles import Checked, Outcome, RunHandle
from taskyard_client.lists import send_parts
from taskyard_client.policies import Seconds
from taskyard_client.session import Session, page_size_for, pages
from taskyard_client.statuses import error_of_refusal
from taskyard_client.submissions import new_run

RUN_ENDED = frozenset({pb.RunState.RUN_STATE_SUCCEEDED, pb.RunState.RUN_STATE_FAILED, pb.RunState.RUN_STATE_CANCELLED})
"""In what a run can end."""


class WorkflowCalls:
    """Calls of WorkflowService.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.artifacts = ArtifactCalls(session)
        self._starts: Coalescer[pb.RunSubmission, pb.StartOutcome] = Coalescer(
            "start", self._send_runs, lambda run: run.ByteSize(), session.background
        )

    def close_runs(self) -> None:
        """Fails everything that waits here."""
        self._starts.close()

    async def apply_workflow(self, workflow: pb.Workflow, *, source: str = "") -> pb.ApplyWorkflowResponse:
        """Stores a workflow; a change makes a new version, the same content makes none.

        Args:
            workflow: The whole definition.
            source: The set that it is put into. Empty: the one that it is in.

        Raises:
            InvalidInput: The definition breaks rules; the violations' fields are paths in it.
        """
        request_id = self._session.request_ids.one()
        request = pb.ApplyWorkflowRequest(request_id=request_id, workflow=workflow, source=source)
        return await self._session.caller.call(methods.APPLY_WORKFLOW, request)

    async def check_workflow(self, workflow: pb.Workflow) -> pb.ApplyWorkflowResponse:
        """Asks what `apply_workflow` would answer now; nothing is stored.

        Returns:
            The workflow as it would be stored, with its version and without a time, and whether it would be a new one.

        Raises:
            InvalidInput: As for `apply_workflow`.
        """
        request = pb.ApplyWorkflowRequest(workflow=workflow, validate_only=True)
        return await self._session.caller.call(methods.APPLY_WORKFLOW, request)

    async def get_workflow(self, name: str, version: int = 0) -> pb.Workflow:
        """Reads a workflow.

        Args:
            name: Its name.
            version: Which version. 0: the newest.

        Raises:
            NotFound: There is none of that name, or no such version.
        """
        request = pb.GetWorkflowRequest(name=name, version=version)
        return (await self._session.caller.call(methods.GET_WORKFLOW, request)).workflow

    async def delete_workflow(self, name: str) -> int:
        """Deletes a workflow: it starts no more runs. The runs that it had stay as they are.

        Returns:
            Its newest version, by which `get_workflow` still reads it.

        Raises:
            NotFound: There is none of that name.
            WrongState: Runs of it have not ended.
        """
        request = pb.DeleteWorkflowRequest(request_id=self._session.request_ids.one(), name=name)
        return (await self._session.caller.call(methods.DELETE_WORKFLOW, request)).version

    def list_workflows(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.Workflow, None]:
        """Yields the newest version of each workflow, without steps, by name.

        Args:
            filter: Which ones, for example `name == "nightly"` or `source == "team-a"`. Empty: all.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = pb.ListWorkflowsRequest(page_size=page_size_for(page_size, limit), filter=filter)
        return pages(self._session, methods.LIST_WORKFLOWS, request, lambda page: page.workflows, limit)

    async def start_run(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        version: int = 0,
        priority: int | None = None,
        idempotency_key: str = "",
        request_id: str = "",
        schedule_time: datetime | None = None,
        start_delay: Seconds | None = None,
        expire_time: datetime | None = None,
        tags: Iterable[str] = (),
    ) -> RunHandle:
        """Starts one run; answered when it is committed. Concurrent starts share calls.

        The arguments are those of `new_run`.

        Raises:
            InvalidInput: The scheduler refused it, or the inputs cannot be written as JSON.
            NotFound: There is no such workflow.
            TaskyardError: See errors.py.
        """
        run = new_run(
            workflow,
            inputs,
            version=version,
            priority=priority,
            idempotency_key=idempotency_key,
            request_id=request_id or self._session.request_ids.one(),
            schedule_time=schedule_time,
            start_delay=start_delay,
            expire_time=expire_time,
            tags=tags,
        )
        outcome = await self._starts.add(run, self._session.timeout)
        if not outcome.run_id:
            raise error_of_refusal(outcome.refusal)
        return RunHandle(self, outcome.run_id, repeated=outcome.repeated_request)

    async def start_runs(self, runs: Iterable[pb.RunSubmission], *, atomic: bool = False) -> list[Outcome[RunHandle]]:
        """Starts a list of runs that `new_run` made; each has its own outcome, in the same order.

        Args:
            runs: The runs; not changed. Long lists are split into several calls.
            atomic: True: one bad run refuses all; then at most 10,000 runs and 16 MiB.

        Raises:
            TaskyardError: Nothing is known to have arrived; a repeat with the same request ids is harmless.
        """
        items = list(runs)
        if not items:
            return []
        if atomic:
            answers: Sequence[pb.StartOutcome | TaskyardError] = await self._send_runs(
                items, self._session.timeout, atomic=True
            )
        else:
            answers = await send_parts(items, lambda part: self._send_runs(part, self._session.timeout))
        return [self._started(at, answer) for at, answer in enumerate(answers)]

    async def check_runs(self, runs: Sequence[pb.RunSubmission]) -> list[Checked[pb.RunCheck]]:
        """Asks what would become of runs that `new_run` made; nothing is started.

        Args:
            runs: 1 to 10,000 runs.

        Returns:
            For each, in the same order, what would become of it or why it would be refused.
        """
        request = pb.StartRunsRequest(runs=runs, validate_only=True)
        response = await self._session.caller.call(methods.START_RUNS, request)
        return [_checked(f"runs[{at}]", each) for at, each in enumerate(response.outcomes)]

    def _started(self, at: int, answer: pb.StartOutcome | TaskyardError) -> Outcome[RunHandle]:
        if isinstance(answer, TaskyardError):
            return Outcome(None, answer)
        if answer.run_id:
            return Outcome(RunHandle(self, answer.run_id, repeated=answer.repeated_request), None)
        return Outcome(None, error_of_refusal(answer.refusal, item=f"runs[{at}]"))

    async def _send_runs(
        self, items: Sequence[pb.RunSubmission], timeout: float, *, atomic: bool = False
    ) -> Sequence[pb.StartOutcome]:
        request = pb.StartRunsRequest(runs=items, atomic=atomic)
        self._session.request_ids.fill(request.runs)
        response = await self._session.caller.call(methods.START_RUNS, request, timeout)
        if len(response.outcomes) != len(items):
            raise ServerError(f"{len(items)} runs were sent and {len(response.outcomes)} outcomes came back")
        return response.outcomes

    def run(self, run_id: str) -> RunHandle:
        """Returns a handle for a run that exists; nothing is asked."""
        return RunHandle(self, run_id)

    async def get_run(self, run_id: str) -> pb.GetRunResponse:
        """Reads a run with its steps.

        Raises:
            NotFound: There is none of that id.
        """
        return await self._session.caller.call(methods.GET_RUN, pb.GetRunRequest(run_id=run_id))

    def list_runs(
        self, *, filter: str = "", order_by: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.Run, None]:
        """Yields runs, newest first.

        Args:
            filter: Which ones, for example `workflow == "nightly" && state == "FAILED"`. Empty: all.
            order_by: `create_time desc` or `create_time`. Empty: newest first.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = pb.ListRunsRequest(page_size=page_size_for(page_size, limit), filter=filter, order_by=order_by)
        return pages(self._session, methods.LIST_RUNS, request, lambda page: page.runs, limit)

    async def count_runs(self, filter: str = "", *, by: str = "") -> pb.CountRunsResponse:
        """Counts runs, in all and by the values of a field.

        Args:
            filter: Which ones, as for `list_runs`. Empty: all that are stored.
            by: `state`, `workflow` or `version`; the answer's `groups` are its values. Empty: none.

        Raises:
            InvalidInput: The filter breaks its rules, or runs are not counted by that field.
        """
        return await self._session.caller.call(methods.COUNT_RUNS, pb.CountRunsRequest(filter=filter, group_by=by))

    async def cancel_run(self, run_id: str, reason: str = "", *, terminate: bool = False) -> pb.RunState.ValueType:
        """Cancels a run and every step of it that has not ended.

        Args:
            run_id: Which.
            reason: For people; kept with it.
            terminate: True: its steps are stopped without grace, see `cancel_task`.

        Returns:
            CANCELLED, or CANCELLING until every step has confirmed.

        Raises:
            NotFound: There is none of that id.
            AlreadyEnded: It has ended otherwise.
        """
        mode = STOP_MODE_TERMINATE if terminate else STOP_MODE_UNSPECIFIED
        request_id = self._session.request_ids.one()
        request = pb.CancelRunRequest(request_id=request_id, run_id=run_id, reason=reason, mode=mode)
        return (await self._session.caller.call(methods.CANCEL_RUN, request)).state

    async def retry_run(self, run_id: str, from_steps: Iterable[str] = ()) -> pb.RetryRunResponse:
        """Runs steps of a run again, and goes on from there.

        Args:
            run_id: Which.
            from_steps: Ended steps that run again with everything downstream of them. None: all that failed, timed out
                or were cancelled; what succeeded stays as it is.

        Raises:
            NotFound: There is none of that id.
            InvalidInput: It has no such step.
            WrongState: Nothing ended badly, a step that would run again has not ended, or the run is being cancelled.
        """
        request = pb.RetryRunRequest(request_id=self._session.request_ids.one(), run_id=run_id, from_steps=from_steps)
        return await self._session.caller.call(methods.RETRY_RUN, request)

    async def watch_run(self, run_id: str, *, after_revision: int = 0) -> AsyncGenerator[pb.WatchRunResponse, None]:
        """Yields how a run stands and each change of it or its steps until it has ended, over cuts.

        Args:
            run_id: Which.
            after_revision: Only what is newer than this. 0: everything.

        Raises:
            NotFound: There is none of that id.
        """
        position = pb.WatchRunRequest(run_id=run_id, after_revision=after_revision)
        ended = False
        changes = self._session.caller.stream(methods.WATCH_RUN, lambda: position, lambda: ended)
        async with aclosing(changes):
            async for change in changes:
                position.after_revision = change.revision
                ended = change.run.state in RUN_ENDED
                yield change
                if ended:
                    return

    async def wait_run(self, run_id: str, timeout: float | None = None) -> pb.Run:
        """Waits for a run's end, good or bad.

        Args:
            run_id: Which.
            timeout: Seconds. None: as long as it takes.

        Raises:
            NotFound: There is none of that id.
            DeadlineExceeded: It has not ended by then; it goes on.
        """
        last = pb.Run()
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch_run(run_id)) as changes:
                async for change in changes:
                    last = change.run
        except TimeoutError:
            raise DeadlineExceeded(
                f"run {run_id} has not ended within {timeout:g} s and goes on "
                f"({last.steps_ended} of {last.steps_total} steps have ended); `taskyard runs show {run_id}`"
            ) from None
        return last


def _checked(item: str, answer: pb.StartOutcome) -> Checked[pb.RunCheck]:
    if answer.HasField("refusal"):
        return Checked(None, error_of_refusal(answer.refusal, item=item))
    return Checked(answer.check, None)
