"""Typed input of another type than the handler's annotation is INVALID_INPUT, which no retry mends."""

from __future__ import annotations

import json
from inspect import Parameter
from typing import Any, Optional, Union

import pytest
from worker_fakes import assignment, status, working

from taskyard_worker import TaskRegistry
from taskyard_worker.flat import reader_of
from taskyard_worker.typed import rule_of


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


SPELLINGS = (
    "int | None", "None | int", "Optional[int]", "typing.Optional[int]", "Union[int, None]", "typing.Union[None,int]",
    int | None, Optional[int], Union[int, None], Union[None, int],  # noqa: UP007, UP045 - what is tested
)  # fmt: skip


@pytest.mark.parametrize("annotation", SPELLINGS, ids=str)
def test_every_spelling_of_a_choice_with_none_is_checked(annotation: object) -> None:
    parameter = Parameter("most", Parameter.KEYWORD_ONLY, annotation=annotation)
    rule = rule_of(parameter)
    assert rule is not None
    assert [rule.allows(value) for value in (3, None, "3", 3.5, True)] == [True, True, False, False, False]
    assert str(rule.refusal("most", "3", "")).startswith(
        "input.most is \"3\", but the handler's parameter 'most' is a whole number or null; give a whole number or null"
    )
    read = reader_of(annotation)
    assert read is not None
    assert read("most", "3", "") == 3


@pytest.mark.parametrize(
    "annotation",
    ["int | str", "Union[int, str]", "Optional[int | str]", "Optional[list[int]]", "list[int]", "None", "Optional", "",
     int | str, Union[int, str], Optional[list[int]], list[int], type(None), Any, Parameter.empty],  # noqa: UP007, UP045
    ids=str,
)  # fmt: skip
def test_what_is_no_plain_type_is_the_handlers_business(annotation: object) -> None:
    assert rule_of(Parameter("x", Parameter.KEYWORD_ONLY, annotation=annotation)) is None
    assert reader_of(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        ("str", 5, """give a text, for example --input '{"name": "5"}'; """),
        ("str", 5, "or have the handler take it: `name: str | int`"),
        ("str", 2.5, """for example --input '{"name": "2.5"}'; or have the handler take it: `name: str | float`"""),
        ("str", None, "give a text, or leave 'name' out if it has a default, for example --input "),
        ("str", None, "or have the handler take it: `name: str | None`"),
        ("str", {"a": 1}, "or have the handler take it: `name: Any`"),
        ("str", 10**90, """for example --input '{"name": "text"}'"""),
        ("int | None", "x", "or have the handler take it: `name: int | str | None`"),
        ("int", 2.5, "or have the handler take it: `name: int | float`"),
    ],
)  # fmt: skip
def test_a_refusal_says_how_to_write_the_value_and_how_to_take_it(annotation: str, value: object, said: str) -> None:
    rule = rule_of(Parameter("name", Parameter.KEYWORD_ONLY, annotation=annotation))
    assert rule is not None
    assert said in str(rule.refusal("name", value, ""))


def test_a_step_is_told_of_its_file() -> None:
    rule = rule_of(Parameter("name", Parameter.KEYWORD_ONLY, annotation="str"))
    assert rule is not None
    assert """for example `input: {"name": "5"}` of step 'a'""" in str(rule.refusal("name", 5, "a"))
