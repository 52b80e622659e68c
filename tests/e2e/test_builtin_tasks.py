"""The built-in task types through a real scheduler, a real worker and the command, against servers of the tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from wire_server import Talk, WireServer, answer, chunk, cut_off, says, sse, streams, wire_server

from e2e.process import until
from e2e.site import Site
from e2e.test_live_output import run_command
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1.workflows_pb2 import Workflow, WorkflowInput, WorkflowStep
from taskyard_client import Retry, TaskFailed

AT_ONCE = Retry(first_delay=0.0)


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with wire_server() as server:
        yield server


@pytest.fixture
async def speaking(site: Site, server: WireServer) -> Site:
    """A site whose worker has the server as its endpoint."""
    await site.start_scheduler()
    environ = {"TASKYARD_LLM_BASE_URL": f"{server.address}/v1", "TASKYARD_LLM_API_KEY": "sk-e2e-key"}
    await site.start_worker("speaker", settings=environ)
    return site


async def test_an_answer_is_watched_while_it_comes(speaking: Site, server: WireServer) -> None:
    gate = asyncio.Event()
    server.will(streams(sse(chunk("To ")), sse(chunk("be ")), says("or not"), gate=gate))
    client = speaking.client()
    handle = await client.submit("llm_call", {"prompt": "Speak"})
    command = await run_command(speaking, "logs", "-f", handle.id, "--stream", "output")
    assert command.stdout is not None
    async with asyncio.timeout(60):
        assert await command.stdout.readexactly(6) == b"To be "
        gate.set()
        assert await handle.result(60) == {
            "response": "To be or not", "tokens": 4, "model": "tiny-1", "finish_reason": "stop",
        }  # fmt: skip
        rest, _ = await command.communicate()
    assert rest == b"or not"
    told = (await client.get_task(handle.id)).task
    assert dict(told.metadata) == {
        "model": "tiny-1", "prompt_tokens": "3", "completion_tokens": "1", "total_tokens": "4",
    }  # fmt: skip
    assert server.requests[0].headers["authorization"] == "Bearer sk-e2e-key"
    shown = await run_command(speaking, "task", "show", handle.id)
    printed, _ = await shown.communicate()
    assert "total_tokens" in printed.decode()


async def test_a_cancel_during_the_answer_closes_the_connection(speaking: Site, server: WireServer) -> None:
    async def endless(talk: Talk) -> None:
        await talk.head(200, content_type="text/event-stream")
        await talk.send(sse(chunk("and so on ")))
        await talk.gone.wait()

    server.will(endless)
    client = speaking.client()
    handle = await client.submit("llm_call", {"prompt": "Speak"})
    await anext(handle.logs(follow=True, streams=["output"]))
    await handle.cancel()
    await server.changed.until(lambda: server.talks[0].gone.is_set())
    assert (await handle.wait(60)).status == tasks.TASK_STATUS_CANCELLED


async def test_a_pattern_without_end_holds_nothing_else_and_fails_once(speaking: Site, server: WireServer) -> None:
    client = speaking.client()
    server.will(streams(says(json.dumps("a" * 60 + "!"))))
    schema = {"type": "string", "pattern": "^(a+)+$"}
    held = await client.submit("llm_call", {"prompt": "Speak", "response_schema": schema}, retry=AT_ONCE)
    await server.changed.until(lambda: bool(server.requests))
    beside = await client.submit("text_process", {"text": " a ", "operation": "clean"})
    assert await beside.result(60) == {"result": "a"}
    ended = await held.wait(60)
    assert (ended.attempt, ended.error.kind) == (1, "INVALID_INPUT")
    assert "'response_schema' takes more than 5 s" in ended.error.message


async def test_what_passes_is_tried_again_and_what_does_not_is_not(speaking: Site, server: WireServer) -> None:
    client = speaking.client()
    server.will(
        answer(500), streams(sse(chunk("half")), cut=True), cut_off, answer(429, retry_after="0"), streams(says("x"))
    )
    handle = await client.submit("llm_call", {"prompt": "Speak"}, retry=Retry(max_attempts=5, first_delay=0.0))
    assert (await handle.result(60))["response"] == "x"
    attempts = (await client.get_task(handle.id)).attempts
    assert [each.error.kind for each in attempts] == ["HANDLER_ERROR", "HANDLER_ERROR", "HANDLER_ERROR", ""]
    assert "was answered 500" in attempts[0].error.message
    server.will(answer(401, {"error": {"message": "wrong key sk-e2e-key"}}))
    refused = await client.submit("llm_call", {"prompt": "Speak"}, retry=AT_ONCE)
    with pytest.raises(TaskFailed) as caught:
        await refused.result(60)
    task = caught.value.task
    assert (task.attempt, task.error.kind) == (1, "NON_RETRYABLE")
    assert task.error.message.endswith("wrong key [hidden]")
    told = [line.content.text async for line in refused.logs()]
    assert [line for line in told if "sk-e2e-key" in line or "Traceback" in line] == []


async def test_vectors_of_an_endpoint_and_of_the_worker(speaking: Site, server: WireServer) -> None:
    server.will(answer(200, {"data": [{"index": 0, "embedding": [0.5, 1.0]}], "usage": {"total_tokens": 1}}))
    client = speaking.client()
    remote = await client.submit("embedding", {"text": "Hello", "model": "small"})
    assert await remote.result(60) == {"dimensions": 2, "model": "small", "vectors": [[0.5, 1.0]]}
    own = await client.submit("embedding", params={"text": "Hello"})
    output = await own.result(60)
    assert (output["model"], output["dimensions"], len(output["vectors"])) == ("hashing-v1", 256, 1)
    assert len(server.requests) == 1


async def test_a_worker_without_an_endpoint_does_not_offer_llm_call(shared_site: Site) -> None:
    client = shared_site.client()
    (worker,) = [each async for each in client.workers()]
    assert {"http", "embedding", "shell", "sleep", "text_process"} <= set(worker.capabilities)
    assert "llm_call" not in worker.capabilities
    process = shared_site.processes[-1]
    said = [line for line in process.events() if line["event"] == "llm_call is not offered"]
    assert ["TASKYARD_LLM_BASE_URL" in line["why"] for line in said] == [True]
    handle = await client.submit("llm_call", {"prompt": "Speak"})

    async def why() -> list[str]:
        return [reason.code for reason in (await client.explain(handle.id)).reasons]

    assert await until(why) == ["NO_WORKER_FOR_TYPE"]
    await handle.cancel()


async def test_a_request_is_made_tried_again_and_refused(shared_site: Site, server: WireServer) -> None:
    server.will(answer(503), answer(429, retry_after="0"), answer(200, {"id": 7}))
    client = shared_site.client()
    headers = {"X-Key": "k-secret"}
    handle = await client.submit("http", {"url": f"{server.address}/x", "headers": headers}, retry=AT_ONCE)
    output = await handle.result(60)
    assert (output["status"], output["body"]) == (200, {"id": 7})
    assert (await client.get_task(handle.id)).task.attempt == 2
    server.will(answer(404, "no k-secret here"))
    refused = await (await client.submit("http", {"url": server.address, "headers": headers})).wait(60)
    assert (refused.attempt, refused.error.kind) == (1, "NON_RETRYABLE")
    assert refused.error.message.endswith("no [hidden] here")
    flat = await client.submit("http", params={"url": server.address, "expect": "404"})
    assert (await flat.result(60))["status"] == 404


async def test_an_exclusive_request_runs_in_a_process_of_its_own(shared_site: Site, server: WireServer) -> None:
    server.will(answer(200, "alone"))
    handle = await shared_site.client().submit("http", {"url": server.address}, exclusive=True)
    assert json.dumps(await handle.result(60)).count("alone") == 1


async def test_what_cannot_be_exclusive_fails_once_and_says_so(shared_site: Site) -> None:
    for task_type, input in (("embedding", {"text": "x"}), ("index", {"documents": []}), ("search", {"query": "x"})):
        handle = await shared_site.client().submit(task_type, input, exclusive=True)
        ended = await handle.wait(60)
        assert (ended.attempt, ended.error.kind) == (1, "NON_RETRYABLE")
        assert f"task type '{task_type}' cannot be exclusive" in ended.error.message


async def test_documents_are_indexed_and_found_by_a_run(shared_site: Site) -> None:
    client = shared_site.client()
    texts = ["A fish swims in the sea.", "Bread is baked from flour.", "A worker runs tasks for the scheduler."]
    lines = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    documents = await client.artifacts.upload(lines.encode(), "documents.jsonl")
    steps = [
        WorkflowStep(id="index", task_type="index", input_json='{"documents": "${inputs.documents}"}'),
        WorkflowStep(
            id="search", task_type="search", needs=["index"],
            input_json='{"index": "${steps.index.output.index}", "query": "Which workers run a task?", "top_k": 2}',
        ),
    ]  # fmt: skip
    inputs = [WorkflowInput(name="documents")]
    output = '"${steps.search.output}"'
    await client.apply_workflow(Workflow(name="find", inputs=inputs, steps=steps, output_json=output))
    found = await (await client.start_run("find", {"documents": documents.uri})).result(60)
    assert found["model"] == "hashing-v1"
    assert (found["hits"][0]["id"], len(found["hits"])) == ("2", 2)


async def test_many_vectors_and_bodies_that_are_no_text_are_artifacts(shared_site: Site, server: WireServer) -> None:
    client = shared_site.client()
    texts = [f"text number {n}" for n in range(500)]
    many = await client.submit("embedding", {"texts": texts, "model": "hashing-v1-512"})
    assert (await many.wait(60)).output_json.startswith('"artifact://')
    assert len((await many.result())["vectors"]) == 500
    assert dict((await client.get_task(many.id)).task.metadata) == {"model": "hashing-v1-512"}
    picture = b"\x89PNG\0\1\2"
    server.will(answer(200, picture, content_type="image/png"))
    for exclusive in (False, True):
        handle = await client.submit("http", {"url": f"{server.address}/cat.png"}, exclusive=exclusive)
        uri = (await handle.result(60))["body"]
        assert await client.artifacts.read(uri) == picture
        stored = await client.artifacts.get(uri)
        assert (stored.name, stored.media_type) == ("cat.png", "image/png")
