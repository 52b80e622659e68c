"""All attempts of this worker: takes the scheduler's frames in, gives the worker's frames out. Never waits.

Knows nothing of connections: what is said at the start of a stream and when to send is `session`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from taskyard.v1.tasks_pb2 import (
    TASK_STATUS_CANCELLED,
    TASK_STATUS_INTERRUPTED,
    TASK_STATUS_SUCCESS,
    TASK_STATUS_TIMEOUT,
)
from taskyard.v1.workers_pb2 import (
    AssignTaskRequest,
    AssignTaskResponse,
    CancelAttempt,
    CheckpointAck,
    TaskAssignment,
)
from taskyard_worker.attempts import Attempt, Stop, StopCause
from taskyard_worker.confirmation import Confirmations, Doubt
from taskyard_worker.credits import Credits
from taskyard_worker.exclusive import Exclusives, cannot_be_exclusive
from taskyard_worker.keys import KeyMemory
from taskyard_worker.logbook import LogBook
from taskyard_worker.metrics import WorkerMetrics
from taskyard_worker.outbox import Outbox
from taskyard_worker.outcome import STOPPED, Outcome, unknown_type
from taskyard_worker.registry import Handler, TaskRegistry
from taskyard_worker.results import KeptResults
from taskyard_worker.runner import Isolation, Runner, Threads
from taskyard_worker.stopping import DEFAULT_GRACE_S, Stopper, order_to_stop, stopped_outcome
from taskyard_worker.transfers import Transfers

_CAUSES = {"timeout": StopCause.TIMEOUT, "fenced": StopCause.FENCED}


@dataclass(frozen=True, slots=True)
class Places:
    """Where handlers run that are not on the event loop, and what brings artifacts to and fro."""

    threads: Threads
    isolation: Isolation | None = None
    transfers: Transfers | None = None


class Work:
    """The attempts that run here and the results that are not acknowledged.

    Args:
        worker_id: The worker's id.
        slots: How many attempts may run at once.
        registry: The handlers; `*` is the handler of every type that has none.
        results: Results, with those of an earlier life.
        keys: Memory of idempotency keys.
        logbook: Takes the attempts' log lines.
        metrics: Counts the attempts.
        places: Where handlers run that are not on the event loop.
        wake: Called when there is something to send.
        beat_now: Called when an attempt waits for a heartbeat's answer.
        broken: Called with an error that must stop the worker.

    Attributes:
        doubt: Marked while the event loop is held.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        slots: int,
        registry: TaskRegistry,
        results: KeptResults,
        keys: KeyMemory,
        logbook: LogBook,
        metrics: WorkerMetrics,
        places: Places,
        wake: Callable[[], None],
        beat_now: Callable[[], None],
        broken: Callable[[BaseException], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.worker_id = worker_id
        self.draining = False
        self.idle = asyncio.Event()
        self.idle.set()
        self.all_acknowledged = asyncio.Event()
        self._credits = Credits(slots)
        self._registry = registry
        self._results = results
        self._keys = keys
        self._logbook = logbook
        self._metrics = metrics
        self._wake = wake
        self._outbox = Outbox(wake)
        self.doubt = Doubt()
        self._runner = Runner(self.loop, self, places.threads, places.isolation, broken, self.doubt, places.transfers)
        self.transfers = places.transfers
        self._confirmations = Confirmations(self.doubt, self._confirmed, beat_now)
        self._stopper = Stopper(self.loop, Attempt.cannot_be_stopped)
        self._exclusives = Exclusives(self.loop, places.isolation)
        self._entering: list[Attempt] = []  # confirmed: they start when the next frame has been sent
        self._running: dict[str, Attempt] = {}
        self._stream = 0
        self._draining_sent = False
        self._note_acknowledged()

    @property
    def active(self) -> int:
        """How many attempts run."""
        return len(self._running)

    @property
    def unacknowledged(self) -> int:
        """How many results wait for their acknowledgement."""
        return len(self._results)

    @property
    def running(self) -> list[Attempt]:
        """The attempts that run, oldest first."""
        return list(self._running.values())

    def held_tokens(self) -> Iterator[str]:
        """Iterate over the tokens of every attempt that runs or whose result is not acknowledged."""
        yield from self._running
        yield from self._results.tokens()

    def entered_tokens(self) -> list[str]:
        """Return the tokens of what was entered and may not have been acknowledged, ended or not. From any thread."""
        running = list(self._running.values())  # at once: the loop may go on meanwhile
        return [attempt.token for attempt in running if attempt.lane is not None] + list(self._results.tokens())

    def renewed(self, tokens: Sequence[str], since: float, lost: Sequence[str] = ()) -> None:
        """Note that a heartbeat sent at `since` (loop time) with these tokens was answered: their leases run anew.

        But for those that the answer calls lost: they are no attempts of this worker any more, and what runs under them
        stops. What waited for this answer starts.
        """
        for token in lost:
            attempt = self._running.get(token)
            if attempt is not None:
                self._stop(attempt, order_to_stop(StopCause.FENCED))
        self._exclusives.renew(tokens, since, frozenset(lost))
        self._confirmations.answered(tokens, since)

    def _confirmed(self, attempts: Sequence[Attempt]) -> None:
        """Acknowledge a start before the handler is entered: it may be late, and hold the loop in its turn."""
        first = attempts[0]  # of those behind it nobody knows when they are entered
        self._outbox.started(first.token, first.task_id)
        self._entering.extend(attempts)

    def frames_sent(self) -> None:
        """All that was to be said is with the transport, or waits for another stream."""
        if self._entering:
            attempts, self._entering = self._entering, []
            self._runner.dispatch(attempts)

    # --- frames in -------------------------------------------------------------------------------

    def receive(self, frame: AssignTaskResponse) -> None:
        """Take a frame from the scheduler; what it assigns starts at once."""
        if frame.result_acks:
            self._results.acknowledge(frame.result_acks)
            self._note_acknowledged()
        for order in frame.cancels:
            self._cancel(order)
        for ack in frame.checkpoint_acks:
            self._checkpoint_acknowledged(ack)
        if frame.assignments:
            self._take(frame.assignments)

    def _take(self, assignments: Iterable[TaskAssignment]) -> None:
        starting: list[Attempt] = []
        running, get, stream, credits = self._running, self._registry.get, self._stream, self._credits
        for assignment in assignments:
            token = assignment.attempt_token
            if token in running or token in self._results:
                self._seen_again(token)
                continue
            credits.received += 1
            handler = get(assignment.task_type) or get("*")
            if handler is None or self.draining:
                self._hand_back(assignment, token)
                continue
            if assignment.idempotency_key and self._answered(assignment, token):
                continue
            if assignment.exclusive:
                self._take_exclusive(assignment, token, handler)
                continue
            attempt = Attempt(assignment, token, handler, self, stream)
            running[token] = attempt
            starting.append(attempt)
        if starting:
            self.idle.clear()
            if self.doubt.lingers:
                self._confirmations.hold(starting)
            else:
                self._runner.dispatch(starting)

    def _seen_again(self, token: str) -> None:
        """Count an assignment that is held already when it is the first of its kind on this stream."""
        attempt, stream = self._running.get(token), self._stream
        if attempt is None:
            new = self._results.brought_again(token, stream)
        else:
            new = attempt.stream != stream
            attempt.stream = stream
        if new:
            self._credits.received += 1
            self._wake()

    def _take_exclusive(self, assignment: TaskAssignment, token: str, handler: Handler) -> None:
        """Run an attempt where it can be killed, once a heartbeat has confirmed its lease."""
        killable = self._exclusives.killable(handler)
        if killable is None:
            self._result(assignment.task_id, token, cannot_be_exclusive(assignment.task_type, handler), self._stream)
            return
        attempt = self._running[token] = Attempt(assignment, token, killable, self, self._stream)
        self.idle.clear()
        self._exclusives.take(attempt)
        self._confirmations.hold((attempt,))

    def _hand_back(self, assignment: TaskAssignment, token: str) -> None:
        """Answer an assignment that this worker cannot take."""
        if self.draining:
            outcome = Outcome(TASK_STATUS_INTERRUPTED, error="the worker stops")
        else:
            outcome = unknown_type(assignment.task_type)
        self._result(assignment.task_id, token, outcome, self._stream)

    def _answered(self, assignment: TaskAssignment, token: str) -> bool:
        """Answer an assignment from memory, if its key is in there; return whether it was."""
        first = self._keys.find(assignment.tenant, assignment.idempotency_key)
        if first is None:
            return False
        self._result(assignment.task_id, token, Outcome(TASK_STATUS_SUCCESS, first), self._stream)
        return True

    def _cancel(self, order: CancelAttempt) -> None:
        cause = _CAUSES.get(order.reason, StopCause.CANCELLED)
        attempt = self._running.get(order.attempt_token)
        if attempt is not None:
            self._stop(attempt, order_to_stop(cause, order.grace_ms / 1000))
        elif order.attempt_token not in self._results and cause is not StopCause.FENCED:
            # Nothing of the kind runs here, which is what the scheduler wants to hear.
            status = TASK_STATUS_TIMEOUT if cause is StopCause.TIMEOUT else TASK_STATUS_CANCELLED
            answer = Outcome(status, error="the attempt does not run here")
            self._result(order.task_id, order.attempt_token, answer, stream=0)

    def _stop(self, attempt: Attempt, order: Stop) -> None:
        self._stopper.stop(attempt, order)
        if self._confirmations.release(attempt):
            self.attempt_ended(attempt, STOPPED, 0.0)

    def _checkpoint_acknowledged(self, ack: CheckpointAck) -> None:
        attempt = self._running.get(ack.attempt_token)
        if attempt is not None:
            attempt.checkpoint_acknowledged(ack.checkpoint_number)

    # --- frames out ------------------------------------------------------------------------------

    def hello(self, session_epoch: int) -> AssignTaskRequest:
        """Begin a new stream: return its first frame."""
        self._stream += 1
        frame = AssignTaskRequest(draining=self.draining)
        self._draining_sent = self.draining
        frame.credits = self._credits.begin(len(self._running))
        hello = frame.hello
        hello.worker_id = self.worker_id
        hello.session_epoch = session_epoch
        for attempt in self._running.values():
            hello.attempts.add(task_id=attempt.task_id, attempt_token=attempt.token)
        for result in self._results:
            hello.attempts.add(task_id=result.task_id, attempt_token=result.attempt_token)
        return frame

    def repeat(self) -> None:
        """Say again on the new stream, right after its hello, what an earlier one may not have carried."""
        self._outbox.send_again(self._results.saved())
        for attempt in self._running.values():
            if attempt.lane is not None:
                self._outbox.started(attempt.token, attempt.task_id)
            if attempt.reports is not None:
                self._outbox.reports_changed(attempt)

    def next_frame(self) -> AssignTaskRequest | None:
        """Return what has gathered, new results already on disk; None when there is nothing to say."""
        new = self._saved_frame()
        frame = new or self._outbox.take_repeated() or AssignTaskRequest()
        worth_sending = bool(frame.results)
        if self._outbox.has_control:
            worth_sending = self._outbox.add_control(frame)
        if self.draining:
            frame.draining = True
            worth_sending = worth_sending or not self._draining_sent
            self._draining_sent = True
        elif credits := self._credits.grown(len(self._running)):
            frame.credits = credits
            worth_sending = True
        return frame if worth_sending else None

    def save(self) -> None:
        """Put new results on disk while there is no stream; the next stream's `repeat` sends them."""
        while self._saved_frame() is not None:
            pass

    def _saved_frame(self) -> AssignTaskRequest | None:
        frame = self._outbox.take_results()
        if frame is not None:
            self._keys.save()
            self._results.save(frame)
        return frame

    # --- stopping --------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no new attempts from now on."""
        self.draining = True
        self._wake()

    def interrupt(self, grace_s: float = DEFAULT_GRACE_S) -> None:
        """Stop whatever runs, to be requeued."""
        for attempt in self.running:
            self._stop(attempt, order_to_stop(StopCause.DRAINED, grace_s))

    async def close(self) -> None:
        """Cancel what runs, wait for it, and close the files."""
        await self._runner.close()
        self.save()
        self._keys.close()
        self._results.close()

    # --- what attempts and the runner tell -------------------------------------------------------

    def attempts_doubtful(self, attempts: Sequence[Attempt]) -> None:
        """Ask whether attempts that were not entered, because the loop was held, are still this worker's."""
        self._confirmations.hold(attempt for attempt in attempts if attempt.stop is None)
        for attempt in attempts:
            if attempt.stop is not None:
                self.attempt_ended(attempt, STOPPED, 0.0)

    def attempt_suspended(self, attempt: Attempt) -> None:
        """Acknowledge the start of an attempt that takes its time, and watch its run timeout."""
        self._outbox.started(attempt.token, attempt.task_id)
        timeout_ms = attempt.assignment.timeout_ms
        if timeout_ms > 0 and attempt.stop is None:
            self._stopper.watch(attempt, timeout_ms / 1000)

    def attempt_ended(self, attempt: Attempt, outcome: Outcome, seconds: float) -> None:
        """Free the slot and report."""
        token, assignment, stop = attempt.token, attempt.assignment, attempt.stop
        if attempt.live is not None:
            attempt.live.flush()
        attempt.ended = True
        del self._running[token]
        if assignment.exclusive:
            self._exclusives.ended(token)
        if not self._running:
            self.idle.set()
        if attempt.timer is not None or attempt.reports is not None:
            attempt.disarm()
            attempt.release_waiters()
        if attempt.logged:
            self._logbook.end(token)
        if stop is not None:
            if stop.cause is StopCause.FENCED:
                self._wake()
                return
            outcome = stopped_outcome(stop, outcome)
        elif outcome.status == TASK_STATUS_SUCCESS and assignment.idempotency_key:
            self._keys.remember(assignment.tenant, assignment.idempotency_key, outcome.output_json)
        self._metrics.observe(assignment.task_type, outcome.status, seconds)
        self._result(assignment.task_id, token, outcome, attempt.stream, int(seconds * 1000))

    def write_log(self, attempt: Attempt, stream: str, level: str, lines: Sequence[str]) -> None:
        """Append to an attempt's log. From any thread."""
        if not attempt.ended:
            attempt.logged = True
            self._logbook.append(attempt.task_id, attempt.token, stream, level, lines)

    def write_text(self, attempt: Attempt, text: str) -> None:
        """Append a piece of what an attempt gives out. From any thread."""
        if not attempt.ended:
            attempt.logged = True
            self._logbook.append_text(attempt.task_id, attempt.token, "output", text)

    def reports_changed(self, attempt: Attempt) -> None:
        """Send the attempt's reports with the next frame."""
        self._outbox.reports_changed(attempt)

    def _result(self, task_id: str, token: str, outcome: Outcome, stream: int, duration_ms: int = 0) -> None:
        result = self._outbox.add_result(
            task_id, token, outcome.status, outcome.output_json, outcome.error, outcome.kind, duration_ms
        )
        if outcome.metadata:
            result.metadata.update(outcome.metadata)
        if outcome.defer_timeout_ms:
            result.defer_timeout_ms = outcome.defer_timeout_ms
        self._results.keep(token, result, stream)
        self.all_acknowledged.clear()

    def _note_acknowledged(self) -> None:
        if not self._results:
            self.all_acknowledged.set()
