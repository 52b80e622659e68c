"""How the screen ends when nobody pressed a key: a signal, or a terminal that is gone."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taskyard_cli.exits import Exit

_KIND = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ended_by_signals(end: Callable[[], object]) -> Iterator[None]:
    """Has Ctrl-C (from outside) and SIGTERM call `end`, on the running loop, so that the terminal is put right.

    A terminal that is gone cannot be put right, and whoever writes to it may wait for ever: then the process ends at
    once. Nothing is lost by that, since the screen holds nothing.
    """
    loop = asyncio.get_running_loop()
    for number in _KIND:
        loop.add_signal_handler(number, end)
    hangup = signal.signal(signal.SIGHUP, lambda *_: os._exit(Exit.OK))
    threading.Thread(target=_leave_when_gone, name="terminal-watch", daemon=True).start()
    try:
        yield
    finally:
        for number in _KIND:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGHUP, hangup)


def _leave_when_gone() -> None:
    """Waits for the terminal's other side to go: not everyone is sent a SIGHUP then."""
    watch = select.poll()
    watch.register(sys.__stdin__ or 0, 0)  # no event but that it is gone
    watch.poll()
    os._exit(Exit.OK)
