"""Where the bytes of artifacts are kept, how they come in, and when they go."""

from taskyard_scheduler.artifacts.folder import FolderStore
from taskyard_scheduler.artifacts.open import open_artifacts
from taskyard_scheduler.artifacts.port import (
    CHUNK_BYTES,
    ArtifactStore,
    ArtifactStoreError,
    ArtifactStoreUnavailable,
    BytesMissing,
    Incoming,
    Key,
)

__all__ = [
    "CHUNK_BYTES",
    "ArtifactStore",
    "ArtifactStoreError",
    "ArtifactStoreUnavailable",
    "BytesMissing",
    "FolderStore",
    "Incoming",
    "Key",
    "open_artifacts",
]
