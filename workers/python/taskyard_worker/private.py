"""Files that their owner alone can read: what tasks carry is not for everyone on the machine."""

from __future__ import annotations

import os


def private(path: str, flags: int) -> int:
    """Open a file, for `open(..., opener=private)`; one that is made is readable and writable by its owner alone."""
    return os.open(path, flags, 0o600)
