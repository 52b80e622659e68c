"""The built-in task type `search`: the documents of an index that are nearest to a question, exactly."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard_worker.context import Context
from taskyard_worker.embeddings.index_file import Header, NotAnIndex, read_header
from taskyard_worker.embeddings.models import Models, Spent
from taskyard_worker.embeddings.ranking import Ranking
from taskyard_worker.errors import InvalidInput
from taskyard_worker.outcome import Outcome
from taskyard_worker.tasks.embedding import counted
from taskyard_worker.tasks.index import address_of, lines_of
from taskyard_worker.tasks.texts import text_of
from taskyard_worker.verdict import output_text
from taskyard_worker.web.waiting import Patience

MAX_HITS = 1000
INPUTS = ("index", "query", "vector", "top_k", "model")
BATCH_LINES = 256
"""How many documents are compared in a thread before a cancel is looked at."""


class Search:
    """Runs `search` tasks.

    Args:
        models: The models of this worker.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    async def run(self, ctx: Context, top_k: int = 5, **rest: Any) -> Outcome:
        """Return the nearest documents, the best first.

        Args:
            ctx: The attempt.
            top_k: How many at most.
            rest: The others of INPUTS: `index`, `query` or `vector`, and the `model` that made the vector.

        Raises:
            InvalidInput: The input breaks a rule, or is of another model than the index.
            NonRetryable: The index is none, or the endpoint refuses the query.
            Retryable: The endpoint gave no vector, and may later.
        """
        given = read_input({**rest, "top_k": top_k})
        spent = Spent()
        look = Look(ctx, self._models, given, spent)
        ranking = await look.through(given["index"])
        hits = [{"id": hit.id, "score": hit.score, "text": hit.text} for hit in ranking.hits()]
        output = {"hits": hits, "model": look.model}
        return Outcome(TASK_STATUS_SUCCESS, output_text(output), metadata=counted(look.model, spent))


class Look:
    """One look through an index.

    Args:
        ctx: The attempt.
        models: The models of this worker.
        given: The checked input.
        spent: What the query's vector costs.
    """

    def __init__(self, ctx: Context, models: Models, given: Mapping[str, Any], spent: Spent) -> None:
        self.model = ""
        self._ctx = ctx
        self._models = models
        self._given = given
        self._spent = spent
        self._patience = Patience(ctx)

    async def through(self, uri: str) -> Ranking:
        """Return what is nearest, having read the artifact once and kept nothing else of it."""
        ranking: Ranking | None = None
        async with aclosing(lines_of(self._ctx, uri, "the index")) as lines:
            batch: list[bytes] = []
            async for line in lines:
                if ranking is None:
                    ranking = await self._begin(read_header(line))
                    continue
                batch.append(line)
                if len(batch) >= BATCH_LINES:
                    await asyncio.to_thread(ranking.take, batch)
                    batch = []
        if ranking is None:
            raise NotAnIndex("the index is empty; an `index` task writes such files")
        await asyncio.to_thread(ranking.take, batch)
        return ranking

    async def _begin(self, header: Header) -> Ranking:
        self.model = header.model
        wanted = self._given.get("model")
        if wanted is not None and wanted != header.model:
            raise InvalidInput(
                f"the index was made by {header.model!r} and 'model' is {wanted[:200]!r}: do not mix them"
            )
        vector = self._given.get("vector") or await self._embed(header)
        if len(vector) != header.dimensions:
            raise InvalidInput(
                f"the vectors of the index have {header.dimensions} numbers, and that of the question {len(vector)}: "
                "take one of the same model"
            )
        return Ranking(header, vector, self._given["top_k"])

    async def _embed(self, header: Header) -> Sequence[float]:
        model = self._models.find(header.model)
        (vector,) = await model.embed([self._given["query"]], self._patience, self._spent)
        return vector


def read_input(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the input. Raises InvalidInput."""
    given = {name: value for name, value in values.items() if value is not None}
    if unknown := next((name for name in given if name not in INPUTS), None):
        raise InvalidInput(f"{unknown[:200]!r} is no input of search, which has {', '.join(INPUTS)}; correct its name")
    if ("query" in given) == ("vector" in given):
        raise InvalidInput("a search task has either 'query' or 'vector'; give exactly one of them")
    address_of("index", given.get("index"))
    top_k = given["top_k"]
    if type(top_k) is not int or not 1 <= top_k <= MAX_HITS:
        raise InvalidInput(f"'top_k' is {str(top_k)[:200]}; it must be a whole number from 1 to {MAX_HITS:,}")
    if "model" in given:
        text_of("model", given["model"])
    if "query" in given:
        text_of("query", given["query"])
    else:
        given["vector"] = read_vector(given["vector"])
    return given


def read_vector(value: Any) -> list[float]:
    """Return a vector that can be compared."""
    if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
        try:
            vector = [float(each) for each in value]
        except OverflowError:
            vector = [math.inf]
        if all(map(math.isfinite, vector)) and any(vector):
            return vector
    raise InvalidInput("'vector' must be a list of numbers, not all of them 0")
