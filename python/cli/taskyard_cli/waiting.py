"""Tells the id of what somebody waits for, so that however the wait ends they can go on with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from taskyard_cli.output import on_terminal
from taskyard_cli.show import err
from taskyard_client import TaskyardError

_NEXT = {"task": "`taskyard logs -f {}` follows it", "run": "`taskyard runs show {}` shows it"}


@contextmanager
def told(what: str, some_id: str, *, before: bool = False) -> Iterator[None]:
    """Says on stderr, while somebody waits within, what they wait for, and how to go on when the wait ends early.

    A terminal shows the id all the time. Elsewhere it is said at once: a process that is killed says nothing more.

    Args:
        what: `task` or `run`.
        some_id: Its id.
        before: Whether it was submitted before, by another call with its idempotency key.
    """
    if not on_terminal():
        err().print(Text(f"{what} {some_id} {'was submitted before' if before else 'is submitted'}"))
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError, TaskyardError) as error:
        if some_id not in str(error):
            following = _NEXT[what].format(some_id)
            err().print(Text(f"{what} {some_id} goes on: {following}, `taskyard cancel {some_id}` stops it"))
        raise
