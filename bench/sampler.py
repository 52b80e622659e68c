"""Runs a service under a sampling profiler: `python -m bench.sampler OUT SERVICE [ARGUMENT ...]`.

The service is found by its entry point, as the `taskyard` command finds it, so what runs is what a user runs. A timer
of processor time interrupts the main thread; each Python thread's stack is then charged with the processor time that
this very thread has used since the last look, so that a thread that waits costs nothing and one that works in C
without the interpreter lock is not forgotten. What threads without Python use (gRPC's own) is told as a rest.
"""

from __future__ import annotations

import gc
import importlib.metadata
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Self

PERIOD_S = 0.002
SHOWN = 40

Seconds = dict[str, float]


class Sampler:
    """Charges processor time to functions while its block runs.

    Attributes:
        own: Seconds by thread, then by function that was on top of the stack.
        total: Seconds by thread, then by function that was anywhere on it.
        taken_s: Processor time of the block.
        collected_s: Of it in the garbage collector, by generation; it is charged to whom it interrupted as well.
        collections: How often it ran, by generation.
    """

    def __init__(self) -> None:
        self.own: dict[str, Seconds] = defaultdict(lambda: defaultdict(float))
        self.total: dict[str, Seconds] = defaultdict(lambda: defaultdict(float))
        self._clocks: dict[int, tuple[int, float]] = {}
        self._start_s = 0.0
        self._collection_start_s = 0.0
        self.taken_s = 0.0
        self.collected_s = [0.0, 0.0, 0.0]
        self.collections = [0, 0, 0]

    def __enter__(self) -> Self:
        self._start_s = time.process_time()
        for thread in threading.enumerate():
            self._used(thread.ident or 0)  # what they used before is not ours
        gc.callbacks.append(self._collect)
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.callbacks.remove(self._collect)
        self.taken_s = time.process_time() - self._start_s

    def _collect(self, phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            self._collection_start_s = time.thread_time()
            return
        generation = told["generation"]
        self.collections[generation] += 1
        self.collected_s[generation] += time.thread_time() - self._collection_start_s

    def _look(self, _number: int, interrupted: FrameType | None) -> None:
        while interrupted is not None and interrupted.f_code.co_filename == __file__:
            interrupted = interrupted.f_back  # a look that was itself interrupted before it had charged anybody
        frames = sys._current_frames()
        main = threading.main_thread().ident
        for thread in threading.enumerate():
            ident = thread.ident
            used = self._used(ident) if ident is not None else 0.0
            frame = interrupted if ident == main else frames.get(ident or 0)
            if used > 0 and frame is not None:
                self._charge(thread.name, frame, used)
        self._used(main or 0)  # looking costs too, and nobody is charged for it

    def _used(self, ident: int) -> float:
        """Returns the processor time of a thread since the last look."""
        try:
            clock, last = self._clocks.get(ident) or (time.pthread_getcpuclockid(ident), 0.0)
            now = time.clock_gettime(clock)
        except OSError:  # it has just ended
            self._clocks.pop(ident, None)
            return 0.0
        self._clocks[ident] = clock, now
        return now - last

    def _charge(self, thread: str, frame: FrameType, seconds: float) -> None:
        self.own[thread][_name(frame)] += seconds
        total = self.total[thread]
        seen = set()
        walked: FrameType | None = frame
        while walked is not None:
            seen.add(_name(walked))
            walked = walked.f_back
        for name in seen:
            total[name] += seconds

    def text(self) -> str:
        """Returns where the time went, the busiest thread first."""
        lines = [f"{self.taken_s:.2f} s of processor time in all"]
        threads = sorted(self.own, key=lambda name: -sum(self.own[name].values()))
        known = sum(sum(self.own[name].values()) for name in threads)
        for name in threads:
            used = sum(self.own[name].values())
            lines.append(f"  {used:8.2f} s {100 * used / max(self.taken_s, 1e-9):5.1f} %  thread {name}")
        lines.append(f"  {self.taken_s - known:8.2f} s          threads that run no Python, and what came before")
        for generation, (seconds, times) in enumerate(zip(self.collected_s, self.collections, strict=True)):
            lines.append(f"  {seconds:8.2f} s          {times} garbage collections of generation {generation}")
        for name in threads:
            if sum(self.own[name].values()) > 0.01 * self.taken_s:
                lines += _tables(name, self.own[name], self.total[name])
        return "\n".join(lines) + "\n"


def _tables(thread: str, own: Seconds, total: Seconds) -> list[str]:
    used = sum(own.values())
    lines = [f"\nthread {thread}: in the function itself"]
    lines += [f"  {100 * seconds / used:5.1f} %  {name}" for name, seconds in most(own)]
    lines.append(f"\nthread {thread}: with what it calls")
    lines += [f"  {100 * seconds / used:5.1f} %  {name}" for name, seconds in most(total)]
    return lines


def most(seconds: Seconds) -> list[tuple[str, float]]:
    """Returns the functions that took most, the first of them first."""
    return sorted(seconds.items(), key=lambda pair: -pair[1])[:SHOWN]


def _name(frame: FrameType) -> str:
    return _code_name(frame.f_code)


@cache
def _code_name(code: CodeType) -> str:
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}"


def service_main(name: str) -> Callable[[Sequence[str]], int]:
    """Returns the main function of a service."""
    (found,) = importlib.metadata.entry_points(group="taskyard.services", name=name)
    main: Callable[[Sequence[str]], int] = found.load()
    return main


def run(arguments: Sequence[str]) -> int:
    """Runs the service and writes the profile when it ends; returns its exit code."""
    out, service, *rest = arguments
    main = service_main(service)
    sampler = Sampler()
    try:
        with sampler:
            return main(rest)
    finally:
        Path(out).write_text(sampler.text(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
