"""Has a store of files open while this scheduler leads. A former leader that still holds them delays logs, not tasks.

Not the store itself, and nothing about leadership: `begin` and `end` are told.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.logs.port import LogStoreUnavailable

RETRY_S = 0.5
"""How often a store that somebody else holds is asked for again: a file lock that is free tells nobody."""


class Kept(Protocol):
    """A store of files, as far as its tenure goes."""

    async def start(self) -> None:
        """Makes it ready."""
        ...

    async def stop(self) -> None:
        """Lets go of it."""
        ...


class Tenure:
    """The time in which a store is ours.

    A leader that hangs keeps its files locked although another leads by now. That one must not wait for it: until the
    files are free every call on logs is answered LOGS_UNAVAILABLE, and workers keep their lines meanwhile. Likewise for
    artifacts, while what keeps them is out of reach.

    Args:
        store: What is opened and closed.
        log: Told when it cannot be opened yet.
        what: Its name, for people.
        unavailable: What it raises when it cannot be had yet.
    """

    def __init__(
        self,
        store: Kept,
        log: FilteringBoundLogger,
        what: str = "logs",
        unavailable: type[Exception] = LogStoreUnavailable,
    ) -> None:
        self._store = store
        self._log = log
        self._what = what
        self._unavailable = unavailable
        self._over = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Opens the store; returns at once when it cannot be had yet, and goes on trying."""
        self._over.clear()
        try:
            await self._store.start()
        except self._unavailable as error:
            self._log.warning(f"leading without {self._what} until they can be opened", error=str(error))
            self._opening = asyncio.create_task(self._open(), name=f"{self._what}.opening")

    async def end(self) -> None:
        """Closes the store, or stops trying to open it."""
        self._over.set()  # not by cancelling: a store that is half open would keep its lock
        opening, self._opening = self._opening, None
        if opening is not None:
            await opening
        await self._store.stop()

    async def _open(self) -> None:
        while not await self._waited():
            try:
                await self._store.start()
            except self._unavailable:
                continue
            self._log.info(f"{self._what} are open")
            return

    async def _waited(self) -> bool:
        """Waits until it is time to try again; True: the tenure is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await self._over.wait()
        return self._over.is_set()
