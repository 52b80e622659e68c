"""The task type `embedding`: by hashing, and by an endpoint on a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from task_port import Port
from wire_server import Reply, Talk, WireServer, answer, cut_off, wire_server

from taskyard_worker.embeddings import remote
from taskyard_worker.embeddings.batches import batches
from taskyard_worker.embeddings.hashing import embed
from taskyard_worker.embeddings.models import Models
from taskyard_worker.errors import InvalidInput, NonRetryable, Retryable
from taskyard_worker.tasks.embedding import Embedding
from taskyard_worker.web.endpoint import Endpoint


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with wire_server() as server:
        yield server


def local() -> Embedding:
    return Embedding(Models(None, "hashing-v1"))


def remotely(server: WireServer) -> Embedding:
    return Embedding(Models(Endpoint(f"{server.address}/v1", "sk-key"), "small"))


async def asked(task: Embedding, **values: Any) -> tuple[dict[str, Any], Any]:
    """Runs the task; returns output and metadata."""
    outcome = await task.run(Port().ctx, **values)
    return json.loads(outcome.output_json), outcome.metadata


def lengths(backwards: bool = False) -> Reply:
    """Answers with vectors that say how long each text is."""

    async def reply(talk: Talk) -> None:
        texts = talk.request.json()["input"]
        data = [{"index": at, "embedding": [len(text), 0.5]} for at, text in enumerate(texts)]
        whole = {"data": data[::-1] if backwards else data, "usage": {"total_tokens": len(texts)}}
        await answer(200, whole)(talk)

    return reply


async def test_one_text_or_many_by_hashing() -> None:
    output, metadata = await asked(local(), text="One two")
    assert output == {"dimensions": 256, "model": "hashing-v1", "vectors": [embed("One two")]}
    assert metadata == {"model": "hashing-v1"}
    output, _ = await asked(local(), texts=["One", "two"], model="hashing-v1-16")
    assert output == {"dimensions": 16, "model": "hashing-v1-16", "vectors": [embed("One", 16), embed("two", 16)]}


async def test_an_endpoint_makes_the_vectors_of_its_models(server: WireServer) -> None:
    server.will(lengths(backwards=True))
    output, metadata = await asked(remotely(server), texts=["a", "bb", "ccc"])
    assert output == {"dimensions": 2, "model": "small", "vectors": [[1, 0.5], [2, 0.5], [3, 0.5]]}
    assert metadata == {"model": "small", "total_tokens": "3"}
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/embeddings", "Bearer sk-key")
    assert request.json() == {"model": "small", "input": ["a", "bb", "ccc"], "encoding_format": "float"}
    assert (await asked(remotely(server), text="x", model="hashing-v1"))[0]["vectors"] == [embed("x")]
    assert len(server.requests) == 1


async def test_many_texts_go_in_batches_and_keep_their_order(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "BATCH_TEXTS", 2)
    server.will(lengths(), answer(429, retry_after="0.01"), lengths())
    texts = ["x" * length for length in range(1, 6)]
    output, metadata = await asked(remotely(server), texts=texts)
    assert [vector[0] for vector in output["vectors"]] == [1, 2, 3, 4, 5]
    assert [len(request.json()["input"]) for request in server.requests] == [2, 2, 2, 1]
    assert metadata == {"model": "small", "total_tokens": "5"}


@pytest.mark.parametrize(
    "body",
    [
        {"data": []}, {"data": [{"index": 0, "embedding": [1]}] * 2}, {"data": [{"index": 7, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": []}]}, {"data": [{"index": 0, "embedding": ["x"]}]}, {"data": [5]},
        {"data": [{"index": 0, "embedding": [float("inf")]}]}, {"data": None}, {}, [], "text",
    ],
)  # fmt: skip
async def test_an_answer_that_is_no_vectors_is_said(server: WireServer, body: Any) -> None:
    server.will(answer(200, json.dumps(body)))
    with pytest.raises(Retryable, match="the endpoint gave no 1 vectors, but"):
        await asked(remotely(server), text="x")


async def test_vectors_of_different_lengths_are_no_answer(server: WireServer) -> None:
    server.will(answer(200, {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}))
    with pytest.raises(NonRetryable, match="vectors of different lengths for one model, 'small'"):
        await asked(remotely(server), texts=["x", "y"])


async def test_refusals_and_broken_connections_are_those_of_every_endpoint(server: WireServer) -> None:
    server.will(answer(400, {"error": {"message": "too long"}}), answer(500), cut_off)
    with pytest.raises(NonRetryable, match="answered 400: too long"):
        await asked(remotely(server), text="x")
    with pytest.raises(Retryable, match="answered 500"):
        await asked(remotely(server), text="x")
    with pytest.raises(Retryable, match="the connection broke"):
        await asked(remotely(server), text="x")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "either 'text' or 'texts'"),
        ({"text": "a", "texts": ["b"]}, "either 'text' or 'texts'"),
        ({"text": " "}, "'text' must be a text that is not empty"),
        ({"texts": ["a", 5]}, r"'texts\[1\]' must be a text"),
        ({"texts": []}, "'texts' must be a list of 1 to 10,000 texts"),
        ({"texts": "a"}, "'texts' must be a list"),
        ({"text": "\ud800"}, "'text' is not valid Unicode"),
        ({"text": "a", "model": 5}, "'model' must be the name of an embedding model"),
        ({"text": "a", "model": "small"}, "this worker has no endpoint that knows it: set TASKYARD_LLM_BASE_URL"),
        ({"text": "a", "model": "hashing-v1-5"}, "'model' is 'hashing-v1-5', which is none: hashing-v1-N has 16 to"),
        ({"text": "a", "modell": "x"}, "'modell' is no input of embedding, which has text, texts and model"),
    ],
)  # fmt: skip
async def test_what_breaks_a_rule_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await asked(local(), **values)


def test_batches_keep_every_text_in_order() -> None:
    texts = ["aaaa", "b", "c", "dddddddddd", "e"]
    assert batches(texts, 5, 2) == [["aaaa", "b"], ["c"], ["dddddddddd"], ["e"]]
    assert batches([], 5, 2) == []
