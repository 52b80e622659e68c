"""Vectors from an OpenAI-compatible endpoint, asked for in batches one after the other."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskyard_worker.embeddings.batches import batches
from taskyard_worker.errors import NonRetryable, Retryable
from taskyard_worker.web.connections import read_at_most
from taskyard_worker.web.endpoint import Endpoint
from taskyard_worker.web.waiting import Patience

if TYPE_CHECKING:
    from taskyard_worker.embeddings.models import Spent

PATH = "/embeddings"
BATCH_TEXTS = 128
BATCH_CHARACTERS = 256 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class RemoteModel:
    """A model of an endpoint.

    Args:
        name: Its name there.
        endpoint: Who is asked.
    """

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self.name = name
        self._endpoint = endpoint

    async def embed(self, texts: Sequence[str], patience: Patience, spent: Spent) -> list[Sequence[float]]:
        """Return a vector of each text. Raises NonRetryable and Retryable."""
        vectors: list[Sequence[float]] = []
        for batch in batches(texts, BATCH_CHARACTERS, BATCH_TEXTS):
            vectors += await self._batch(batch, patience, spent)
        if len({len(vector) for vector in vectors}) > 1:
            raise NonRetryable(f"the endpoint gave vectors of different lengths for one model, {self.name!r}")
        return vectors

    async def _batch(self, texts: Sequence[str], patience: Patience, spent: Spent) -> list[Sequence[float]]:
        asked = {"model": self.name, "input": list(texts), "encoding_format": "float"}
        async with self._endpoint.answer(PATH, asked, patience) as response:
            body = await read_at_most(response, MAX_ANSWER_BYTES, lambda: NonRetryable("the vectors are too large"))
        try:
            vectors, tokens = await asyncio.to_thread(read_answer, body, len(texts))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            said = body[:200].decode(errors="replace")
            raise Retryable(f"the endpoint gave no {len(texts)} vectors, but {said!r}") from error
        spent.add(tokens)
        return vectors


def read_answer(body: bytes, count: int) -> tuple[list[Sequence[float]], int]:
    """Return the vectors of an answer, and the tokens that it counts. Raises what `read_vectors` raises."""
    answer = json.loads(body)
    return read_vectors(answer, count), tokens_in(answer)


def read_vectors(answer: Any, count: int) -> list[Sequence[float]]:
    """Return the vectors of an answer in the order of the texts.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: They are not what was asked for.
    """
    given = [(each.get("index", place), each["embedding"]) for place, each in enumerate(answer["data"])]
    vectors: dict[int, Sequence[float]] = {place: [finite(value) for value in vector] for place, vector in given}
    if len(given) != count or sorted(vectors) != list(range(count)) or not all(vectors.values()):
        raise ValueError("not one vector for each text")
    return [vectors[number] for number in range(count)]


def finite(value: Any) -> float:
    """Return a number that is one."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def tokens_in(answer: Any) -> int:
    """Return how many tokens the endpoint counted; 0 when it does not say."""
    usage = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int else 0
