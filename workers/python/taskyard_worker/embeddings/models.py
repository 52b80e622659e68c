"""Which model makes vectors of texts, and the way to each: here, or at the endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskyard_worker.embeddings.batches import batches
from taskyard_worker.embeddings.hashing import MAX_DIMENSIONS, MIN_DIMENSIONS, dimensions_of, embed
from taskyard_worker.embeddings.remote import RemoteModel
from taskyard_worker.errors import InvalidInput
from taskyard_worker.web.endpoint import Endpoint
from taskyard_worker.web.waiting import Patience

Vector = Sequence[float]
BATCH_CHARACTERS = 64 * 1024
"""How much text is worked on in a thread before a cancel is looked at."""


@dataclass(slots=True)
class Spent:
    """What the vectors of one attempt cost. `tokens`: None where nobody counts them."""

    tokens: int | None = None

    def add(self, tokens: int) -> None:
        """Count some more."""
        self.tokens = (self.tokens or 0) + tokens


class Model(Protocol):
    """Makes vectors."""

    @property
    def name(self) -> str:
        """The model's name; vectors of different ones are never compared."""
        ...

    async def embed(self, texts: Sequence[str], patience: Patience, spent: Spent) -> list[Vector]:
        """Return a vector of each text, in order, all of one length.

        Raises:
            NonRetryable: The endpoint refuses the texts.
            Retryable: It gave no vectors, and may later.
        """
        ...


class HashingModel:
    """`hashing-v1`, computed in a thread.

    Args:
        name: Its name.
        dimensions: How many numbers a vector has.
    """

    def __init__(self, name: str, dimensions: int) -> None:
        self.name = name
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str], patience: Patience, spent: Spent) -> list[Vector]:
        """Return a vector of each text."""
        vectors: list[Vector] = []
        for batch in batches(texts, BATCH_CHARACTERS, len(texts)):
            vectors += await asyncio.to_thread(self._batch, batch)
        return vectors

    def _batch(self, texts: Sequence[str]) -> list[list[float]]:
        return [embed(text, self._dimensions) for text in texts]


class Models:
    """The models that this worker can use.

    Args:
        endpoint: Makes the vectors of all models but `hashing-v1`; None: there is none.
        default: The model of tasks that name none.
    """

    def __init__(self, endpoint: Endpoint | None, default: str) -> None:
        self._endpoint = endpoint
        self._default = default

    def find(self, name: object) -> Model:
        """Return a model by its name; None: the default.

        Raises:
            InvalidInput: This worker has no such model.
        """
        name = self._default if name is None else name
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput("'model' must be the name of an embedding model, such as hashing-v1")
        dimensions = dimensions_of(name)
        if dimensions is not None:
            return HashingModel(name, dimensions)
        if name.startswith("hashing-v1"):
            rule = f"hashing-v1-N has {MIN_DIMENSIONS} to {MAX_DIMENSIONS:,} dimensions N"
            raise InvalidInput(f"'model' is {name[:200]!r}, which is none: {rule}, and hashing-v1 has 256")
        if self._endpoint is None:
            raise InvalidInput(
                f"'model' is {name[:200]!r}, and this worker has no endpoint that knows it: set TASKYARD_LLM_BASE_URL "
                "for the worker, or use hashing-v1"
            )
        return RemoteModel(name, self._endpoint)
