"""Holds the place of the MySQL store."""

from sqlalchemy.engine import URL

from taskyard_scheduler.store.port import Store


def mysql_store(url: URL) -> Store:
    """To be built."""
    raise NotImplementedError(url)
