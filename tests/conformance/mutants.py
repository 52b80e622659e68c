"""A good worker made bad, in one way each: every mutant must fail the scenario that is there for it, and say why.

Each patch changes the Python worker in its own process. A mutant that passes shows that its scenario proves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED, TASK_STATUS_SUCCESS
from taskyard.v1.workers_pb2 import AssignTaskRequest, HeartbeatRequest, HeartbeatResponse, LogChunkAck
from taskyard_worker import grpc_link, outcome, runner, work
from taskyard_worker.attempts import Attempt, StopCause
from taskyard_worker.credits import Credits
from taskyard_worker.errors import SessionSuperseded
from taskyard_worker.exclusive import Exclusives
from taskyard_worker.grpc_link import GrpcLink
from taskyard_worker.isolation import ProcessIsolation
from taskyard_worker.keys import FileKeys
from taskyard_worker.link import LinkError
from taskyard_worker.logbook import LogBook
from taskyard_worker.outbox import Outbox
from taskyard_worker.outcome import Outcome
from taskyard_worker.results import KeptResults
from taskyard_worker.runner import Runner
from taskyard_worker.session import Session
from taskyard_worker.spool import FileSpool
from taskyard_worker.stopping import Stopper, order_to_stop
from taskyard_worker.verdict import failure_text
from taskyard_worker.work import Work

Patch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A way to be wrong. `scenario` must fail with `sentence` in what it says; `patch` makes the worker so."""

    scenario: str
    sentence: str
    patch: Patch


MUTANTS: dict[str, Mutant] = {}


def mutant(scenario: str, sentence: str) -> Callable[[Patch], Patch]:
    """Registers a patch under the name of its function, with dashes."""

    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__.replace("_", "-")] = Mutant(scenario, sentence, patch)
        return patch

    return register


def replace(owner: Any, name: str, value: Any) -> None:
    """Puts something in the place of a function or attribute."""
    setattr(owner, name, value)


def nothing(*given: object, **named: object) -> None:
    """Does not do what it is called for."""


@mutant("registration", "came without the token")
def shows_no_token() -> None:
    replace(grpc_link, "bearer", lambda token: ())


@mutant("start-acknowledgement", "was entered 0 times")
def acknowledges_before_it_starts() -> None:
    dispatch = Runner.dispatch

    def early(self: Any, attempts: Any) -> None:
        waiting = list(attempts)
        for attempt in waiting:
            self._events.attempt_suspended(attempt)
        self._loop.call_later(3, dispatch, self, waiting)

    replace(Runner, "dispatch", early)


@mutant("start-acknowledgement", "did not acknowledge the start of a")
def never_acknowledges_a_start() -> None:
    replace(Outbox, "started", nothing)


@mutant("credits", "credits allow")
def exceeds_credits() -> None:
    replace(Credits, "_total", lambda self, running: self.received + self._slots)


@mutant("credits", "credits reached 2, but must reach 3")
def gives_no_credit_for_a_free_slot() -> None:
    replace(Credits, "grown", lambda self, running: 0)


@mutant("result-spool", "the hello of stream 2 holds [], but must hold ['a']")
def loses_the_spool() -> None:
    replace(FileSpool, "replay", lambda self: [])


@mutant("stream-cut", "the hello of stream 2 holds [], but must hold ['a']")
def forgets_what_it_holds_in_a_hello() -> None:
    hello = Work.hello

    def forgetful(self: Work, session_epoch: int) -> AssignTaskRequest:
        frame = hello(self, session_epoch)
        del frame.hello.attempts[:]
        return frame

    replace(Work, "hello", forgetful)


@mutant("result-sent-again", "the worker reported the result of a 1 times, but must 2 times")
def sends_no_result_again() -> None:
    replace(Outbox, "send_again", nothing)


@mutant("duplicate-assignment", "the handler of 'once' was entered 2 times")
def runs_an_attempt_again() -> None:
    replace(KeptResults, "__contains__", lambda self, token: False)


@mutant("idempotency-key", "the handler of 'pay' was entered 3 times")
def has_no_memory_of_keys() -> None:
    replace(FileKeys, "find", lambda self, tenant, key: None)


@mutant("idempotency-key", "the handler of 'pay' was entered 2 times")
def forgets_keys_when_it_is_killed() -> None:
    replace(FileKeys, "_load", nothing)


@mutant("cancel-during", "the worker reported no result of a")
def hears_no_cancel() -> None:
    replace(Work, "_cancel", nothing)


@mutant("cancel-during", "a ended SUCCESS, but must end CANCELLED")
def calls_a_cancelled_task_done() -> None:
    replace(work, "stopped_outcome", lambda stop, found: Outcome(TASK_STATUS_SUCCESS))


@mutant("cancel-during", "a result of c came, but must not")
def reports_what_was_fenced() -> None:
    order = order_to_stop
    replace(
        work,
        "order_to_stop",
        lambda cause, *grace: order(StopCause.CANCELLED if cause is StopCause.FENCED else cause, *grace),
    )


@mutant("cancel-ignored", "did not tell that a does not stop")
def hides_that_a_handler_does_not_stop() -> None:
    replace(Attempt, "cannot_be_stopped", nothing)


@mutant("timeout", "the worker reported no result of a")
def has_no_timeouts() -> None:
    replace(Stopper, "watch", nothing)


@mutant("clock-skew", "a ended TIMEOUT")
def measures_time_by_the_schedulers_clock() -> None:
    watch = Stopper.watch

    def skewed(self: Stopper, attempt: Attempt, seconds: float) -> None:
        passed = time.time() - attempt.assignment.created_at / 1000
        watch(self, attempt, max(0.0, seconds - passed))

    replace(Stopper, "watch", skewed)


@mutant("unknown-type", "a ended FAILED")
def fails_what_it_cannot_run() -> None:
    replace(work, "unknown_type", lambda kind: Outcome(TASK_STATUS_FAILED, error="what is that?", kind="HANDLER_ERROR"))


@mutant("non-retryable-failure", 'the error_kind of a is "HANDLER_ERROR", but must be "NON_RETRYABLE"')
def has_one_kind_of_failure() -> None:
    replace(outcome, "failure_text", lambda error: (failure_text(error)[0], "HANDLER_ERROR"))


@mutant("heartbeat-lists-held", "the last one named ['a']")
def lists_only_what_runs() -> None:
    replace(Work, "held_tokens", lambda self: iter(list(self._running)))


@mutant("heartbeat-not-found", "the worker registered 1 times, but must 2 times")
def does_not_register_again() -> None:
    replace(LinkError, "unknown_worker", False)


@mutant("session-superseded", "the worker runs, but must end with exit code 71")
def goes_on_when_another_has_its_id() -> None:
    replace(LinkError, "superseded", False)


@mutant("late-heartbeat", "the worker has ended with exit code 71")
def takes_a_late_word_of_its_earlier_session_for_one_of_this() -> None:
    heartbeat = GrpcLink.heartbeat

    async def literally(self: GrpcLink, request: HeartbeatRequest) -> HeartbeatResponse:
        try:
            return await heartbeat(self, request)
        except LinkError as error:
            if error.superseded:
                raise SessionSuperseded(error.message) from error
            raise

    replace(GrpcLink, "heartbeat", literally)


@mutant("lost-tokens", "credits reached 2, but must reach 3")
def goes_on_with_what_it_lost() -> None:
    renewed = Work.renewed
    replace(Work, "renewed", lambda self, tokens, since, lost=(): renewed(self, tokens, since))


@mutant("log-order", "log line 0 of a is")
def mixes_log_lines() -> None:
    chunks = LogBook.chunks

    def mixed(self: LogBook) -> list[Any]:
        found = chunks(self)
        for chunk in found:
            lines = list(chunk.lines)[::-1]
            del chunk.lines[:]
            chunk.lines.extend(lines)
        return found

    replace(LogBook, "chunks", mixed)


@mutant("log-goes-on-where-told", "700 log lines of a came, but 1500 were written")
def does_not_hear_where_logs_go_on() -> None:
    acknowledge, chunks = LogBook.acknowledge, LogBook.chunks
    sent: dict[str, int] = {}

    def remembering(self: LogBook) -> list[Any]:
        found = chunks(self)
        sent.update((each.attempt_token, each.first_line + len(each.lines)) for each in found)
        return found

    def deaf(self: LogBook, ack: LogChunkAck) -> None:
        acknowledge(self, LogChunkAck(attempt_token=ack.attempt_token, next_line=sent[ack.attempt_token]))

    replace(LogBook, "chunks", remembering)
    replace(LogBook, "acknowledge", deaf)


@mutant("log-closed", "went on sending log lines of a after its log was closed")
def goes_on_with_a_closed_log() -> None:
    acknowledge = LogBook.acknowledge

    def deaf(self: LogBook, ack: LogChunkAck) -> None:
        acknowledge(self, LogChunkAck(attempt_token=ack.attempt_token, next_line=ack.next_line))

    replace(LogBook, "acknowledge", deaf)


@mutant("checkpoint", "a result of a came, but must not")
def does_not_wait_for_a_checkpoint() -> None:
    async def hasty(self: Attempt, text: str) -> None:
        self._checkpoint(text, self.host.loop.create_future())

    replace(Attempt, "store_checkpoint", hasty)


@mutant("large-output", "over 262144 it has to become an artifact")
def sends_large_outputs_as_they_are() -> None:
    replace(runner, "is_large", lambda text: False)


@mutant("success", "the output of b at `both` is")
def puts_params_over_typed_input() -> None:
    given = Attempt.input
    replace(Attempt, "input", lambda self: given(self) | dict(self.assignment.params))


@mutant("drain-ordered", "the worker did not deregister")
def leaves_without_a_word() -> None:
    async def silent(self: Session) -> None:
        self._leaving = True
        self._left.set()

    replace(Session, "deregister", silent)


@mutant("exclusive-lease-end", "the process of 'alone' still runs")
def lets_an_exclusive_task_outlive_its_lease() -> None:
    replace(ProcessIsolation, "renew", nothing)


@mutant("exclusive-killed-or-refused", "the worker reported no result of a")
def runs_an_exclusive_task_as_any_other() -> None:
    given = Exclusives.killable
    replace(Exclusives, "killable", lambda self, handler: given(self, handler) and handler)
