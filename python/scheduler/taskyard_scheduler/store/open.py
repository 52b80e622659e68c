"""Chooses a store by its URL. The one place that knows every kind."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from taskyard_scheduler.store.port import Store, StoreError
from taskyard_scheduler.store.sqlite import Synchronous, sqlite_store

FORMS = "sqlite:///path/to/file, or mysql+pymysql://user:password@host:port/database"


def open_store(url: str, *, synchronous: Synchronous = "FULL") -> Store:
    """Returns a store, on which `open` is to be awaited.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path`, or `mysql+pymysql://...`.
        synchronous: of SQLite: FULL, or NORMAL, which may lose the last commits in a power cut.

    Raises:
        StoreError: the URL names no kind of database that there is a store for.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # its text may have a part of the password, read as a port
        raise StoreError(f"the database URL cannot be read; write {FORMS}") from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        return sqlite_store(_path_of(parsed), synchronous)
    if kind in ("mysql", "mariadb"):
        if not parsed.database:
            raise StoreError(f"the database URL names a server only: name the database; write {FORMS}")
        if not parsed.query.keys().isdisjoint(("password", "passwd")):
            raise StoreError(
                f"the password may not stand behind the ? of the database URL, where it shows; write {FORMS}"
            )
        # Here, since SQLite, which most start with, needs neither the driver nor SQLAlchemy's dialect of it.
        from taskyard_scheduler.store.mysql import mysql_store

        return mysql_store(parsed)
    raise StoreError(f"there is no store for {kind!r} databases; write {FORMS}")


def shown(url: str) -> str:
    """Returns a database's address for people: without its password, and nothing of one that cannot be read."""
    try:
        return make_url(url).set(query={}).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return "(cannot be read)"


def _path_of(url: URL) -> Path:
    if not url.database or url.database == ":memory:":
        raise StoreError("SQLite in memory would lose everything; name a file: sqlite:///path/to/file")
    return Path(url.database).absolute()
