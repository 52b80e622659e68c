"""What simulated tasks do, told by their input, in each of the three places where a handler may run.

`{"do": WHAT, "s": SECONDS, "times": N}`; every entry and exit is told to the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from simulation.history import History
from simulation.loop import Process, VirtualLoop
from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED
from taskyard_worker.attempts import Attempt
from taskyard_worker.context import Context
from taskyard_worker.errors import InvalidInput
from taskyard_worker.outcome import STOPPED, Outcome, failed, succeeded
from taskyard_worker.processes import LEASE_MARGIN_MS
from taskyard_worker.registry import TaskRegistry
from taskyard_worker.verdict import HANDLER_ERROR

POLL_S = 0.2
"""How often a handler that is no coroutine looks whether it should stop."""
HANG_S = 10_000.0
SUPERVISOR_S = 0.05
"""How long children outlive their worker at most."""

Input = dict[str, Any]


def isolated_body(input: Input) -> Any:
    """Stands for a handler in a process of its own; `Machine` does what it would do."""
    raise AssertionError("a simulated machine runs this")


def make_registry(types: Sequence[str], history: History, process: Process) -> TaskRegistry:
    """Returns handlers for those of the simulation's task types that a worker has."""
    registry = TaskRegistry()
    for name in types:
        if name.startswith("thread"):
            registry.task(name)(in_thread())
        elif name.startswith("alone"):
            registry.task(name, isolated=True)(isolated_body)
        else:
            registry.task(name)(in_loop(history, process))
    return registry


def in_loop(history: History, process: Process) -> Callable[..., Any]:
    """Returns an `async def` handler."""

    async def handle(ctx: Context, input: Input) -> Any:
        attempt: Any = ctx._port
        history.handler_entered(attempt, process)
        how = "by cancellation"
        try:
            if input.get("do") == "stubborn":
                await _ignore_orders(float(input.get("s", 0)))
            elif input.get("do") == "checkpoint":
                await _in_steps(ctx, input, history)
            elif (seconds := _seconds(input)) > 0:
                await asyncio.sleep(seconds)
            how = "by itself"
            return verdict(input, ctx)
        finally:
            history.handler_left(attempt.token, how)

    return handle


async def _ignore_orders(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue


async def _in_steps(ctx: Context, input: Input, history: History) -> None:
    attempt: Any = ctx._port
    done = ctx.last_checkpoint["done"] if ctx.last_checkpoint else 0
    for number, step in enumerate(range(done, int(input.get("times", 3))), 1):
        await asyncio.sleep(float(input.get("s", 0.1)))
        await ctx.progress(step * 10, f"step {step}")
        await ctx.checkpoint({"at": [ctx.attempt, number], "done": step + 1})
        history.checkpoint_stored(attempt.token)
        ctx.log.info("step %d is done", step)


def _seconds(input: Input) -> float:
    return HANG_S if input.get("do") == "hang" else float(input.get("s", 0))


def verdict(input: Input, ctx: Context) -> Any:
    """Returns what the handler returns, or raises what it raises."""
    do, attempt = input.get("do", "return"), ctx.attempt
    if do == "defer":
        return ctx.defer(float(input["wait"]))
    if do == "fail" or (do == "fail_first" and attempt <= int(input.get("times", 1))):
        raise RuntimeError(f"attempt {attempt} fails as it was told to")
    if do == "reject":
        raise InvalidInput("the handler does not like its input")
    return {"attempt": attempt, "echo": input.get("echo", "")}


def in_thread() -> Callable[..., Any]:
    """Returns a `def` handler; the time that it takes is spent by `SimThreads`."""

    def handle(ctx: Context, input: Input) -> Any:
        ctx.raise_if_cancelled()
        return verdict(input, ctx)

    return handle


class SimThreads:
    """Where `def` handlers run: each takes its time and looks now and then whether it should stop.

    Args:
        loop: The loop.
        history: Told of entries and exits.
        process: The worker's process, which threads die with.
    """

    def __init__(self, loop: VirtualLoop, history: History, process: Process) -> None:
        self._loop = loop
        self._history = history
        self._process = process

    def run(self, call: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        """Runs `partial(run_in_thread, attempt)`. Cancelling the wait does not end the thread."""
        (attempt,) = call.args  # type: ignore[attr-defined]  # the runner's partial
        waited: asyncio.Future[Outcome] = self._loop.create_future()
        self._loop.start(self._process, self._thread(call, attempt, waited), f"thread of {attempt.task_id}")
        return waited

    async def _thread(self, call: Callable[[], Outcome], attempt: Attempt, waited: asyncio.Future[Outcome]) -> None:
        input = attempt.input()
        self._history.handler_entered(attempt, self._process)
        end = self._loop.now + _seconds(input)
        while self._loop.now < end and (input.get("do") == "stubborn" or not attempt.stopping):  # noqa: ASYNC110
            await asyncio.sleep(min(POLL_S, end - self._loop.now))
        outcome = call()
        self._history.handler_left(attempt.token, "as a thread")
        if not waited.done():
            waited.set_result(outcome)


class Child:
    """The process of one isolated attempt. `done` belongs to the worker that waits for it."""

    def __init__(self, attempt: Attempt, done: asyncio.Future[Outcome]) -> None:
        self.attempt = attempt
        self.done = done
        self.asked = False
        self.task: asyncio.Task[None] | None = None


class Machine:
    """The host of a worker: its children run here, and its supervisor kills them when it must.

    It keeps running while the worker is paused; it implements the worker's `Isolation` port.

    Args:
        loop: The loop.
        history: Told of entries and exits.
        process: The machine's own process.
    """

    def __init__(self, loop: VirtualLoop, history: History, process: Process) -> None:
        self._loop = loop
        self._history = history
        self._process = process
        self._worker: Process | None = None
        self._children: dict[str, Child] = {}
        self._deadlines: dict[str, float] = {}

    def boot(self, worker: Process) -> None:
        """A new worker process begins on this host."""
        self._worker = worker

    def worker_died(self, after: float) -> None:
        """The supervisor notices that the worker is gone."""
        for child in list(self._children.values()):
            self._loop.call_later(after, self._kill, child, "killed by the supervisor", context=self._process.context)

    def renew(self, token: str, left_s: float) -> None:
        """Sets when an exclusive attempt is killed: 5 s before its lease ends."""
        self._deadlines[token] = deadline = self._loop.now + left_s - LEASE_MARGIN_MS / 1000
        self._loop.call_at(deadline, self._lease_over, token, deadline, context=self._process.context)

    async def run(self, attempt: Attempt) -> Outcome:
        """Runs an attempt in a child; when cancelled, ends the child first."""
        child = Child(attempt, self._loop.create_future())
        worker = self._worker
        if worker is None:
            raise AssertionError("no worker runs on this machine")
        deadline = self._deadlines.get(attempt.token)
        if deadline is not None and deadline <= self._loop.now:
            return died()
        self._children[attempt.token] = child
        child.task = self._loop.start(self._process, self._live(child, worker), f"child {attempt.token[:6]}")
        try:
            return await asyncio.shield(child.done)
        except asyncio.CancelledError:
            if attempt.stop is None:
                raise
            child.asked = True
            await asyncio.wait((child.task,), timeout=attempt.stop.grace_s)
            self._kill(child, "killed after its grace")
            return await child.done
        finally:
            self._kill(child, "killed by its worker")
            self._deadlines.pop(attempt.token, None)

    async def _live(self, child: Child, worker: Process) -> None:
        attempt, input = child.attempt, child.attempt.input()
        self._history.handler_entered(attempt, worker)
        end = self._loop.now + _seconds(input)
        while self._loop.now < end and (input.get("do") == "stubborn" or not child.asked):  # noqa: ASYNC110
            await asyncio.sleep(min(POLL_S, end - self._loop.now))
        if child.asked:
            outcome = STOPPED
        else:
            try:
                outcome = succeeded(verdict(input, Context(attempt)), attempt.deferral)
            except (RuntimeError, InvalidInput) as error:
                outcome = failed(error, attempt)
        self._ended(child, outcome, "as a process")

    def _kill(self, child: Child, how: str) -> None:
        if child.task is not None and not child.task.done() and child.attempt.token in self._children:
            child.task.cancel()
            self._ended(child, died(), how)

    def _lease_over(self, token: str, deadline: float) -> None:
        if self._deadlines.get(token) == deadline and token in self._children:
            self._kill(self._children[token], "killed because its lease ends")

    def _ended(self, child: Child, outcome: Outcome, how: str) -> None:
        del self._children[child.attempt.token]
        self._history.handler_left(child.attempt.token, how)
        worker = self._worker
        if worker is not None and worker.alive:
            self._loop.call_soon(_settle, child.done, outcome, context=worker.context)


def _settle(done: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)


def died() -> Outcome:
    """Returns the outcome of a child that was killed."""
    return Outcome(TASK_STATUS_FAILED, error="the handler's process was killed by signal 9", kind=HANDLER_ERROR)
