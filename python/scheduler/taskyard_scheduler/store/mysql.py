"""MySQL and MariaDB: connections, session settings, the lock around migrations, and what errors mean.

How statements are put together is in `mysql_writer`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import pymysql
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from typing_extensions import override

from taskyard_scheduler.store.lane import Keepalive
from taskyard_scheduler.store.migrate import migrate
from taskyard_scheduler.store.mysql_writer import MysqlWriter
from taskyard_scheduler.store.port import StoreError, StoreUnavailable
from taskyard_scheduler.store.sql import Dialect, SqlStore

CONNECT_TIMEOUT_S: Final = 5
ANSWER_TIMEOUT_S: Final = 30
LOCK_WAIT_S: Final = 5
WRITER_SILENCE_S: Final = 4
"""After this long without a word from whoever writes, the server ends its transaction and frees what it locked.

A leader that hangs in the middle of a commit, or whose machine is gone, keeps its successor out no longer than this:
the successor's first statement waits LOCK_WAIT_S.
"""
WRITER_KEEPALIVE_S: Final = 1.0
MIGRATION_WAIT_S: Final = 20
LOCK_NAME: Final = 64
"""The longest name that GET_LOCK takes."""

_SESSION: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    # Strict, so that no value is cut in silence; and backslashes escape, as the writer takes for granted.
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_S}",
)
_OF_READS: Final = ("SET SESSION wait_timeout = 2147483",)  # 24 days: it locks nothing
_OF_WRITES: Final = (
    # Between statements, in the middle of one, and while an answer is sent.
    f"SET SESSION wait_timeout = {WRITER_SILENCE_S}",
    f"SET SESSION net_read_timeout = {WRITER_SILENCE_S}",
    f"SET SESSION net_write_timeout = {WRITER_SILENCE_S}",
)

# Of the server, and of the client's own (2000 and up): connection, lock, disk, shutdown.
_RETRIABLE: Final = frozenset({
    0, 1020, 1030, 1037, 1038, 1040, 1041, 1042, 1053, 1077, 1079, 1080, 1129, 1152, 1153, 1154, 1155, 1156,
    1157, 1158, 1159, 1160, 1161, 1180, 1184, 1203, 1205, 1213, 1226, 1290, 1317, 1614, 1637, 1836, 1927, 1969, 2002,
    2003, 2005, 2006, 2013, 2014, 2027, 2055, 3024, 3168, 4031,
})  # fmt: skip
_FULL: Final = frozenset({1021, 1114})
_FULL_ADVICE: Final = "the database server's disk is full: make room there, writing goes on by itself"
_OF_A_ROW: Final = frozenset({1264, 1265, 1292, 1300, 1366, 1406, 3988})  # beyond what the driver sorts so
_MISCONFIGURED: Final = {
    1044: "the user may not use this database: grant it",
    1045: "user or password is wrong: look at the database URL",
    1049: "there is no such database: create it",
    1142: "the user lacks a privilege: grant it",
    1698: "user or password is wrong: look at the database URL",
}


class MysqlDialect(Dialect):
    """What the store needs to know of MySQL and MariaDB."""

    name = "mysql"
    begin_statement = "BEGIN"
    driver_errors = (pymysql.err.Error,)
    keepalive = Keepalive(WRITER_KEEPALIVE_S, lambda connection: connection.exec_driver_sql("DO 0"))

    def __init__(self, url: URL) -> None:
        """Connects to nothing yet."""
        self.writer = self._writer = MysqlWriter()
        self._engine = mysql_engine(url, ANSWER_TIMEOUT_S)
        self._where = url.set(query={}).render_as_string(hide_password=True)
        self._migration_lock = lock_name(url, "schema")

    @override
    def hold(self) -> None:
        """Does nothing: a MySQL database serves several processes, and the term fences them."""

    @override
    def release(self) -> None:
        """Does nothing."""

    @override
    def connect(self, *, writes: bool) -> Connection:
        connection = self._engine.connect()
        for statement in _SESSION + (_OF_WRITES if writes else _OF_READS):
            connection.exec_driver_sql(statement)
        packet, version = connection.exec_driver_sql("SELECT @@max_allowed_packet, VERSION()").one()
        self._writer.learn(packet, version)
        return connection

    @override
    def migrate(self, connection: Connection) -> None:
        parameters = {"name": self._migration_lock, "wait": MIGRATION_WAIT_S}
        locked = connection.scalar(sa.text("SELECT GET_LOCK(:name, :wait)"), parameters)
        if locked != 1:
            raise StoreUnavailable(f"{self._where}: another scheduler is bringing the schema up to date: wait")
        try:
            migrate(connection)
        finally:
            connection.execute(sa.text("SELECT RELEASE_LOCK(:name)"), {"name": self._migration_lock})

    @override
    def settings(self, connection: Connection) -> dict[str, str]:
        names = ("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "version")
        row = connection.exec_driver_sql(f"SELECT {', '.join(f'@@{name}' for name in names)}").one()
        found = {name: str(value) for name, value in zip(names, row, strict=True)}
        return found | {"isolation": "READ COMMITTED"}

    @override
    def translate(self, raised: Exception) -> StoreError | None:
        origin = raised.orig if isinstance(raised, DBAPIError) else raised
        if isinstance(origin, OSError):
            return StoreUnavailable(f"{self._where}: {origin}")
        if not isinstance(origin, pymysql.err.Error):
            return None
        code = origin.args[0] if origin.args else 0
        if code in _FULL:
            return StoreUnavailable(f"{self._where}: {_words(origin)}", _FULL_ADVICE, full=True)
        if code in _RETRIABLE:
            return StoreUnavailable(f"{self._where}: {_words(origin)}")
        if code in _MISCONFIGURED:
            return StoreError(f"{self._where}: {_MISCONFIGURED[code]} ({_words(origin)})")
        if isinstance(origin, pymysql.err.IntegrityError | pymysql.err.DataError) or code in _OF_A_ROW:
            return None
        return StoreError(f"{self._where}: {_words(origin)}")


def _words(raised: pymysql.err.Error) -> str:
    return str(raised.args[-1]) if raised.args and raised.args[-1] else "the connection is closed"


def mysql_engine(url: URL, answer_timeout_s: float) -> Engine:
    """Returns an engine whose connections commit by themselves and give up on a server that does not answer."""
    return sa.create_engine(
        url.set(drivername="mysql+pymysql"),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={
            # As bytes, since the driver takes text for Latin-1 and tells the first letter that is none.
            "password": (url.password or "").encode(),
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": answer_timeout_s,
            "write_timeout": answer_timeout_s,
        },
    )


def lock_name(url: URL, purpose: str) -> str:
    """Returns the name of a lock of this database for GET_LOCK, whose names are of the whole server."""
    name = f"taskyard.{purpose}.{url.database}"
    if len(name) <= LOCK_NAME:
        return name
    return f"taskyard.{purpose}.{blake2b(name.encode(), digest_size=16).hexdigest()}"


def mysql_store(url: URL) -> SqlStore:
    """Returns a store on a MySQL or MariaDB database, not opened yet."""
    return SqlStore(MysqlDialect(url))
