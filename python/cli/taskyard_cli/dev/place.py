"""The data directory of `taskyard dev`: one owner at a time, its secret, and the token for the command."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from taskyard_cli.directory import LEFT_BY_DEV, SECRET_FILE
from taskyard_cli.exits import CliError, Exit, exit_of
from taskyard_cli.token_command import Role, sign

LIFETIME_S = 365 * 86_400
"""How long the tokens are good. They are made anew at each start."""


class Place:
    """The directory, owned from entering the context to leaving it.

    Args:
        path: The directory; made when it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._secret = ""

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take()
            self._secret = self._load_secret()
        except OSError as error:
            self._release()
            raise CliError(
                f"the data directory {self.path} cannot be used: {error.strerror}; give another with --data",
                exit_of(error) or Exit.REFUSED,
            ) from None
        except CliError:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    @property
    def secret(self) -> str:
        """The secret of this directory's scheduler."""
        return self._secret

    def token(self, role: Role) -> str:
        """Returns a new token."""
        now = time.time()
        return sign(self._secret, subject=f"dev-{role}", tenant="default", role=role, lifetime=LIFETIME_S, now=now)

    def leave_for_command(self, address: str) -> None:
        """Writes where the `taskyard` command finds address and token."""
        text = json.dumps({"address": address, "token": self.token(Role.ADMIN)})
        part = self.path / f"{LEFT_BY_DEV}.part"
        part.unlink(missing_ok=True)
        _write_private(part, text)
        part.replace(self.path / LEFT_BY_DEV)

    def tell_stopping(self, limit_s: float) -> None:
        """Lets whoever wants the directory know that it is free in at most so many seconds."""
        if self._lock is not None:
            with suppress(OSError):  # a full disk; nothing else depends on the word
                os.pwrite(self._lock, f"{os.getpid()} {limit_s:.0f}\n".encode(), 0)

    def _take(self) -> None:
        path = self.path / "dev.lock"
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CliError(self._in_use(*path.read_text(encoding="utf-8").split()), Exit.REFUSED) from None
        os.truncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def _in_use(self, owner: str = "unknown", stops_in_s: str = "") -> str:
        if stops_in_s:
            return (
                f"the data directory {self.path} is in use by a `taskyard dev` that is stopping (process {owner}), "
                f"which takes at most {stops_in_s} s; try again then, or give another directory with --data"
            )
        return (
            f"the data directory {self.path} is in use by another `taskyard dev` (process {owner}); "
            "stop that one, or give another directory with --data"
        )

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _load_secret(self) -> str:
        path = self.path / SECRET_FILE
        try:
            _write_private(path, secrets.token_hex(32))
        except FileExistsError:
            if path.stat().st_mode & 0o077:
                raise CliError(
                    f"others can read {path}; `chmod 600` it, or remove it and let a new one be made", Exit.REFUSED
                ) from None
        return path.read_text(encoding="utf-8").strip()


def _write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner can read, from its first byte on.

    Raises:
        FileExistsError: There is one already.
        OSError: It cannot be written; it has the file's name.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
