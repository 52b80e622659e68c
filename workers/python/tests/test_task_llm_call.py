"""The task type `llm_call` against an endpoint on a real socket: slow, broken, refusing, cutting off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from task_port import Port
from wire_server import (
    Talk,
    WireServer,
    answer,
    bytewise,
    chunk,
    cut_off,
    says,
    silent,
    sse,
    streams,
    usage,
    wire_server,
)
from worker_fakes import assignment, working

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard_worker import TaskRegistry
from taskyard_worker.errors import InvalidInput, NonRetryable, Retryable
from taskyard_worker.registry import make_handler
from taskyard_worker.tasks.llm_call import LlmCall
from taskyard_worker.web.endpoint import Endpoint

KEY = "sk-s3cr3t-key"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


NOT_APART: Any = None
"""For answers that are compared at once: another process would be a fault."""


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with wire_server() as server:
        yield server


@pytest.fixture
def port() -> Port:
    return Port()


def call(server: WireServer) -> LlmCall:
    return LlmCall(Endpoint(f"{server.address}/v1/", KEY), "default-model", NOT_APART)


async def asked(server: WireServer, port: Port, **values: Any) -> dict[str, Any]:
    """Runs the task; returns its output."""
    outcome = await call(server).run(port.ctx, **{"prompt": "Speak", **values})
    assert outcome.status == TASK_STATUS_SUCCESS
    output: dict[str, Any] = json.loads(outcome.output_json)
    return output


async def test_a_prompt_is_asked_as_the_protocol_wants_it(server: WireServer, port: Port) -> None:
    server.will(streams(says("To ", "be")))
    options: dict[str, Any] = {"system": "Be brief", "temperature": 0.5, "max_tokens": 9, "model": "m"}
    outcome = await call(server).run(port.ctx, prompt="Speak", **options)
    assert json.loads(outcome.output_json) == {
        "response": "To be", "tokens": 5, "model": "tiny-1", "finish_reason": "stop",
    }  # fmt: skip
    assert outcome.metadata == {
        "model": "tiny-1", "prompt_tokens": "3", "completion_tokens": "2", "total_tokens": "5",
    }  # fmt: skip
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json() == {
        "model": "m", "temperature": 0.5, "max_tokens": 9, "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Speak"}],
    }  # fmt: skip
    assert port.given_out == "To be"


async def test_without_options_only_what_must_be_is_sent(server: WireServer, port: Port) -> None:
    server.will(streams(says("x")))
    await asked(server, port)
    sent = server.requests[0].json()
    assert (sent["model"], sent.keys()) == ("default-model", {"model", "messages", "stream", "stream_options"})


async def test_no_key_is_sent_where_there_is_none(server: WireServer, port: Port) -> None:
    server.will(streams(says("x")))
    await LlmCall(Endpoint(server.address, ""), "m", NOT_APART).run(port.ctx, prompt="Speak")
    assert "authorization" not in server.requests[0].headers


async def test_tokens_are_seen_while_the_rest_is_awaited(server: WireServer, port: Port) -> None:
    gate = asyncio.Event()
    server.will(streams(sse(chunk("To ")), sse(chunk("be")), says("!"), gate=gate))
    task = asyncio.create_task(asked(server, port))
    await port.changed.until(lambda: port.given_out == "To be")
    assert not task.done()
    gate.set()
    assert (await task)["response"] == "To be!"


async def test_pieces_cut_anywhere_make_the_same_answer(server: WireServer, port: Port) -> None:
    noisy = b": keep-alive\r\n\r\n" + says("Tö ", "be 😀") + b": bye\n\n"
    server.will(streams(*bytewise(noisy)))
    assert (await asked(server, port))["response"] == "Tö be 😀"


@pytest.mark.parametrize(
    "body",
    [
        says("To ", "be", done=False),
        sse(chunk("To "), chunk("be"), "[DONE]"),
        sse(chunk("To be")) + b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}',
    ],
    ids=["no done", "no finish reason", "no blank line"],
)
async def test_an_answer_that_ends_oddly_is_one(server: WireServer, port: Port, body: bytes) -> None:
    server.will(streams(body))
    assert (await asked(server, port))["response"] == "To be"


async def test_an_endpoint_that_does_not_stream_is_understood(server: WireServer, port: Port) -> None:
    whole = {"model": "m", "choices": [{"message": {"content": "To be"}, "finish_reason": "stop"}], **usage(1, 2)}
    whole["choices"] = [{"message": {"content": "To be"}, "finish_reason": "stop"}]
    server.will(answer(200, whole))
    output = await asked(server, port)
    assert (output["response"], output["tokens"], port.given_out) == ("To be", 3, "To be")


async def test_tokens_that_nobody_counts_are_none(server: WireServer, port: Port) -> None:
    server.will(streams(sse(chunk("x", finish="stop"), "[DONE]")))
    assert (await asked(server, port))["tokens"] is None


async def test_a_worker_runs_it_with_flat_parameters_and_reports_its_tokens(
    server: WireServer, registry: TaskRegistry
) -> None:
    server.will(streams(says("To ", "be")))
    registry.add(make_handler("llm_call", call(server).run))
    async with working(registry) as bench:
        stream = await bench.link.stream()
        params = {"prompt": "Speak", "max_tokens": "9", "temperature": "0.5"}
        stream.assign(assignment("a", "llm_call", params=params))
        result = await stream.result("a")
        assert json.loads(result.output_json)["response"] == "To be"
        assert result.metadata["total_tokens"] == "5"
        await bench.link.changed.until(lambda: bench.link.given_out.get("a") == "To be")
    sent = server.requests[0].json()
    assert (sent["max_tokens"], sent["temperature"]) == (9, 0.5)


# --- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, NonRetryable), (401, NonRetryable), (403, NonRetryable), (404, NonRetryable), (422, NonRetryable),
     (307, NonRetryable), (408, Retryable), (429, Retryable), (500, Retryable), (502, Retryable), (503, Retryable)],
)  # fmt: skip
async def test_a_refusal_is_told_with_its_reason(
    server: WireServer, port: Port, status: int, kind: type[Exception]
) -> None:
    server.will(answer(status, {"error": {"message": f"no, {KEY} may not", "type": "x", "code": None}}))
    with pytest.raises(kind) as caught:
        await asked(server, port)
    said = str(caught.value)
    assert said.startswith(f"POST {server.address}/v1/chat/completions was answered {status}")
    assert said.endswith("no, [hidden] may not")
    assert ("TASKYARD_LLM_API_KEY of the worker is not the right one" in said) == (status in (401, 403))
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"", b"<html>teapot</html>", b'{"error": "as text"}', b"[]", b"{" * 10])
async def test_a_refusal_of_any_form_is_told(server: WireServer, port: Port, body: bytes) -> None:
    server.will(answer(500, body))
    with pytest.raises(Retryable, match="was answered 500"):
        await asked(server, port)


@pytest.mark.parametrize("status", [429, 503])
async def test_it_waits_as_it_is_asked_to(server: WireServer, port: Port, status: int) -> None:
    server.will(answer(status, {"error": {"message": "slow down"}}, retry_after="0.01"), streams(says("x")))
    assert (await asked(server, port))["response"] == "x"
    assert len(server.requests) == 2
    assert "slow down; waiting 0.01 s" in port.logged[0]


async def test_it_waits_no_longer_than_its_attempt_may_run(server: WireServer) -> None:
    server.will(answer(429, {"error": {"message": "slow down"}}, retry_after="60"))
    with pytest.raises(Retryable, match="slow down, and asks to wait 60 s, longer than this attempt can"):
        await asked(server, Port(run_timeout_s=30))


async def test_no_waiting_helps_who_has_no_credit(server: WireServer, port: Port) -> None:
    error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    server.will(answer(429, error, retry_after="0"))
    with pytest.raises(NonRetryable, match="You exceeded your quota"):
        await asked(server, port)
    assert len(server.requests) == 1


async def test_a_connection_that_breaks_may_be_tried_again(server: WireServer, port: Port) -> None:
    async def halfway(talk: Talk) -> None:
        await talk.head(200, content_type="text/event-stream")
        await talk.send(sse(chunk("To ")), sse(chunk("be")))
        await port.changed.until(lambda: port.given_out == "To be")
        talk.cut()

    server.will(cut_off, halfway, streams(sse(chunk("To "))))
    for said in ("the connection broke", "the connection broke", "ended the stream before the answer had ended"):
        with pytest.raises(Retryable, match=said):
            await asked(server, port)


async def test_nobody_there_may_be_tried_again(port: Port) -> None:
    async with wire_server() as server:
        gone = call(server)
    with pytest.raises(Retryable, match="no connection"):
        await gone.run(port.ctx, prompt="Speak")


@pytest.mark.parametrize(
    "body", [b"data: {\n\n", b"data: 5\n\n", b"x" * 2_000_000, b""], ids=["half", "number", "noise", "nothing"]
)
async def test_garbage_is_no_answer(server: WireServer, port: Port, body: bytes) -> None:
    server.will(streams(body))
    with pytest.raises(Retryable, match=r"no chat completion|more than a mebibyte|ended the stream"):
        await asked(server, port)


async def test_a_model_that_refuses_is_not_asked_again(server: WireServer, port: Port) -> None:
    server.will(streams(sse(chunk(refusal="I will "), chunk(refusal="not"), chunk(finish="stop"), "[DONE]")))
    with pytest.raises(NonRetryable, match="the model refused: I will not"):
        await asked(server, port)


async def test_a_cancel_closes_the_connection(server: WireServer, port: Port) -> None:
    async def slow(talk: Talk) -> None:
        await talk.head(200, content_type="text/event-stream")
        await talk.send(sse(chunk("To ")))
        await talk.gone.wait()

    for reply in (slow, silent):
        server.talks.clear()
        server.will(reply)
        task = asyncio.create_task(asked(server, port))
        await server.changed.until(lambda: bool(server.talks))
        if reply is slow:
            await port.changed.until(lambda: port.given_out == "To ")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.changed.until(server.talks[0].gone.is_set)


# --- answers that follow a schema ------------------------------------------------------------------


async def test_an_answer_follows_the_schema(server: WireServer, port: Port) -> None:
    server.will(streams(says('{"answer"', ": 42}")))
    output = await asked(server, port, response_schema=SCHEMA)
    assert output["response"] == {"answer": 42}
    asked_for = server.requests[0].json()["response_format"]
    assert (asked_for["type"], asked_for["json_schema"]["schema"]) == ("json_schema", SCHEMA)


async def test_an_answer_that_does_not_is_asked_for_once_more(server: WireServer, port: Port) -> None:
    server.will(streams(says('{"answer": "x"}')), streams(says('{"answer": 42}')))
    output = await asked(server, port, response_schema=SCHEMA, system="Be brief")
    assert (output["response"], output["tokens"]) == ({"answer": 42}, 8)
    first, second = (request.json()["messages"] for request in server.requests)
    assert second[:2] == first
    assert [message["role"] for message in second[2:]] == ["assistant", "user"]
    assert "$.answer: 'x' is not of type 'integer'" in second[3]["content"]
    assert port.given_out == '{"answer": "x"}\n{"answer": 42}'
    assert port.logged == [
        "WARNING the answer does not follow the schema ($.answer: 'x' is not of type 'integer'); asking once more"
    ]


async def test_an_answer_that_never_does_fails(server: WireServer, port: Port) -> None:
    server.will(streams(says("forty-two")))
    with pytest.raises(Retryable, match="does not follow 'response_schema', also when asked again: it is no JSON"):
        await asked(server, port, response_schema=SCHEMA)
    assert len(server.requests) == 2


async def test_an_answer_that_was_cut_says_so(server: WireServer, port: Port) -> None:
    server.will(streams(says('{"ans', finish="length")))
    with pytest.raises(NonRetryable, match="reached 'max_tokens' before its JSON was complete"):
        await asked(server, port, response_schema=SCHEMA, max_tokens=3)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"prompt": None}, "the input lacks 'prompt'"),
        ({"prompt": " "}, "'prompt' must be a text that is not empty"),
        ({"prompt": 5}, "'prompt' must be a text"),
        ({"prompt": "\ud800"}, "'prompt' is not valid Unicode"),
        ({"system": []}, "'system' must be a text"),
        ({"model": ""}, "'model' must be a text"),
        ({"temperature": 2.5}, "'temperature' is 2.5; it must be a number from 0 to 2"),
        ({"temperature": "hot"}, "'temperature' is hot"),
        ({"temperature": True}, "'temperature' is True"),
        ({"max_tokens": 0}, "'max_tokens' is 0; it must be a whole number from 1 to 10,000,000"),
        ({"max_tokens": 1.5}, "'max_tokens' is 1.5"),
        ({"response_schema": {"type": 5}}, "'response_schema' is no JSON schema"),
        ({"temprature": 1}, "'temprature' is no input of llm_call, which has prompt, model"),
    ],
)  # fmt: skip
async def test_what_breaks_a_rule_is_named(server: WireServer, port: Port, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await asked(server, port, **values)
    assert server.requests == []
