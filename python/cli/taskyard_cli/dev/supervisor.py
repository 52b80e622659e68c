"""Starts the services, waits until they work, starts a worker that died again, and stops all in order."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from taskyard.v1.fleet_pb2 import WorkerState
from taskyard_cli.dev.child import Child, private
from taskyard_cli.dev.earlier import LIMIT_S, Earlier, earlier_scheduler, earlier_worker, unclaimed_sentence
from taskyard_cli.dev.environment import Plan, scheduler_environment, worker_environment
from taskyard_cli.dev.lines import readable
from taskyard_cli.dev.place import Place
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.token_command import Role
from taskyard_client import AsyncClient, TaskyardError

READY_S = 60.0
"""How long services get to be ready, in seconds."""

LOOK_S = 0.05
"""How often it is looked whether they are, in seconds."""

STOP_S = 20.0
"""How long services get to stop by themselves, in seconds."""

SAY_S = 1.5
"""After how long it is said for whom a stop waits, in seconds: longer than who has nothing to finish takes."""

FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 30.0
"""Wait before a worker that died is started again; doubled each time until it has run for a minute."""

STEADY_S = 60.0

CANNOT_LISTEN = 68
"""Exit code of a scheduler whose port is taken."""

FINAL = {
    2: "its settings or its handlers are wrong", 71: "another worker has its id",
    72: "the scheduler does not accept it", 73: "its token is refused", 74: "its data directory cannot be used",
}  # fmt: skip
"""Exit codes of a worker that starting again would not change."""


class Supervisor:
    """Everything that `taskyard dev` runs.

    Args:
        place: The data directory, owned.
        plan: What is to run.
        environ: Our own environment, from which the services' are made.
        tell: Prints a line of log, with the name of who says it.
        say: Prints a line of ours.
    """

    def __init__(
        self,
        place: Place,
        plan: Plan,
        environ: Mapping[str, str],
        tell: Callable[[str, str], None],
        say: Callable[[str], None],
    ) -> None:
        self._place = place
        self._plan = plan
        self._environ = environ
        self._tell = tell
        self._say = say
        self._stop = asyncio.Event()
        self._failure: str | None = None
        self._children: list[Child] = []
        self.worker_ids: list[str] = []

    async def run(self, ready: Callable[[str, str], None]) -> None:
        """Runs until a signal.

        Args:
            ready: Called with the scheduler's gRPC and HTTP addresses when everything works.

        Raises:
            CliError: Something ended that had to run, or was not ready in time.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        async with asyncio.TaskGroup() as group:
            try:
                await self._until_stopped(group, ready)
            finally:
                self._stop.set()
                self._place.tell_stopping(2 * STOP_S)  # the workers, then the scheduler
                if not self._failure:
                    self._say("stopping")
                await self._end_all()
        if self._failure:
            raise CliError(self._failure, Exit.FAILED)

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._say("killing what still runs")
            for child in self._children:
                child.kill()
        self._stop.set()

    def _fail(self, sentence: str) -> None:
        self._failure = self._failure or sentence
        self._stop.set()

    async def _until_stopped(self, group: asyncio.TaskGroup, ready: Callable[[str, str], None]) -> None:
        limit_s = READY_S + (LIMIT_S if any(earlier.runs() for earlier in self._earlier()) else 0)
        try:
            async with asyncio.timeout(limit_s):
                grpc, http = await self._start(group)
        except TimeoutError:
            self._fail(f"not everything was ready within {limit_s:.0f} s; the lines above and {self._logs} say more")
            return
        except TaskyardError as error:
            self._fail(f"the scheduler does not answer as it should: {error}")
            return
        if not self._stop.is_set():
            ready(grpc, http)
        await self._stop.wait()

    @property
    def _logs(self) -> Path:
        return self._place.path / "*.log"

    def _earlier(self) -> list[Earlier]:
        """Returns what an earlier `taskyard dev` may have left, in the order of our children."""
        path, workers = self._place.path, range(1, self._plan.workers + 1)
        return [earlier_scheduler(path), *(earlier_worker(path, number) for number in workers)]

    async def _gone(self, earlier: Earlier) -> None:
        """Waits until an earlier service has ended, for as long as that can take; not once we stop."""
        if not earlier.runs():
            return
        self._say(earlier.wait_sentence())
        loop = asyncio.get_running_loop()
        end = loop.time() + LIMIT_S
        while earlier.runs() and not self._stop.is_set():
            if loop.time() >= end:
                self._say(earlier.end_sentence())
                return
            await self._pause(LOOK_S)  # its lock is free when it has ended: there is no signal of that

    async def _start(self, group: asyncio.TaskGroup) -> tuple[str, str]:
        scheduler, *workers = self._earlier()
        if said := unclaimed_sentence(self._place.path, self._plan.workers):
            self._say(said)
        where = await self._start_scheduler(group, scheduler)
        if not where:
            return "", ""
        address = str(where["grpc_address"])
        self._place.leave_for_command(address)
        for worker in workers:
            data = self._place.path / worker.name
            environ = worker_environment(self._place, self._plan, self._environ, address=address, data=data)
            child = self._child(worker.name, "worker", environ)
            group.create_task(self._keep(child, worker), name=f"keep {child.name}")
        await self._workers_ready(address)
        return address, str(where["http_address"])

    def _child(self, name: str, service: str, environ: Mapping[str, str]) -> Child:
        log = self._place.path / f"{name}.log"
        with open(log, "wb", opener=private):  # begun anew
            pass
        child = Child(name, service, environ, log, lambda line: self._tell(name, readable(line)))
        self._children.append(child)
        return child

    async def _start_scheduler(self, group: asyncio.TaskGroup, earlier: Earlier) -> dict[str, Any]:
        await self._gone(earlier)
        if self._stop.is_set():
            return {}
        announced = self._place.path / "scheduler.json"
        announced.unlink(missing_ok=True)
        environ = scheduler_environment(self._place, self._plan, self._environ)
        child = self._child("scheduler", "scheduler", environ)
        await child.start()
        earlier.note(child.pid)
        group.create_task(self._watch_scheduler(child), name="watch scheduler")
        # Another process writes the file: there is no signal of it that could be waited on.
        while not self._stop.is_set():
            found = _announcement(announced)
            if found.get("pid") == child.pid:
                return found
            await asyncio.sleep(LOOK_S)
        return {}

    async def _watch_scheduler(self, child: Child) -> None:
        code = await child.ended()
        if not self._stop.is_set():
            hint = "; --port 0 and --http-port 0 take free ports" if code == CANNOT_LISTEN else ""
            self._fail(f"the scheduler ended ({_how(code)}); its last lines are above{hint}")

    async def _keep(self, child: Child, earlier: Earlier) -> None:
        await self._gone(earlier)
        loop = asyncio.get_running_loop()
        delay = FIRST_DELAY_S
        while not self._stop.is_set():
            started = loop.time()
            await child.start()
            earlier.note(child.pid)
            code = await child.ended()
            if self._stop.is_set():
                return
            if code in FINAL:
                self._fail(f"{child.name} ended: {FINAL[code]}; its last lines are above")
                return
            delay = FIRST_DELAY_S if loop.time() - started > STEADY_S else delay
            self._say(f"{child.name} ended ({_how(code)}); it is started again in {delay:g} s")
            await self._pause(delay)
            delay = min(delay * 2, LONGEST_DELAY_S)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _workers_ready(self, address: str) -> None:
        healthy = WorkerState.WORKER_STATE_HEALTHY
        async with AsyncClient(address, self._place.token(Role.VIEWER)) as client:
            while not self._stop.is_set():
                self.worker_ids = [each.worker_id async for each in client.workers() if each.state == healthy]
                if len(self.worker_ids) >= self._plan.workers and all(child.pid for child in self._children):
                    return
                await asyncio.sleep(LOOK_S)

    async def _end_all(self) -> None:
        """Workers first, so that what they report is still committed; then the scheduler."""
        scheduler, workers = self._children[:1], self._children[1:]
        await self._end(workers)
        await self._end(scheduler)

    async def _end(self, children: list[Child]) -> None:
        for child in children:
            child.terminate()
        saying = asyncio.get_running_loop().call_later(SAY_S, self._say_whom_it_waits_for, children)  # if it still does
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*(child.gone() for child in children))
        except TimeoutError:
            for child in children:
                child.kill()
        finally:
            saying.cancel()

    def _say_whom_it_waits_for(self, children: list[Child]) -> None:
        names = ", ".join(child.name for child in children if child.runs)
        self._say(
            f"waiting for {names} to finish what runs there (`draining` above names it), at most {STOP_S:.0f} s; "
            "Ctrl-C kills it"
        )


def _announcement(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}  # not there yet, or being written
    return found if isinstance(found, dict) else {}


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
