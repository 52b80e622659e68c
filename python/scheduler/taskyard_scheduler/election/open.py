"""Chooses an election by its kind. The one place that knows every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from taskyard_scheduler.election.database import DatabaseElection
from taskyard_scheduler.election.local import LocalElection
from taskyard_scheduler.store.port import Election

LEADER_FILE = "leader.lock"


def open_election(kind: Literal["local", "database"], *, url: str, data: Path) -> Election:
    """Returns an election.

    Args:
        kind: `local` for schedulers that share a folder, `database` for those that share a MySQL or MariaDB server.
        url: of the database; `database` elects by a lock in it.
        data: the folder that `local` elects in.
    """
    if kind == "local":
        return LocalElection(data / LEADER_FILE)
    # Here, since a local election needs no MySQL driver.
    from taskyard_scheduler.store.mysql_lock import NamedLock

    return DatabaseElection(lambda: NamedLock(url, "leader"))
