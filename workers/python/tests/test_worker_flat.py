"""Flat parameters are text: what a handler's annotations make of them, and what the advice is in a step."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from test_worker_processes import real_worker
from worker_fakes import PATIENCE_S, assignment, status, working

from taskyard_worker import Context, InvalidInput, TaskRegistry
from taskyard_worker.flat import number, reader_of, truth, whole_number


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (whole_number, "3", 3), (whole_number, "-3", -3), (whole_number, " +07 ", 7),
        (whole_number, "9" * 40, 10**40 - 1),
        (number, "3", 3.0), (number, "-0.5", -0.5), (number, ".5e3", 500.0), (number, "1.", 1.0),
        (truth, "true", True), (truth, "False", False), (truth, "1", True), (truth, "no", False),
    ],
)  # fmt: skip
def test_what_a_text_is_read_as(read: Any, text: str, value: object) -> None:
    found = read("a", text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("read", "texts", "wanted"),
    [
        (whole_number, ["", "x", "3.0", "1e3", "1_000", "٣", "9" * 5000, "3 4", "0x10"], "a whole number"),
        (number, ["", "x", "nan", "inf", "1e999", "1_0.5", "1,5", "٣", "."], "a number"),
        (truth, ["", "2", "on", "t", "None"], "true or false"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_a_way_out(read: Any, texts: list[str], wanted: str) -> None:
    for text in texts:
        with pytest.raises(InvalidInput) as caught:
            read("size", text)
        said = str(caught.value)
        assert said.startswith(
            f"params.size is {text[:200]!r}, but the handler's parameter 'size' is {wanted}; give {wanted}"
        )
        assert '--input \'{"size": ' in said
        assert len(said) < 500


@pytest.mark.parametrize(
    ("annotation", "reads"),
    [(int, True), ("int", True), (float, True), ("bool", True), (str, False), ("str", False), (Any, False),
     ("int | None", True), (float | None, True), ("str | None", False), ("int | str", False), (list, False),
     ("integer", False), (type("int", (), {}), False)],
)  # fmt: skip
def test_only_plain_annotations_count_also_beside_none(annotation: object, reads: bool) -> None:
    assert (reader_of(annotation) is not None) is reads


def offer(registry: TaskRegistry) -> None:
    """Registers one handler for each way in which one runs; each tells the types that it got."""

    @registry.task("thread")
    def thread(a: int, b: float, c: bool = False, d: str = "", e: Any = None) -> list[Any]:
        return [a, b, c, d, e]

    @registry.task("async")
    async def on_the_loop(ctx: Context, a: int, b: float, c: bool = False, d: str = "", e: Any = None) -> list[Any]:
        return [a, b, c, d, e]


@pytest.mark.parametrize("task_type", ["thread", "async"])
async def test_flat_parameters_are_what_the_handler_says(registry: TaskRegistry, task_type: str) -> None:
    offer(registry)
    flat = {"a": "3", "b": "4", "c": "true", "d": "5", "e": "6"}
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("flat", task_type, params=flat))
        assert json.loads((await stream.result("flat")).output_json) == [3, 4.0, True, "5", "6"]
        stream.assign(assignment("typed", task_type, params=flat, input_json='{"a": 7, "e": [1]}'))
        assert json.loads((await stream.result("typed")).output_json) == [7, 4.0, True, "5", [1]]
        stream.assign(assignment("bad", task_type, params=flat | {"a": "three"}))
        result = await stream.result("bad")
        assert (status(result), result.error_kind) == ("FAILED", "INVALID_INPUT")
        assert result.error_message.startswith("params.a is 'three', but the handler's parameter 'a' is a whole number")


async def test_in_a_step_the_way_out_is_the_runs_input_or_the_workflow_file(registry: TaskRegistry) -> None:
    offer(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(
            assignment("flat", "thread", params={"a": "three", "b": "1"}, run_id="r", step_id="sum"),
            assignment("typed", "thread", input_json='{"a": "three", "b": 1}', run_id="r", step_id="sum"),
        )
        for token in ("flat", "typed"):
            said = (await stream.result(token)).error_message
            assert "the run's input" in said
            assert """`input: {"a": 3}` of step 'sum'""" in said
            assert "--input" not in said


async def test_isolated_handlers_get_the_same() -> None:
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(
            assignment("flat", "add", params={"a": "3", "b": "4"}),
            assignment("typed", "add", params={"b": "4"}, input_json='{"a": 30}'),
            assignment("wrong", "add", params={"a": "1"}, input_json='{"a": "x", "b": "y"}', step_id="sum"),
            assignment("bad", "add", params={"a": "x"}),
        )
        assert (await stream.result("flat")).output_json == "7"
        assert (await stream.result("typed")).output_json == "34"
        wrong = await stream.result("wrong")
        assert wrong.error_kind == "INVALID_INPUT"
        assert wrong.error_message.startswith("input.a is \"x\", but the handler's parameter 'a' is a whole number")
        assert "of step 'sum'" in wrong.error_message
        assert (await stream.result("bad")).error_kind == "INVALID_INPUT"


@pytest.mark.parametrize("method", ["progress", "checkpoint"])
async def test_what_nobody_awaits_is_no_silence(registry: TaskRegistry, method: str) -> None:
    @registry.task("thread")
    def thread(ctx: Context) -> None:
        getattr(ctx, method)(1)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "thread"))
        result = await stream.result("a")
    assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
    assert f"call ctx.{method}_sync(...) here" in result.error_message


@pytest.mark.parametrize("method", ["progress", "checkpoint"])
async def test_nor_in_an_isolated_handler(method: str) -> None:
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(assignment("a", "forgets", params={"method": method}))
        result = await stream.result("a")
    assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
    assert f"call ctx.{method}_sync(...) here" in result.error_message


async def test_a_loop_of_a_threads_own_is_no_way_round(registry: TaskRegistry) -> None:
    @registry.task("thread")
    def thread(ctx: Context) -> None:
        async def inner() -> None:
            await ctx.progress(50)
            await asyncio.wait_for(ctx.checkpoint(1), PATIENCE_S)

        asyncio.run(inner())

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "thread"))
        assert "ctx.checkpoint_sync(value)" in (await stream.result("a")).error_message
