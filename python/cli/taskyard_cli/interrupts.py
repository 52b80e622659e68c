"""What Ctrl-C does to the command, from its first line on: an end in order and exit code 130, never a traceback.

Loads nothing that takes time, not even `typing`, since it has to be in place before everything that does. What comes
before, the start of Python itself, some 20 ms, no program can answer for.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import FrameType
    from typing import Any, TypeVar

    T = TypeVar("T")

INTERRUPTED = 130
"""The exit code: 128 and the number of the signal, as shells have it."""

_SHOW_CURSOR = b"\x1b[?25h"


def answer() -> None:
    """Lets Ctrl-C end the process at once and without a word, from now on.

    Where it is ignored (a job in the background of a script) it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def kept() -> Iterator[None]:
    """Has Ctrl-C do afterwards what it does now: a loop that takes the signal over leaves Python's answer behind."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on a loop of its own. The first Ctrl-C cancels it, so that it ends in order; the second ends all.

    Raises:
        KeyboardInterrupt: It was interrupted, and has ended.
    """
    import asyncio  # here, since Ctrl-C is to be answered before it is loaded

    interrupted = False

    async def interruptible() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            interrupted = True
            signal.signal(signal.SIGINT, _leave)
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)

        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, stop)
        return await work

    with kept():
        try:
            return asyncio.run(interruptible())
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise


def _leave(number: int, frame: FrameType | None) -> None:
    # No exception: raised between any two lines it would be shown by whoever cannot handle it.
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)  # a progress bar hides it
    os._exit(INTERRUPTED)
