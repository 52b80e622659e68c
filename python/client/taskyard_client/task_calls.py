"""The calls about tasks: submit, look, wait, stop, try again, ask why. Definitions: definition_calls.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_client import methods
from taskyard_client.artifact_calls import ArtifactCalls
from taskyard_client.coalescer import Coalescer
from taskyard_client.errors import DeadlineExceeded, ServerError, TaskyardError
from taskyard_client.handles import Checked, Outcome, TaskHandle
from taskyard_client.lists import send_parts
from taskyard_client.policies import Placement, Resources, Retry, Seconds, Timeouts
from taskyard_client.session import Session, page_size_for, pages
from taskyard_client.statuses import error_of_refusal
from taskyard_client.submissions import new_task, new_trigger, zoned
from taskyard_client.watcher import ENDED, ManyTasks, OneTask, TaskWatcher


class TaskCalls:
    """Calls of TaskService.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.artifacts = ArtifactCalls(session)
        self._watcher = TaskWatcher(session.caller, session.background)
        self._submits: Coalescer[pb.TaskSubmission, pb.SubmitOutcome] = Coalescer(
            "submit", self._send_tasks, lambda task: task.ByteSize(), session.background
        )

    def close_tasks(self) -> None:
        """Fails everything that waits here."""
        self._submits.close()
        self._watcher.close()

    async def submit(
        self,
        task_type: str = "",
        input: Mapping[str, Any] | None = None,
        *,
        task_name: str = "",
        params: Mapping[str, str] | None = None,
        priority: int | None = None,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        selector: str = "",
        placement: Placement | None = None,
        resources: Resources | None = None,
        exclusive: bool | None = None,
        idempotency_key: str = "",
        request_id: str = "",
        traceparent: str = "",
        schedule_time: datetime | None = None,
        start_delay: Seconds | None = None,
        expire_time: datetime | None = None,
        tags: Iterable[str] = (),
    ) -> TaskHandle:
        """Submits one task; answered when it is committed. Concurrent submissions share calls.

        The arguments are those of `new_task`.

        Raises:
            InvalidInput: The scheduler refused it, or the input cannot be written as JSON.
            NotFound: There is no definition `task_name`.
            TaskyardError: See errors.py.
        """
        return await self.submit_task(
            new_task(
                task_type,
                input,
                task_name=task_name,
                params=params,
                priority=priority,
                retry=retry,
                timeouts=timeouts,
                selector=selector,
                placement=placement,
                resources=resources,
                exclusive=exclusive,
                idempotency_key=idempotency_key,
                request_id=request_id or self._session.request_ids.one(),
                traceparent=traceparent,
                schedule_time=schedule_time,
                start_delay=start_delay,
                expire_time=expire_time,
                tags=tags,
            )
        )

    async def submit_task(self, task: pb.TaskSubmission) -> TaskHandle:
        """Submits one task that `new_task` made; like `submit`."""
        if not task.request_id:  # here and not when it is sent: it may have to be sent twice
            given, task = task, pb.TaskSubmission(request_id=self._session.request_ids.one())
            task.MergeFrom(given)
        outcome = await self._submits.add(task, self._session.timeout)
        if not outcome.task_id:
            raise error_of_refusal(outcome.refusal)
        return TaskHandle(self, outcome.task_id, repeated=outcome.repeated_request)

    async def submit_many(
        self, tasks: Iterable[pb.TaskSubmission], *, atomic: bool = False
    ) -> list[Outcome[TaskHandle]]:
        """Submits a list of tasks that `new_task` made; each has its own outcome, in the same order.

        Args:
            tasks: The tasks; not changed. Long lists are split into several calls.
            atomic: True: one bad task refuses all; then at most 10,000 tasks and 16 MiB.

        Raises:
            TaskyardError: Nothing is known to have arrived; a repeat with the same request ids is harmless.
        """
        items = list(tasks)
        if not items:
            return []
        if atomic:
            answers: Sequence[pb.SubmitOutcome | TaskyardError] = await self._send_tasks(
                items, self._session.timeout, atomic=True
            )
        else:
            answers = await send_parts(items, lambda part: self._send_tasks(part, self._session.timeout))
        return [self._submitted(at, answer) for at, answer in enumerate(answers)]

    def _submitted(self, at: int, answer: pb.SubmitOutcome | TaskyardError) -> Outcome[TaskHandle]:
        if isinstance(answer, TaskyardError):
            return Outcome(None, answer)
        if answer.task_id:
            return Outcome(TaskHandle(self, answer.task_id, repeated=answer.repeated_request), None)
        return Outcome(None, error_of_refusal(answer.refusal, item=f"tasks[{at}]"))

    async def check_tasks(self, tasks: Sequence[pb.TaskSubmission]) -> list[Checked[pb.TaskCheck]]:
        """Asks what would become of tasks that `new_task` made; nothing is submitted.

        Args:
            tasks: 1 to 10,000 tasks.

        Returns:
            For each, in the same order, what would become of it or why it would be refused.
        """
        request = pb.SubmitTasksRequest(tasks=tasks, validate_only=True)
        response = await self._session.caller.call(methods.SUBMIT_TASKS, request)
        return [_checked(f"tasks[{at}]", each) for at, each in enumerate(response.outcomes)]

    async def _send_tasks(
        self, items: Sequence[pb.TaskSubmission], timeout: float, *, atomic: bool = False
    ) -> Sequence[pb.SubmitOutcome]:
        request = pb.SubmitTasksRequest(tasks=items, atomic=atomic)
        self._session.request_ids.fill(request.tasks)
        response = await self._session.caller.call(methods.SUBMIT_TASKS, request, timeout)
        if len(response.outcomes) != len(items):
            raise ServerError(f"{len(items)} tasks were sent and {len(response.outcomes)} outcomes came back")
        return response.outcomes

    async def trigger(
        self, name: str, input: Mapping[str, Any] | None = None, *, params: Mapping[str, str] | None = None
    ) -> TaskHandle:
        """Makes a task of the definition `name`.

        Args:
            name: The definition's.
            input: Over the definition's, member by member.
            params: Over the definition's.

        Raises:
            InvalidInput: The scheduler refused it, or the input cannot be written as JSON.
            NotFound: There is none of that name.
        """
        request = new_trigger(name, input, params=params, request_id=self._session.request_ids.one())
        response = await self._session.caller.call(methods.TRIGGER_TASK, request)
        return TaskHandle(self, response.task_id)

    def task(self, task_id: str) -> TaskHandle:
        """Returns a handle for a task that exists; nothing is asked."""
        return TaskHandle(self, task_id)

    async def get_task(self, task_id: str) -> pb.GetTaskResponse:
        """Reads a task with its attempts.

        Raises:
            NotFound: There is none of that id.
        """
        return await self._session.caller.call(methods.GET_TASK, pb.GetTaskRequest(task_id=task_id))

    def list_tasks(
        self, *, filter: str = "", order_by: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.TaskInstance, None]:
        """Yields tasks, newest first.

        Args:
            filter: Which ones, for example `status == "FAILED" && task_type == "shell"`. Empty: all.
            order_by: `create_time desc` or `create_time`. Empty: newest first.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        size = page_size_for(page_size, limit)
        request = pb.ListTasksRequest(page_size=size, filter=filter, order_by=order_by)
        return pages(self._session, methods.LIST_TASKS, request, lambda page: page.tasks, limit)

    async def count_tasks(self, filter: str = "", *, by: str = "") -> pb.CountTasksResponse:
        """Counts tasks, in all and by the values of a field.

        Args:
            filter: Which ones, as for `list_tasks`. Empty: all that are stored.
            by: A field such as `error.kind` or `status`; the answer's `groups` are its values. Empty: none.

        Raises:
            InvalidInput: The filter breaks its rules, or tasks are not counted by that field; says by which they are.
        """
        return await self._session.caller.call(methods.COUNT_TASKS, pb.CountTasksRequest(filter=filter, group_by=by))

    async def cancel_task(self, task_id: str, reason: str = "", *, terminate: bool = False) -> pb.TaskStatus.ValueType:
        """Cancels a task; durable when answered.

        Args:
            task_id: Which.
            reason: For people; kept with it.
            terminate: True: without grace, and without waiting for its worker, unless it is exclusive.

        Returns:
            CANCELLED, or CANCELLING until its worker confirms.

        Raises:
            NotFound: There is none of that id.
            AlreadyEnded: It has ended otherwise.
        """
        mode = pb.STOP_MODE_TERMINATE if terminate else pb.STOP_MODE_UNSPECIFIED
        request_id = self._session.request_ids.one()
        request = pb.CancelTaskRequest(request_id=request_id, task_id=task_id, reason=reason, mode=mode)
        return (await self._session.caller.call(methods.CANCEL_TASK, request)).status

    async def requeue_task(self, task_id: str) -> pb.TaskStatus.ValueType:
        """Gives a task back to its queue: from its worker, or from the wait for its time. No retry is spent.

        Returns:
            QUEUED, or CANCELLING for an exclusive task until its worker confirms.

        Raises:
            NotFound: There is none of that id.
            WrongState: It is in its queue, is being stopped, waits for other steps, or has ended.
        """
        request = pb.RequeueTaskRequest(request_id=self._session.request_ids.one(), task_id=task_id)
        return (await self._session.caller.call(methods.REQUEUE_TASK, request)).status

    async def prioritize_task(self, task_id: str, priority: int) -> pb.TaskStatus.ValueType:
        """Gives a task another priority, 1 (first) to 10 (last), and so another place in its queue.

        Raises:
            NotFound: There is none of that id.
            AlreadyEnded: It has ended.
            InvalidInput: There is no such priority.
        """
        request_id = self._session.request_ids.one()
        request = pb.PrioritizeTaskRequest(request_id=request_id, task_id=task_id, priority=priority)
        return (await self._session.caller.call(methods.PRIORITIZE_TASK, request)).status

    async def retry_task(self, task_id: str) -> pb.TaskStatus.ValueType:
        """Runs an ended task again with all its attempts.

        Raises:
            NotFound: There is none of that id.
            WrongState: It has not ended, or it succeeded.
        """
        request = pb.RetryTaskRequest(request_id=self._session.request_ids.one(), task_id=task_id)
        return (await self._session.caller.call(methods.RETRY_TASK, request)).status

    async def watch_tasks(
        self, task_ids: Iterable[str], *, after_revision: int = 0
    ) -> AsyncGenerator[pb.WatchTasksResponse, None]:
        """Yields how tasks stand and each change of them until all have ended, over cuts of the connection.

        Args:
            task_ids: 1 to 10,000 ids.
            after_revision: Only what is newer than this. 0: everything.

        Raises:
            NotFound: One of them is not known.
        """
        left = dict.fromkeys(task_ids)
        revision = after_revision

        def request() -> pb.WatchTasksRequest:
            return pb.WatchTasksRequest(task_ids=left, after_revision=revision)

        changes = self._session.caller.stream(methods.WATCH_TASKS, request, lambda: not left)
        async with aclosing(changes):
            async for change in changes:
                revision = change.revision
                for task in change.tasks:
                    if task.status in ENDED:
                        left.pop(task.task_id, None)
                yield change
                if not left:
                    return

    async def wait_task(self, task_id: str, timeout: float | None = None) -> pb.TaskInstance:
        """Waits for a task's end, good or bad. Those who wait at the same time share streams.

        Args:
            task_id: Which.
            timeout: Seconds. None: as long as it takes.

        Raises:
            NotFound: There is none of that id.
            DeadlineExceeded: It has not ended by then; it goes on.
        """
        waiter = OneTask()
        self._watcher.watch((task_id,), waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.future
        except TimeoutError:
            raise DeadlineExceeded(
                f"task {task_id} has not ended within {timeout:g} s and goes on; `taskyard explain {task_id}`"
            ) from None
        finally:
            self._watcher.forget((task_id,), waiter)

    async def wait_tasks(self, task_ids: Iterable[str], timeout: float | None = None) -> dict[str, pb.TaskInstance]:
        """Waits until all of many tasks have ended, good or bad; cheaper than waiting for each.

        Args:
            task_ids: Which.
            timeout: Seconds. None: as long as it takes.

        Raises:
            NotFound: One of them is not known.
            DeadlineExceeded: One has not ended by then; all go on.
        """
        ids = dict.fromkeys(task_ids)
        if not ids:
            return {}
        waiter = ManyTasks(ids)
        self._watcher.watch(ids, waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter.future
        except TimeoutError:
            raise DeadlineExceeded(
                f"{waiter.missing} of {len(ids)} tasks have not ended within {timeout:g} s and go on"
            ) from None
        finally:
            self._watcher.forget([task_id for task_id in ids if task_id not in waiter.ends], waiter)
        return {task_id: waiter.ends[task_id] for task_id in ids}

    def logs(
        self,
        task_id: str,
        *,
        attempt: int = 0,
        follow: bool = False,
        contains: str = "",
        since: datetime | None = None,
        streams: Iterable[str] = (),
    ) -> AsyncGenerator[pb.StoredLogLine, None]:
        """Yields log lines of a task.

        The text of the stream `output` as it came is each line's text, and a line feed after it unless it is `partial`.

        Args:
            task_id: Which.
            attempt: Which attempt. 0: the last. Not used with `follow`.
            follow: True: all attempts' lines, and new ones as they come, until the task has ended.
            contains: Only lines whose text has this in it, whatever its case. Empty: all.
            since: Only lines written then or later, by the worker's clock. None: all.
            streams: Only lines of these: `stdout`, `stderr`, `log`, `output`. Empty: all.

        Raises:
            InvalidInput: `contains` is too long, or there is no such stream.
            NotFound: There is no such task or attempt.
            Gone: Lines that are to come next were removed.
        """
        selection = None
        wanted = [streams] if isinstance(streams, str) else list(streams)
        if contains or wanted or since is not None:
            selection = pb.LogSelection(contains=contains, streams=wanted)
        if selection is not None and since is not None:
            selection.since.FromDatetime(zoned(since, "since"))
        if follow:
            return self._follow_logs(task_id, selection)
        request = pb.GetLogsRequest(task_id=task_id, attempt=attempt, selection=selection)
        return pages(self._session, methods.GET_LOGS, request, lambda page: page.lines, None)

    async def _follow_logs(
        self, task_id: str, selection: pb.LogSelection | None
    ) -> AsyncGenerator[pb.StoredLogLine, None]:
        position = pb.StreamLogsRequest(task_id=task_id, selection=selection)
        # The stream's end is the task's: only the scheduler knows whether more lines will come.
        chunks = self._session.caller.stream(methods.STREAM_LOGS, lambda: position, lambda: True)
        async with aclosing(chunks):
            async for chunk in chunks:
                for line in chunk.lines:
                    yield line
                    position.after_attempt, position.after_line = line.attempt, line.line

    async def explain(self, task_id: str) -> pb.ExplainTaskResponse:
        """Says why a task is where it is.

        Raises:
            NotFound: There is none of that id.
        """
        return await self._session.caller.call(methods.EXPLAIN_TASK, pb.ExplainTaskRequest(task_id=task_id))


def _checked(item: str, answer: pb.SubmitOutcome) -> Checked[pb.TaskCheck]:
    if answer.HasField("refusal"):
        return Checked(None, error_of_refusal(answer.refusal, item=item))
    return Checked(answer.check, None)
