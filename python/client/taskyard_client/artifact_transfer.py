"""What an upload and a download have in hand: pieces going out, and what has come in. Makes no calls."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskyard.v1.artifacts_pb2 import Artifact, DownloadArtifactResponse

CHUNK_BYTES: Final = 1024 * 1024
"""The size of the pieces that artifacts travel in."""


@dataclass(slots=True)
class Received:
    """How far a download is, over as many calls as it takes.

    Attributes:
        offset: The first byte that is wanted.
        length: How many are wanted at most. 0: all.
        received: How many are here.
        artifact: What is known of the artifact; None before anything came.
    """

    offset: int = 0
    length: int = 0
    received: int = 0
    artifact: Artifact | None = None
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def wanted(self) -> int | None:
        """How many bytes there will be; None while that is not known."""
        if self.artifact is None:
            return None
        rest = max(0, self.artifact.size - self.offset)
        return min(self.length or rest, rest)

    @property
    def done(self) -> bool:
        """Whether all is here."""
        return self.received == self.wanted

    @property
    def next_offset(self) -> int:
        """From where to go on."""
        return self.offset + self.received

    @property
    def left(self) -> int:
        """How many bytes to ask for. 0: all that follow."""
        return self.length - self.received if self.length else 0

    def take(self, response: DownloadArtifactResponse) -> bytes:
        """Takes in a message; returns its bytes, none for the head."""
        if response.WhichOneof("content") == "artifact":
            self.artifact = response.artifact
            return b""
        self.received += len(response.data)
        self._digest.update(response.data)
        return response.data

    def fault(self) -> str:
        """Returns what is wrong with what came; empty when nothing is, or a part of an artifact cannot tell."""
        artifact = self.artifact
        if artifact is None or self.received != artifact.size or self._digest.hexdigest() == artifact.sha256:
            return ""
        return f"artifact {artifact.artifact_id} is damaged: what came has not the SHA-256 that it was stored with"


def chunks_of(source: bytes | Path) -> Iterator[bytes]:
    """Yields bytes in the pieces that they travel in."""
    if isinstance(source, bytes):
        for start in range(0, len(source), CHUNK_BYTES):
            yield source[start : start + CHUNK_BYTES]
        return
    with source.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def guessed_type(name: str) -> str:
    """Returns the media type that a file's name tells; empty for none."""
    guess, encoding = mimetypes.guess_type(name)
    return guess if guess and not encoding else ""
