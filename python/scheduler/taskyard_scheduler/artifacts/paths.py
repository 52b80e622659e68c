"""Where the bytes of an artifact are, within whatever keeps them: a folder for each tenant, in it one for each while.

The folders of a while are named by the first digits of an id, so that names sort in the order of keys and no folder has
too many entries.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from taskyard_scheduler.artifacts.port import Key

INCOMING: Final = ".incoming"
"""Folder of what is being taken in; no tenant's folder begins with a dot."""
WHILE_DIGITS: Final = 7
"""So many digits of an id make a folder: about 17 minutes."""


def tenant_folder(tenant: str) -> str:
    """Returns a tenant's folder: of letters, digits, `_`, `-` and `%`, whatever the name has."""
    return quote(tenant, safe="").replace(".", "%2E").replace("~", "%7E")


def tenant_of(folder: str) -> str:
    """Returns whose folder it is."""
    return unquote(folder)


def place(key: Key) -> tuple[str, str, str]:
    """Returns the folders of a key and its file's name."""
    return tenant_folder(key.tenant), key.id[:WHILE_DIGITS], key.id


def in_its_folder(id: str, while_name: str) -> bool:
    """Tells whether a file is where one of that name belongs: what is not is somebody else's."""
    return id[:WHILE_DIGITS] == while_name
