"""The built-in task type `index`: vectors of documents in a file that `search` reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard_worker.context import Context
from taskyard_worker.embeddings.index_file import (
    Document,
    Header,
    Lines,
    NotAnIndex,
    entry_line,
    header_line,
    read_document,
    read_line,
)
from taskyard_worker.embeddings.models import Model, Models, Spent, Vector
from taskyard_worker.errors import InvalidInput, NonRetryable
from taskyard_worker.outcome import Outcome
from taskyard_worker.tasks.embedding import counted
from taskyard_worker.verdict import output_text
from taskyard_worker.web.waiting import Patience

MEDIA_TYPE = "application/jsonl"
BATCH_DOCUMENTS = 128
BATCH_CHARACTERS = 256 * 1024
"""How much is embedded before it is written: what an index takes of the worker's memory."""


class Index:
    """Runs `index` tasks.

    Args:
        models: The models of this worker.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    async def run(self, ctx: Context, documents: Any = None, model: Any = None, **rest: Any) -> Outcome:
        """Return where the index is, what its vectors are, and of how many documents.

        Args:
            ctx: The attempt.
            documents: A list of `{"id", "text"}`, or an artifact with one on each line.
            model: Its name; None: the worker's default.
            rest: Nothing.

        Raises:
            InvalidInput: The input breaks a rule.
            NonRetryable: A document is none, or the endpoint refuses the texts.
            Retryable: The endpoint gave no vectors, and may later.
        """
        check(documents, rest)
        work = Indexing(ctx, self._models.find(model), documents)
        async with aclosing(work.lines()) as lines:
            uri = await ctx.artifacts.put(lines, name="index.jsonl", media_type=MEDIA_TYPE)
        output = {
            "index": uri, "model": work.model.name, "dimensions": work.dimensions, "documents": work.count,
        }  # fmt: skip
        return Outcome(TASK_STATUS_SUCCESS, output_text(output), metadata=counted(work.model.name, work.spent))


class Indexing:
    """The making of one index.

    Args:
        ctx: The attempt.
        model: Makes the vectors.
        documents: The input.

    Attributes:
        count: How many documents are in it so far.
        dimensions: How long its vectors are; 0 while there is none.
    """

    def __init__(self, ctx: Context, model: Model, documents: Any) -> None:
        self.model = model
        self.count = 0
        self.dimensions = 0
        self.spent = Spent()
        self._ctx = ctx
        self._documents = documents
        self._patience = Patience(ctx)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Give the index, a batch of documents at a time. Raises what the model raises, and NotAnIndex."""
        batch: list[Document] = []
        size = 0
        async with aclosing(self._read()) as documents:
            async for document in documents:
                batch.append(document)
                size += len(document.text)
                if len(batch) >= BATCH_DOCUMENTS or size >= BATCH_CHARACTERS:
                    yield await self._embed(batch)
                    batch, size = [], 0
        if batch:
            yield await self._embed(batch)
        if not self.count:
            raise NotAnIndex("'documents' has none: there is nothing to index")

    async def _embed(self, batch: list[Document]) -> bytes:
        vectors = await self.model.embed([document.text for document in batch], self._patience, self.spent)
        length = len(vectors[0])
        first = b"" if self.count else header_line(Header(self.model.name, length))
        if self.count and length != self.dimensions:
            raise NonRetryable(
                f"the model {self.model.name!r} gave vectors of {self.dimensions} and of {length} numbers"
            )
        self.dimensions = length
        self.count += len(batch)
        await self._ctx.progress(message=f"{self.count:,} documents")
        return first + await asyncio.to_thread(entries, batch, vectors)

    async def _read(self) -> AsyncGenerator[Document, None]:
        if isinstance(self._documents, list):
            for number, value in enumerate(self._documents):
                yield read_document(value, f"documents[{number}]", number)
            return
        number = 0
        async with aclosing(lines_of(self._ctx, self._documents, "the documents")) as lines:
            async for line in lines:
                if line.strip():
                    yield read_document(read_line(line, number + 1, "the documents"), f"line {number + 1}", number)
                number += 1


def entries(documents: Sequence[Document], vectors: Sequence[Vector]) -> bytes:
    """Return the lines of some documents."""
    return b"".join(map(entry_line, documents, vectors))


async def lines_of(ctx: Context, uri: str, what: str) -> AsyncGenerator[bytes, None]:
    """Give the lines of an artifact, without their ends."""
    cutter = Lines(what)
    async with aclosing(ctx.artifacts.open(uri)) as pieces:
        async for piece in pieces:
            for line in cutter.feed(piece):
                yield line
    for line in cutter.finish():
        yield line


def check(documents: Any, rest: Mapping[str, Any]) -> None:
    """Check the input. Raises InvalidInput."""
    if rest:
        raise InvalidInput(
            f"{next(iter(rest))[:200]!r} is no input of index, which has documents and model; correct its name"
        )
    if not isinstance(documents, list | str) or not documents:
        raise InvalidInput(
            '\'documents\' must be a list of {"id": …, "text": …}, not empty, or the artifact:// address of a file '
            "with one on each line"
        )
    if isinstance(documents, str):
        address_of("documents", documents)


def address_of(field: str, value: Any) -> str:
    """Return the address of an artifact."""
    if not isinstance(value, str) or not value.startswith("artifact://"):
        raise InvalidInput(f"{field!r} must be the address of an artifact, artifact://…")
    return value
