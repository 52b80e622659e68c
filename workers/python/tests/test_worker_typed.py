"""Typed input of another type than the handler's annotation is INVALID_INPUT, which no retry mends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from worker_fakes import assignment, status, working

from taskyard_worker import TaskRegistry


def offer(registry: TaskRegistry) -> None:
    """Registers one handler for each way in which one is told of its types: as text, and by a module without that."""

    @registry.task("thread")
    def thread(
        count: int = 3,
        share: float = 0.5,
        dry: bool = False,
        name: str = "",
        most: int | None = 1,
        free: Any = None,
        late: str = None,  # type: ignore[assignment]  # noqa: RUF013 - as people write it
        many: list[int] = [],  # noqa: B006 - never changed
    ) -> list[Any]:
        return [count, share, dry, name, most, free, late, many]

    async def on_the_loop(count=3, share=0.5, dry=False, name="", most=1, free=None, late=None, many=()):  # type: ignore[no-untyped-def]
        return [count, share, dry, name, most, free, late, many]

    on_the_loop.__annotations__ = {
        "count": int, "share": float, "dry": bool, "name": str, "most": int | None, "late": str, "many": list[int]
    }  # fmt: skip
    registry.task("async")(on_the_loop)


@pytest.mark.parametrize("task_type", ["thread", "async"])
@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("count", "five", "a whole number"), ("count", "5", "a whole number"), ("count", 3.5, "a whole number"),
        ("count", True, "a whole number"), ("count", None, "a whole number"), ("count", [1], "a whole number"),
        ("share", "x", "a number"), ("share", False, "a number"), ("dry", 1, "true or false"),
        ("dry", "true", "true or false"), ("name", 5, "a text"), ("name", {"a": 1}, "a text"),
        ("most", "x", "a whole number or null"), ("late", 1, "a text or null"),
    ],
)  # fmt: skip
async def test_a_wrong_type_names_field_value_and_rule(
    registry: TaskRegistry, task_type: str, field: str, value: object, wanted: str
) -> None:
    offer(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", task_type, input_json=json.dumps({field: value})))
        result = await stream.result("a")
        assert (status(result), result.error_kind) == ("FAILED", "INVALID_INPUT")
        said = f"input.{field} is {json.dumps(value)}, but the handler's parameter '{field}' is {wanted}; give {wanted}"
        assert result.error_message.startswith(said)
        assert f'for example --input \'{{"{field}": ' in result.error_message


@pytest.mark.parametrize("task_type", ["thread", "async"])
async def test_what_the_annotations_allow_is_handed_over_as_it_is(registry: TaskRegistry, task_type: str) -> None:
    offer(registry)
    given = {
        "count": 5, "share": 2, "dry": True, "name": "3", "most": None, "free": {"a": 1}, "late": None,
        "many": "no list",
    }  # fmt: skip
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", task_type, input_json=json.dumps(given)))
        assert json.loads((await stream.result("a")).output_json) == list(given.values())


async def test_a_large_value_is_shown_cut(registry: TaskRegistry) -> None:
    offer(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "thread", input_json=json.dumps({"count": "x" * 10_000})))
        assert len((await stream.result("a")).error_message) < 500


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ulr": "x", "b": "y"}, "; it has 'ulr', which the handler does not know: did you mean 'url'?"),
        ({"command": "x"}, "lacks 'url', which the handler requires; it has 'command', which is none of the handler's"),
        ({"z" * 5000: "x"}, "lacks 'url', which the handler requires; it has 'zzz"),
        ({}, "lacks 'url', which the handler requires"),
    ],
)  # fmt: skip
async def test_a_missing_key_is_told_with_the_unknown_one(
    registry: TaskRegistry, given: dict[str, str], said: str
) -> None:
    @registry.task("work")
    def work(url: Any, **rest: Any) -> None: ...

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", params=given))
        result = await stream.result("a")
        assert result.error_kind == "INVALID_INPUT"
        assert said in result.error_message
        assert len(result.error_message) < 500
