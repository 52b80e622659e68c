"""Election by a file lock, for schedulers on one machine. The kernel releases it when its holder dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from typing_extensions import override

from taskyard_scheduler.store.port import Election

RETRY_S: Final = 0.25
"""How often a follower tries: a file lock that is free tells nobody."""


class LocalElection(Election):
    """Whoever holds the lock leads. It cannot be lost while its holder lives."""

    name = "local"

    def __init__(self, path: Path) -> None:
        """Touches nothing yet.

        Args:
            path: the file; made, with its folder, when it is missing. It must not be on a network file system.
        """
        self._path = path
        self._file: int | None = None

    @override
    async def campaign(self) -> None:
        while not self._try():  # noqa: ASYNC110 - a lock file wakes nobody
            await asyncio.sleep(RETRY_S)

    def _try(self) -> bool:
        if self._file is not None:
            return True
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    @override
    async def lost(self) -> None:
        await asyncio.get_running_loop().create_future()  # never: the kernel keeps the lock as long as the process

    @override
    async def resign(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # closing releases the lock whatever it returns
                os.close(file)
