"""Election by a lock in the database server (GET_LOCK), for schedulers that share a MySQL or MariaDB server.

The lock lives as long as its connection, so a thread of its own keeps that alive however busy the event loop is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from typing_extensions import override

from taskyard_scheduler.store.port import Election, StoreUnavailable

WAIT_S: Final = 1
"""How long one request for the lock waits at the server, which grants it the moment that it is free."""
KEEPALIVE_S: Final = 1.0
"""How often the lock is proved: less than a third of the session's timeout."""
RETRY_S: Final = 1.0
"""How long to wait after the server could not be reached."""


class Lock(Protocol):
    """What is needed of a lock; its calls block, and come from one thread."""

    def acquire(self, wait_s: int) -> bool:
        """Waits for the lock.

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        ...

    def is_held(self) -> bool:
        """Proves that the lock is held, which also tells the server that its holder lives."""
        ...

    def close(self) -> None:
        """Lets go of it."""


class DatabaseElection(Election):
    """Whoever holds the lock leads, and has lost when it cannot prove that any more."""

    name = "database"

    def __init__(self, make_lock: Callable[[], Lock]) -> None:
        """Connects to nothing yet.

        Args:
            make_lock: makes a lock that is not held, for each campaign one.
        """
        self._make_lock = make_lock
        self._candidacy: _Candidacy | None = None

    @override
    async def campaign(self) -> None:
        await self.resign()
        candidacy = self._candidacy = _Candidacy(self._make_lock(), asyncio.get_running_loop())
        await candidacy.won.wait()

    @override
    async def lost(self) -> None:
        if self._candidacy is not None:
            await self._candidacy.lost.wait()

    @override
    async def resign(self) -> None:
        candidacy, self._candidacy = self._candidacy, None
        if candidacy is not None:
            await candidacy.end()


class _Candidacy:
    """The thread of one campaign: asks for the lock, then proves it, until it is ended or the lock is lost."""

    def __init__(self, lock: Lock, loop: asyncio.AbstractEventLoop) -> None:
        self.won = asyncio.Event()
        self.lost = asyncio.Event()
        self._ended = asyncio.Event()
        self._lock = lock
        self._loop = loop
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    async def end(self) -> None:
        """Lets go of the lock, and returns when that is done."""
        self._stop.set()
        await self._ended.wait()
        self._thread.join()  # at once: to say that it ended is the last that it does

    def _run(self) -> None:
        try:
            if self._acquired():
                self._say(self.won)
                while self._lock.is_held():
                    if self._stop.wait(KEEPALIVE_S):
                        break
        finally:
            self._lock.close()
            self._say(self.lost)
            self._say(self._ended)

    def _acquired(self) -> bool:
        while not self._stop.is_set():
            try:
                if self._lock.acquire(WAIT_S):
                    return True
            except StoreUnavailable:
                self._stop.wait(RETRY_S)
        return False

    def _say(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(event.set)
