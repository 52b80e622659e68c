"""Answers whose comparison with a schema may take for ever: it runs in a process that ends, and the loop goes on."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from task_port import Port
from wire_server import says, streams, wire_server
from worker_fakes import Silent

from taskyard_worker.errors import InvalidInput
from taskyard_worker.llm.apart import Apart
from taskyard_worker.llm.schema import Misfit, Schema
from taskyard_worker.processes import ProcessHost
from taskyard_worker.supervision import Supervision
from taskyard_worker.tasks.llm_call import LlmCall
from taskyard_worker.web.endpoint import Endpoint

ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
TRAP = "a" * 60 + "!"
TWICE = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
MULTIPLIED = {"$defs": {**TWICE, "d40": {"type": "string"}}, "$ref": "#/$defs/d0"}


@pytest.fixture
async def apart() -> AsyncIterator[Apart]:
    supervision = Supervision(Silent())
    yield Apart(ProcessHost(supervision), os.environ)
    supervision.close()


@pytest.mark.parametrize(("schema", "value"), [(ENDLESS, TRAP), (MULTIPLIED, "x")])
async def test_a_comparison_without_end_ends_and_the_loop_goes_on(
    apart: Apart, schema: dict[str, Any], value: str
) -> None:
    assert not Schema(schema).is_quick(value)
    comparing = asyncio.create_task(apart.compare(Schema(schema), value))
    loop, turns, longest = asyncio.get_running_loop(), 0, 0.0
    while not comparing.done():
        begun = loop.time()
        await asyncio.wait([comparing], timeout=0.01)
        turns, longest = turns + 1, max(longest, loop.time() - begun)
    with pytest.raises(InvalidInput, match="takes more than 5 s: a 'pattern' in it repeats"):
        await comparing
    assert turns > 50
    assert longest < 2.0


async def test_a_cancel_ends_the_process(apart: Apart) -> None:
    started = asyncio.Event()
    groups: list[int] = []
    start = apart._host.start

    async def noted(*args: Any, **kwargs: Any) -> Any:
        child = await start(*args, **kwargs)
        groups.append(child.group)
        started.set()
        return child

    apart._host.start = noted  # type: ignore[method-assign]
    comparing = asyncio.create_task(apart.compare(Schema(ENDLESS), TRAP))
    await started.wait()
    comparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await comparing
    async with asyncio.timeout(10):
        await ended(groups[0])


async def ended(process: int) -> None:
    """Returns once a process has ended: its descriptor can be read then."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@pytest.mark.parametrize(
    ("schema", "value", "error", "said"),
    [
        (ENDLESS, "aab", Misfit, r"\$: 'aab' does not match"),
        ({"$ref": "#"}, 1, InvalidInput, "refers to itself without end"),
        ({"$ref": "#/nowhere"}, 1, InvalidInput, "refers to what is not in it"),
    ],
)
async def test_what_is_found_apart_is_what_would_be_found_here(
    apart: Apart, schema: dict[str, Any], value: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await apart.compare(Schema(schema), value)
    with pytest.raises(error, match=said):
        Schema(schema).compare(value)


async def test_an_answer_is_compared_apart_and_asked_for_once_more(apart: Apart) -> None:
    port = Port()
    async with wire_server() as server:
        server.will(streams(says('"b"')), streams(says('"aa"')))
        call = LlmCall(Endpoint(f"{server.address}/v1/", ""), "m", apart)
        outcome = await call.run(port.ctx, prompt="Speak", response_schema=ENDLESS)
    assert json.loads(outcome.output_json)["response"] == "aa"
    assert len(port.logged) == 1


@pytest.mark.parametrize(
    ("schema", "text", "quick"),
    [
        ({"type": "object", "properties": {"a": {"enum": [1]}}}, '{"a": 1}', True),
        ({"items": {"anyOf": [{"pattern": "a"}]}}, "[]", False),
        ({"patternProperties": {"a": {}}}, "{}", False),
        ({"$defs": {"a": {}}, "items": {"$ref": "#/$defs/a"}}, "[]", False),
        ({"uniqueItems": True}, "[]", False),
        ({"items": {"allOf": [{}] * 1000}}, "[" + "1," * 1000 + "1]", False),
    ],
)
def test_only_what_is_quick_is_compared_on_the_loop(schema: dict[str, Any], text: str, quick: bool) -> None:
    assert Schema(schema).is_quick(text) is quick


@pytest.mark.parametrize("schema", [{"pattern": "("}, {"patternProperties": {"(": {}}}])
def test_a_pattern_that_is_none_is_refused_before_anybody_is_asked(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="is not a 'regex'"):
        Schema(schema)
