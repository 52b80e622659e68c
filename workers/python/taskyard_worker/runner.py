"""Runs attempts in lanes: asyncio tasks that each run one attempt after another as long as none of them waits.

A handler that ends without awaiting costs no asyncio task of its own, yet runs inside a real one, so whatever it uses
(`asyncio.timeout`, task groups, context variables) works. Not the stopping of attempts (`stopping`), and not what
becomes of their outcome.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Protocol

from taskyard_worker.attempts import Attempt
from taskyard_worker.confirmation import Doubt
from taskyard_worker.errors import OutputTooLarge
from taskyard_worker.loops import end
from taskyard_worker.outcome import STOPPED, Outcome, cancelled_itself, failed, succeeded
from taskyard_worker.registry import Mode
from taskyard_worker.transfers import Transfers, names_artifacts
from taskyard_worker.verdict import MAX_OUTPUT_BYTES, is_large

SLICE_S = 0.005
"""How long a lane goes on without letting the event loop look at anything else, in seconds."""
MAX_NEW_LANES = 64
CLOSE_AGAIN_S = 2.0
"""How long a handler may take to end once the runner closes, before it is cancelled again."""
CLOSE_CANCELS = 2


class Threads(Protocol):
    """Where handlers written with `def` run."""

    def run(self, call: Callable[[], Outcome]) -> Awaitable[Outcome]:
        """Run the call in a thread. Cancelling the wait does not end the thread."""
        ...


class Isolation(Protocol):
    """Where isolated handlers run."""

    async def run(self, attempt: Attempt) -> Outcome:
        """Run the attempt's handler in a process of its own; when cancelled, end the process first."""
        ...

    def renew(self, token: str, left_s: float) -> None:
        """Kill the exclusive attempt 5 s before its lease ends, which is in `left_s` seconds."""
        ...


class RunnerEvents(Protocol):
    """What the runner tells."""

    def attempts_doubtful(self, attempts: Sequence[Attempt]) -> None:
        """The event loop was held, and these were not entered; they are no longer the runner's."""
        ...

    def attempt_suspended(self, attempt: Attempt) -> None:
        """The attempt has started and did not end at once."""
        ...

    def attempt_ended(self, attempt: Attempt, outcome: Outcome, seconds: float) -> None:
        """The attempt's handler has ended, whether or not it was told to stop."""
        ...


class Lane:
    """One asyncio task and the attempt that it runs now. `suspended`: that attempt did not end at once."""

    __slots__ = ("attempt", "suspended", "task")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.suspended = False
        self.task: asyncio.Task[None] | None = None


class Runner:
    """Starts attempts as they come; never waits.

    Args:
        loop: The event loop.
        events: Told what happens.
        threads: Runs `def` handlers.
        isolation: Runs isolated handlers; None when this worker cannot.
        broken: Called with an error of the runner itself, which must stop the worker.
        doubt: While it stands, nothing is entered: what is ready is given back.
        transfers: Stores large outputs, and finds values that inputs refer to; None when this worker cannot.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        events: RunnerEvents,
        threads: Threads,
        isolation: Isolation | None,
        broken: Callable[[BaseException], None],
        doubt: Doubt,
        transfers: Transfers | None = None,
    ) -> None:
        self._doubt = doubt
        self._loop = loop
        self._events = events
        self._threads = threads
        self._isolation = isolation
        self._broken = broken
        self._transfers = transfers
        self._ready: deque[Attempt] = deque()
        self._new: list[Lane] = []
        self._lanes: dict[asyncio.Task[None], None] = {}  # in order
        self._driving = False
        self._width = 1

    def dispatch(self, attempts: Iterable[Attempt]) -> None:
        """Start attempts, in their order."""
        self._ready.extend(attempts)
        if not self._driving:
            self._driving = True
            self._open_lanes()

    async def close(self) -> None:
        """Cancel whatever still runs and wait for it, except for threads and for what ignores it again."""
        self._ready.clear()
        await end(self._lanes, CLOSE_AGAIN_S, CLOSE_CANCELS)

    def _open_lanes(self) -> None:
        """Open lanes for what is ready: one, and more with each round in which all lanes got stuck in an await."""
        for _ in range(min(self._width, len(self._ready))):
            lane = Lane()
            lane.task = self._loop.create_task(self._run_lane(lane), name="attempts")
            self._lanes[lane.task] = None
            lane.task.add_done_callback(self._lane_done)
            self._new.append(lane)
        self._loop.call_soon(self._look_at_lanes)

    def _look_at_lanes(self) -> None:
        """Run right after the new lanes' first step: what they still run has suspended."""
        suspended = 0
        for lane in self._new:
            if lane.attempt is not None:
                suspended += 1
                lane.suspended = True
                self._events.attempt_suspended(lane.attempt)
        self._width = min(self._width * 2, MAX_NEW_LANES) if suspended == len(self._new) else max(1, suspended)
        self._new.clear()
        if self._ready and self._doubt.stands:
            self._give_back()
        elif self._ready:
            self._open_lanes()
        else:
            self._driving = False

    def _give_back(self) -> None:
        self._driving = False
        doubtful = list(self._ready)
        self._ready.clear()
        self._events.attempts_doubtful(doubtful)

    def _lane_done(self, task: asyncio.Task[None]) -> None:
        del self._lanes[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)

    async def _run_lane(self, lane: Lane) -> None:
        """Run attempts until one leaves a trace in the task, or none is ready, or slice or certainty are over."""
        ready, clock, ended, task = self._ready, self._loop.time, self._events.attempt_ended, lane.task
        doubt = self._doubt
        clean = copy_context()
        began = clock()
        slice_end = began + SLICE_S
        while ready and not doubt.stands:
            attempt = lane.attempt = ready.popleft()
            attempt.lane = task
            outcome = await self._run(attempt)
            lane.attempt = None
            now = clock()
            ended(attempt, outcome, now - began)
            if lane.suspended or now >= slice_end or attempt.stop is not None or copy_context() != clean:
                return
            began = now

    async def _run(self, attempt: Attempt) -> Outcome:
        if attempt.stop is not None:
            return STOPPED
        try:
            assignment = attempt.assignment
            if names_artifacts(assignment.input_json) or assignment.params:
                await self._resolve(attempt)
            if attempt.handler.mode is Mode.LOOP:
                outcome = succeeded(await attempt.handler.invoke(attempt), attempt.deferral)
            else:
                outcome = await self._run_elsewhere(attempt)
            return await self._stored(attempt, outcome) if is_large(outcome.output_json) else outcome
        except asyncio.CancelledError as error:
            if attempt.stopping:
                return STOPPED
            if attempt.lane is not None and attempt.lane.cancelling():
                raise  # the worker itself is being closed
            return cancelled_itself(error)
        except GeneratorExit as error:
            if asyncio.current_task(self._loop) is not attempt.lane:
                raise  # nobody runs the lane any more: it is being thrown away
            return failed(error, attempt)
        except BaseException as error:  # whatever it is, it belongs to the attempt and not to the worker
            return failed(error, attempt)

    async def _resolve(self, attempt: Attempt) -> None:
        """Put the values in their places that the input refers to in artifacts."""
        if self._transfers is None or not any(map(names_artifacts, attempt.texts())):
            return
        values = attempt.input()
        found = await self._transfers.input(attempt, values, frozenset(attempt.flat_names()))
        if found is not values:
            attempt.resolved = found

    async def _stored(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        if self._transfers is None:
            raise OutputTooLarge(
                f"the output has more than {MAX_OUTPUT_BYTES} bytes of JSON, and this worker has no way to artifacts"
            )
        return await self._transfers.output(attempt, outcome)

    async def _run_elsewhere(self, attempt: Attempt) -> Outcome:
        if attempt.handler.mode is Mode.THREAD:
            attempt.stop_event = threading.Event()
            return await self._threads.run(partial(run_in_thread, attempt))
        if self._isolation is None:
            raise RuntimeError("this worker cannot run isolated handlers")
        return await self._isolation.run(attempt)


def run_in_thread(attempt: Attempt) -> Outcome:
    """Call a `def` handler; runs in its thread."""
    try:
        return succeeded(attempt.handler.invoke(attempt), attempt.deferral)
    except asyncio.CancelledError as error:
        return STOPPED if attempt.stopping else cancelled_itself(error)
    except BaseException as error:  # as above
        return failed(error, attempt)
