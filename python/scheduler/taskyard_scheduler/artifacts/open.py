"""Chooses an artifact store by its address. The one place that knows every kind."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.artifacts.folder import FolderStore
from taskyard_scheduler.artifacts.port import ArtifactStore


def open_artifacts(url: str, data: Path, log: FilteringBoundLogger) -> ArtifactStore:
    """Returns a store, on which `start` is to be awaited.

    Args:
        url: Empty: `artifacts` in the data directory. `file:///folder`, or any address that fsspec knows.
        data: The scheduler's data directory.
        log: Told of what was left and removed.

    Raises:
        ArtifactStoreUnavailable: Nothing reads this address.
    """
    if not url:
        return FolderStore(data / "artifacts", log)
    if url.startswith("file://"):
        return FolderStore(Path(unquote(urlsplit(url).path)), log)
    # Here, since most need no driver, and fsspec takes its time to load.
    from taskyard_scheduler.artifacts.remote import RemoteStore

    return RemoteStore(url, log)
