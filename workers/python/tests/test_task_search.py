"""The task types `index` and `search` over artifacts, by hashing and by an endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from task_port import Port
from wire_server import Talk, answer, wire_server
from worker_artifacts import artifact_id

from taskyard_worker.embeddings.hashing import embed
from taskyard_worker.embeddings.models import Models
from taskyard_worker.errors import InvalidInput, NonRetryable
from taskyard_worker.tasks import index as index_module
from taskyard_worker.tasks.index import Index
from taskyard_worker.tasks.search import Search
from taskyard_worker.web.endpoint import Endpoint

DOCUMENTS = [
    {"id": "fish", "text": "A fish swims in the sea."},
    {"id": "bread", "text": "Bread is baked from flour."},
    {"id": "worker", "text": "A worker runs tasks for the scheduler."},
]
LOCAL = Models(None, "hashing-v1")


@pytest.fixture
def port() -> Port:
    return Port()


async def indexed(port: Port, models: Models = LOCAL, **values: Any) -> dict[str, Any]:
    outcome = await Index(models).run(port.ctx, **{"documents": DOCUMENTS, **values})
    output: dict[str, Any] = json.loads(outcome.output_json)
    return output


async def found(port: Port, models: Models = LOCAL, **values: Any) -> dict[str, Any]:
    outcome = await Search(models).run(port.ctx, **values)
    output: dict[str, Any] = json.loads(outcome.output_json)
    return output


def ids(output: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in output["hits"]]


async def test_an_index_is_lines_and_a_search_finds_what_is_near(port: Port) -> None:
    made = await indexed(port)
    assert made == {"index": made["index"], "model": "hashing-v1", "dimensions": 256, "documents": 3}
    first, *lines = [json.loads(line) for line in port.artifacts.bytes[made["index"]].splitlines()]
    assert first == {"model": "hashing-v1", "dimensions": 256}
    assert lines == [{**document, "vector": embed(document["text"])} for document in DOCUMENTS]
    (kept,) = port.artifacts.named
    assert (kept.name, kept.media_type, port.told) == ("index.jsonl", "application/jsonl", "3 documents")
    output = await found(port, index=made["index"], query="Which workers run a task?")
    assert (output["model"], ids(output)[0], len(output["hits"])) == ("hashing-v1", "worker", 3)
    scores = [hit["score"] for hit in output["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert output["hits"][0]["text"] == DOCUMENTS[2]["text"]


async def test_documents_may_come_from_an_artifact_and_in_batches(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BATCH_DOCUMENTS", 2)
    lines = "\n\n".join(json.dumps(document) for document in DOCUMENTS)
    uri = port.artifacts.put(lines.encode())
    made = await indexed(port, documents=uri, model="hashing-v1-64")
    assert (made["dimensions"], made["documents"]) == (64, 3)
    assert port.artifacts.bytes[made["index"]].count(b'"model"') == 1
    assert ids(await found(port, index=made["index"], query="bread and flour", top_k=1)) == ["bread"]


async def test_a_vector_is_looked_for_as_a_query_is(port: Port) -> None:
    made = await indexed(port)
    vector = embed("swims a fish?")
    by_vector = await found(port, index=made["index"], vector=vector, model="hashing-v1", top_k=2)
    assert by_vector == await found(port, index=made["index"], query="swims a fish?", top_k=2)
    assert ids(by_vector)[0] == "fish"


async def test_models_and_dimensions_are_not_mixed(port: Port) -> None:
    made = await indexed(port)
    with pytest.raises(InvalidInput, match="made by 'hashing-v1' and 'model' is 'small': do not mix them"):
        await found(port, index=made["index"], query="x", model="small")
    with pytest.raises(InvalidInput, match="the vectors of the index have 256 numbers, and that of the question 2"):
        await found(port, index=made["index"], vector=[1, 2])
    foreign = port.artifacts.put(b'{"model": "small", "dimensions": 2}\n')
    with pytest.raises(InvalidInput, match="'model' is 'small', and this worker has no endpoint that knows it"):
        await found(port, index=foreign, query="x")


async def test_an_endpoint_embeds_documents_and_query_alike(port: Port) -> None:
    async def by_length(talk: Talk) -> None:
        texts = talk.request.json()["input"]
        data = [{"index": at, "embedding": [len(text), 30]} for at, text in enumerate(texts)]
        await answer(200, {"data": data, "usage": {"total_tokens": len(texts)}})(talk)

    async with wire_server() as server:
        server.will(by_length)
        models = Models(Endpoint(f"{server.address}/v1", ""), "small")
        made = await indexed(port, models)
        assert (made["model"], made["dimensions"]) == ("small", 2)
        outcome = await Search(models).run(port.ctx, index=made["index"], query="x" * 26, top_k=1)
        assert ids(json.loads(outcome.output_json)) == ["bread"]
        assert outcome.metadata == {"model": "small", "total_tokens": "1"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"documents": []}, "'documents' must be a list of"),
        ({"documents": {"id": 1}}, "'documents' must be a list of"),
        ({"documents": "some text"}, "'documents' must be the address of an artifact"),
        ({"documents": [{"id": "a", "text": "x"}, {"id": "b"}]}, r"documents\[1\] must be"),
        ({"model": "small"}, "no endpoint that knows it"),
        ({"docs": []}, "'docs' is no input of index, which has documents and model"),
    ],
)
async def test_what_breaks_a_rule_of_index_is_named(port: Port, values: dict[str, Any], said: str) -> None:
    with pytest.raises(NonRetryable, match=said):
        await indexed(port, **values)


async def test_lines_that_are_no_documents_are_named(port: Port) -> None:
    with pytest.raises(NonRetryable, match="line 2 of the documents is no JSON object: 'x'"):
        await indexed(port, documents=port.artifacts.put(b'{"id": 1, "text": "a"}\nx\n'))
    with pytest.raises(NonRetryable, match=r"line 1 must be"):
        await indexed(port, documents=port.artifacts.put(b'{"id": 1}\n'))
    with pytest.raises(NonRetryable, match="there is nothing to index"):
        await indexed(port, documents=port.artifacts.put(b"\n"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "either 'query' or 'vector'"),
        ({"query": "x", "vector": [1]}, "either 'query' or 'vector'"),
        ({"query": " "}, "'query' must be a text that is not empty"),
        ({"vector": []}, "'vector' must be a list of numbers, not all of them 0"),
        ({"vector": [0, 0]}, "'vector' must be a list of numbers"),
        ({"vector": [1, "x"]}, "'vector' must be a list of numbers"),
        ({"vector": [10**400]}, "'vector' must be a list of numbers"),
        ({"query": "x", "top_k": 0}, "'top_k' is 0; it must be a whole number from 1 to 1,000"),
        ({"query": "x", "top_k": True}, "'top_k' is True"),
        ({"query": "x", "index": "file.jsonl"}, "'index' must be the address of an artifact"),
        ({"query": "x", "model": 5}, "'model' must be a text"),
        ({"query": "x", "limit": 5}, "'limit' is no input of search, which has index, query, vector, top_k, model"),
    ],
)  # fmt: skip
async def test_what_breaks_a_rule_of_search_is_named(port: Port, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await found(port, **{"index": f"artifact://{artifact_id(1)}", **values})


@pytest.mark.parametrize("content", [b"", b"{}\n", b"text\n", b'{"model": "hashing-v1", "dimensions": 256}\n{}\n'])
async def test_what_is_no_index_is_said(port: Port, content: bytes) -> None:
    with pytest.raises(NonRetryable, match="index"):
        await found(port, index=port.artifacts.put(content), query="x")


async def test_an_index_of_nothing_has_no_hits(port: Port) -> None:
    index = port.artifacts.put(b'{"model": "hashing-v1", "dimensions": 256}')
    assert await found(port, index=index, query="x") == {"hits": [], "model": "hashing-v1"}


async def test_an_artifact_that_there_is_not_is_named(port: Port) -> None:
    for uri in (f"artifact://{artifact_id(9)}", "artifact://nonsense"):
        with pytest.raises(InvalidInput):
            await found(port, index=uri, query="x")
        with pytest.raises(InvalidInput):
            await indexed(port, documents=uri)
