"""Keeps a cancellation a cancellation where what is awaited may take it for its own end.

Not for ending things: only for whoever awaits a call of gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_cancellation() -> Iterator[None]:
    """Lets a cancellation of the task that comes inside leave as one, whatever a call makes of it.

    gRPC awaits tasks of its own, which take the cancellation for theirs: when the call ends in the same moment, its end
    is all that is left of it. Must not be around a `yield`: who goes on there may be another task.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    lost: Exception | None = None
    try:
        yield
    except Exception as error:
        lost = error
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError from lost
    if lost is not None:
        raise lost
