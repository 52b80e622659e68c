"""The scheduler as a state machine: events in, batches out. The shell brings events, commits batches, acts on effects.

An event is taken in by `handle`; nothing of it may leave the process before the batch that `seal` returns next has
been committed. Time is what each call says: Unix milliseconds that never step back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from taskyard_core.engine import (
    attempts,
    by_hand,
    dispatch,
    holding,
    marks,
    operators,
    recovery,
    refused,
    reruns,
    retries,
    runs,
    seal,
    sessions,
    submit,
    timing,
)
from taskyard_core.engine.cluster import Cluster, Limits
from taskyard_core.engine.effects import Batch
from taskyard_core.engine.events import (
    Cancel,
    CancelRun,
    Complete,
    Deregister,
    DrainWorker,
    ForgetWorker,
    Heartbeat,
    Hello,
    Mark,
    MarkStep,
    NewRun,
    NewTask,
    PauseWork,
    Prioritize,
    Refused,
    Register,
    Requeue,
    ResumeWork,
    Retry,
    RetryRun,
    StartRuns,
    StreamClosed,
    Submit,
    WorkerFrame,
)
from taskyard_core.engine.explain import Prospect, WaitReason, audience, explain, explain_step, prospect
from taskyard_core.engine.sessions import Standing
from taskyard_core.ids import IdSource
from taskyard_core.records import CANCELLED, ENDED, Instance, Row, TaskState

Event = (
    Submit
    | StartRuns
    | Register
    | Hello
    | WorkerFrame
    | Heartbeat
    | StreamClosed
    | Deregister
    | Cancel
    | CancelRun
    | Requeue
    | Prioritize
    | Complete
    | Mark
    | MarkStep
    | PauseWork
    | ResumeWork
    | DrainWorker
    | ForgetWorker
    | Retry
    | RetryRun
)


class Engine:
    """One leader's scheduling state in one term, and every rule about it."""

    def __init__(
        self,
        term: int,
        revision: int,
        *,
        random_bits: Callable[[int], int],
        random: Callable[[], float],
        limits: Limits | None = None,
    ) -> None:
        """Starts empty.

        Args:
            term: Number of the term; it marks every assignment.
            revision: Number of the last commit.
            random_bits: Returns an integer of so many random bits, for ids and tokens.
            random: Returns a float of [0, 1), for jitter and ties.
            limits: The numbers of the engine.
        """
        self.cluster = Cluster(term, revision, IdSource(random_bits), random, limits or Limits())
        self._handlers: dict[type, Callable[..., Standing | None]] = {
            Submit: submit.submit,
            StartRuns: runs.start_runs,
            Register: sessions.register,
            Hello: sessions.hello,
            WorkerFrame: sessions.frame,
            Heartbeat: sessions.heartbeat,
            StreamClosed: _stream_closed,
            Deregister: sessions.deregister,
            Cancel: _cancel,
            CancelRun: _cancel_run,
            Requeue: by_hand.requeue,
            Prioritize: by_hand.prioritize,
            Complete: marks.complete,
            Mark: marks.mark,
            MarkStep: marks.mark_step,
            PauseWork: holding.pause,
            ResumeWork: holding.resume,
            DrainWorker: operators.drain_worker,
            ForgetWorker: operators.forget_worker,
            Retry: retries.retry,
            RetryRun: reruns.retry_run,
        }

    def handle(self, event: Event, now_ms: int) -> Standing:
        """Takes in an event. Workers' events are judged by their session; all others are GOOD."""
        self._at(now_ms)
        return self._handlers[type(event)](self.cluster, event) or Standing.GOOD

    def tick(self, now_ms: int) -> None:
        """Acts on every deadline that has passed."""
        self._at(now_ms)
        timing.due(self.cluster)

    def next_deadline(self) -> int | None:
        """Returns when to call `tick` next; None when nothing waits for time."""
        return self.cluster.timers.next_ms()

    def seal(self) -> Batch:
        """Runs the dispatch pass and returns what is to be committed and what follows from it.

        Batches may be sealed while others are being committed. They are committed in the order of their sealing, and
        `committed` is told of each that has a revision.
        """
        timing.due(self.cluster)  # what has expired, or waited too long, goes to no worker
        dispatch.dispatch(self.cluster)
        return seal.seal(self.cluster)

    def committed(self, batch: Batch) -> None:
        """Notes that a batch with a revision has been committed."""
        seal.committed(self.cluster, batch)

    def left(self, batch: Batch, now_ms: int) -> None:
        """Counts the time to start afresh for the attempts of a batch whose commit took long."""
        self._at(now_ms)
        timing.left(self.cluster, batch)

    def drop_refused(self, batch: Batch, kind: str, key: tuple[str, ...], reason: str) -> None:
        """Takes a row that the database refused out of a sealed batch."""
        refused.drop_refused(self.cluster, batch, kind, key, reason)

    def lost_tokens(self, worker_id: str, tokens: Iterable[str]) -> list[str]:
        """Returns which of the tokens that a worker's heartbeat lists are no live attempts of it, once that is handled.

        Not an answer that waits for a commit: to stop an attempt that this leader has given up is right in any case.
        """
        return sessions.lost_tokens(self.cluster, worker_id, tokens)

    def explain(self, task_id: str, now_ms: int) -> list[WaitReason] | None:
        """Returns why a live instance has not ended; None for one that is not in memory."""
        self._at(now_ms)
        instance = self.cluster.instances.get(task_id)
        return None if instance is None or instance.phase == ENDED else explain(self.cluster, instance)

    def explain_stored(self, instance: Instance, now_ms: int) -> list[WaitReason]:
        """Returns why an instance that waits in SQL only has not ended."""
        self._at(now_ms)
        return explain(self.cluster, instance)

    def explain_step(self, run_id: str, step_id: str, now_ms: int) -> list[WaitReason] | None:
        """Returns why a step of a live run has no instance yet; None for a run that is not in memory."""
        self._at(now_ms)
        run = self.cluster.runs.get(run_id)
        return None if run is None else explain_step(self.cluster, run, run.plan.graph.index[step_id])

    def prospect(self, tenant: str, new: NewTask, now_ms: int) -> Prospect:
        """Returns what would become of a task if it were submitted now; nothing is."""
        self._at(now_ms)
        return prospect(self.cluster, tenant, new)

    def audience(self, tenant: str, new: NewTask, now_ms: int) -> tuple[list[str], list[str], WaitReason | None]:
        """Returns the ids of workers that take a task, and of those that would if they were well.

        With neither, the reason says why.
        """
        self._at(now_ms)
        well, others, reason = audience(self.cluster, tenant, new)
        return [worker.id for worker in well], [worker.id for worker in others], reason

    def prospect_run(self, tenant: str, new: NewRun, now_ms: int) -> tuple[Row, list[Prospect]] | Refused:
        """Returns RUN_COLUMNS of a run, and what would become of each step, if it were started now; nothing is.

        Where a template reads the output of a step, or the attempt, it stands as it was written. Refused: a template
        finds no value in the run's inputs or variables.
        """
        self._at(now_ms)
        run = runs.make_run(self.cluster, tenant, new)
        tasks = runs.prospects(run)
        if isinstance(tasks, Refused):
            return tasks
        return run.row(), [prospect(self.cluster, tenant, task) for task in tasks]

    # Recovery: before the first event of a term.

    def begin(self, now_ms: int) -> None:
        """Sets the time at which this leader starts."""
        self._at(now_ms)
        self.cluster.started_at = now_ms

    def restore_worker(self, row: Row) -> None:
        """Takes in a worker's row."""
        recovery.restore_worker(self.cluster, row)

    def restore_pause(self, row: Row) -> None:
        """Takes in a pause's row. Before any run or instance."""
        recovery.restore_pause(self.cluster, row)

    def restore_run(self, row: Row, instances: list[Instance]) -> None:
        """Takes in a live run's row and the instances of its steps. Its workflow version must be in `workflows`."""
        recovery.restore_run(self.cluster, row, instances)

    def restore_instance(self, instance: Instance) -> None:
        """Takes in an instance of the phase PENDING or IN_FLIGHT."""
        recovery.restore_instance(self.cluster, instance)

    def restore_queue(self, first: Instance, waiting: int) -> None:
        """Takes note of a queue whose tasks are in SQL."""
        recovery.restore_queue(self.cluster, first, waiting)

    def _at(self, now_ms: int) -> None:
        if now_ms > self.cluster.now:
            self.cluster.now = now_ms


def _stream_closed(c: Cluster, event: StreamClosed) -> None:
    worker = c.fleet.workers.get(event.worker_id)
    if worker is not None:
        sessions.stream_closed(c, worker, event.stream)


def _cancel(c: Cluster, event: Cancel) -> None:
    instance = c.find(event.task_id) or event.row
    if instance is None:
        c.batch.answers.append((event.reply, Refused("NOT_FOUND", f"there is no task {event.task_id!r}")))
        return
    state = TaskState(instance.state)
    if instance.phase == ENDED and state != CANCELLED:
        refusal = Refused("ALREADY_ENDED", f"the task has ended as {state.name}: there is nothing to cancel")
        c.batch.answers.append((event.reply, refusal))
        return
    attempts.cancel(c, instance, event.reason, kill=event.kill)
    c.batch.answers.append((event.reply, TaskState(instance.state)))


def _cancel_run(c: Cluster, event: CancelRun) -> None:
    if event.run_id not in c.runs:
        refusal = Refused("ALREADY_ENDED", "the run has ended: there is nothing to cancel")
        c.batch.answers.append((event.reply, refusal))
        return
    runs.cancel_run(c, event)
