"""Where a user's Taskyard keeps its files, and what `taskyard dev` leaves there for other commands. Loads little."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LEFT_BY_DEV = "cli.json"
"""Address and token for the command."""
SECRET_FILE = "secret"  # noqa: S105 - the name of a file
"""The scheduler's secret."""


def data_directory(environ: Mapping[str, str]) -> Path:
    """Returns where this user's Taskyard keeps its files."""
    given = environ.get("TASKYARD_DATA")
    return Path(given) if given else Path.home() / ".local" / "share" / "taskyard"
