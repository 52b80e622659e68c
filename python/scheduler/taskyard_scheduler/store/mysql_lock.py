"""A named lock of a MySQL or MariaDB server (GET_LOCK), on a connection of its own. For elections; blocking calls.

The server releases it when the connection ends, and ends the connection when it has heard nothing for the session's
timeout.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import DBAPIError

from taskyard_scheduler.store.mysql import lock_name, mysql_engine
from taskyard_scheduler.store.port import StoreUnavailable
from taskyard_scheduler.store.sql import disconnect

SESSION_TIMEOUT_S: Final = 3
ANSWER_TIMEOUT_S: Final = 2
"""How long the server may take to answer that the lock is still held: less than it takes to give it to another."""


class NamedLock:
    """One attempt to hold a lock: to be used from one thread, and closed."""

    def __init__(self, url: str, purpose: str) -> None:
        """Connects to nothing yet.

        Args:
            url: of the database that the lock is about.
            purpose: what is locked, such as `leader`.
        """
        parsed = make_url(url)
        self._engine = mysql_engine(parsed, ANSWER_TIMEOUT_S)
        self._name = lock_name(parsed, purpose)
        self._connection: Connection | None = None

    def acquire(self, wait_s: int) -> bool:
        """Waits for the lock, up to `wait_s` seconds (0 or 1: longer waits would look like a dead server).

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
                self._connection.exec_driver_sql(f"SET SESSION wait_timeout = {SESSION_TIMEOUT_S}")
            query = sa.text("SELECT GET_LOCK(:name, :wait)")
            return bool(self._connection.scalar(query, {"name": self._name, "wait": wait_s}) == 1)
        except (DBAPIError, OSError) as error:
            self.close()
            raise StoreUnavailable(f"the lock {self._name} cannot be asked for: {_words(error)}") from error

    def is_held(self) -> bool:
        """Tells whether the server says that this connection holds the lock; False too when it does not answer."""
        if self._connection is None:
            return False
        try:
            query = sa.text("SELECT IS_USED_LOCK(:name) = CONNECTION_ID()")
            return bool(self._connection.scalar(query, {"name": self._name}) == 1)
        except (DBAPIError, OSError):
            return False

    def close(self) -> None:
        """Ends the connection, which releases the lock. May be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            disconnect(connection)


def _words(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error)
