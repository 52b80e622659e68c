"""The calls for what people do by hand: say how something has ended, bring a result from outside, run everywhere."""

from __future__ import annotations

from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard.v1 import workflows_pb2
from taskyard_client import methods
from taskyard_client.session import Session
from taskyard_client.submissions import json_value


class HandCalls:
    """MarkTask, MarkStep, CompleteTask and BroadcastTask.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def mark_task(
        self, task_id: str, marked_as: pb.MarkedAs.ValueType, *, output: Any = None, reason: str = ""
    ) -> pb.TaskStatus.ValueType:
        """Ends a task as a person says it is; its run goes on from there, also one that has ended.

        Args:
            task_id: Which.
            marked_as: SUCCESS or SKIPPED.
            output: For SUCCESS: what it is to have returned, anything that JSON can hold. None: nothing.
            reason: For people; kept with it.

        Returns:
            SUCCESS or SKIPPED; CANCELLING until its worker has confirmed that it stopped.

        Raises:
            NotFound: There is none of that id.
            WrongState: It succeeded, is skipped already, or is being stopped.
            InvalidInput: The output cannot be written as JSON, or belongs to SUCCESS alone.
        """
        request = pb.MarkTaskRequest(
            request_id=self._session.request_ids.one(),
            task_id=task_id,
            marked_as=marked_as,
            output_json=json_value(output, "output"),
            reason=reason,
        )
        return (await self._session.caller.call(methods.MARK_TASK, request)).status

    async def mark_step(
        self, run_id: str, step_id: str, marked_as: pb.MarkedAs.ValueType, *, output: Any = None, reason: str = ""
    ) -> workflows_pb2.MarkStepResponse:
        """Ends a step of a run as a person says it is, also one that has not begun; see `mark_task`.

        Raises:
            NotFound: There is no such run, or it has no such step.
            WrongState: As for `mark_task`, or the run has not begun.
            InvalidInput: As for `mark_task`.
        """
        request = workflows_pb2.MarkStepRequest(
            request_id=self._session.request_ids.one(),
            run_id=run_id,
            step_id=step_id,
            marked_as=marked_as,
            output_json=json_value(output, "output"),
            reason=reason,
        )
        return await self._session.caller.call(methods.MARK_STEP, request)

    async def complete_task(self, token: str, output: Any = None, *, request_id: str = "") -> pb.TaskStatus.ValueType:
        """Ends an attempt well whose handler has said that its result comes from outside.

        Args:
            token: As the handler gave it out: `ctx.completion_token`.
            output: What the task is to return, anything that JSON can hold. None: nothing.
            request_id: Makes a repeat harmless, such as one of a webhook. Empty: the client gives one.

        Returns:
            SUCCESS.

        Raises:
            NotFound: There is no task of that token.
            WrongState: The token's attempt is over (STALE_ATTEMPT), the task is being stopped, or it is exclusive and
                its handler has not ended yet. Nothing is changed.
            InvalidInput: It is no such token, or the output cannot be written as JSON.
        """
        return await self._complete(
            pb.CompleteTaskRequest(
                request_id=request_id,
                token=token,
                status=pb.TaskStatus.TASK_STATUS_SUCCESS,
                output_json=json_value(output, "output"),
            )
        )

    async def fail_task(
        self, token: str, message: str, *, kind: str = "", request_id: str = ""
    ) -> pb.TaskStatus.ValueType:
        """Ends an attempt badly whose handler has said that its result comes from outside; see `complete_task`.

        Args:
            token: As the handler gave it out.
            message: Why, for people.
            kind: Machine-readable: NON_RETRYABLE, INVALID_INPUT or PERMISSION_DENIED let no further attempt follow.
                Empty: HANDLER_ERROR.
            request_id: Makes a repeat harmless. Empty: the client gives one.

        Returns:
            FAILED, or PENDING or QUEUED when another attempt follows; that one has another token.

        Raises:
            NotFound: There is no task of that token.
            WrongState: As for `complete_task`.
        """
        return await self._complete(
            pb.CompleteTaskRequest(
                request_id=request_id,
                token=token,
                status=pb.TaskStatus.TASK_STATUS_FAILED,
                error_message=message,
                error_kind=kind,
            )
        )

    async def _complete(self, request: pb.CompleteTaskRequest) -> pb.TaskStatus.ValueType:
        if not request.request_id:
            request.request_id = self._session.request_ids.one()
        return (await self._session.caller.call(methods.COMPLETE_TASK, request)).status

    async def broadcast_task(self, task: pb.TaskSubmission, *, request_id: str = "") -> pb.BroadcastTaskResponse:
        """Submits a task that `new_task` made once for each worker that would take it now.

        Args:
            task: The task; its own request id is not used.
            request_id: Makes a repeat harmless. Empty: the client gives one.

        Returns:
            The copies, each a task of its own that goes to no other worker, and the workers that were left out.

        Raises:
            WrongState: No worker matches.
            InvalidInput: The scheduler refused it.
        """
        request = pb.BroadcastTaskRequest(request_id=request_id or self._session.request_ids.one(), task=task)
        return await self._session.caller.call(methods.BROADCAST_TASK, request)
