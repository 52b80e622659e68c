"""Rendering templates, and checking their references against a definition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.dag import Graph, TriggerRule
from taskyard_core.templates import (
    RenderError,
    Scope,
    Template,
    ValueTemplate,
    check,
    check_workflow,
    compile_text,
    compile_value,
    escape,
)

SCOPE = Scope(
    inputs={
        "name": "Ada",
        "count": 3,
        "none": None,
        "flag": True,
        "list": [1, [2]],
        "half": 0.5,
        "empty": {},
    },
    steps={"a": {"b": {"c": "deep"}}, "a.b-c": {"d": 7}, "text": "out", "rows": [{"id": 1}, {"id": 2}]},
    run={"id": "018f-run", "workflow": "nightly", "version": 3, "tenant": "acme"},
    trigger_time="2024-01-01T00:00:00Z",
    variables={"region": "eu", "limits": {"rows": 10}},
    secrets={"db": "s3"},
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def escaped(value: object) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [escaped(item) for item in value]
    if isinstance(value, dict):
        return {escape(key): escaped(member) for key, member in value.items()}
    return value


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ("Hello ${inputs.name}!", "Hello Ada!"),
        ("${inputs.count}${inputs.none}${inputs.flag}", "3nulltrue"),
        ("${inputs.list}", "[1,[2]]"),
        ("${inputs.list[1][0]}", "2"),
        ("${inputs.half}", "0.5"),
        ("${steps.a.output}", '{"b":{"c":"deep"}}'),
        ("${steps.a.output.b.c}", "deep"),
        ('${steps["a.b-c"].output.d}', "7"),
        ("${steps.rows.output[1].id}", "2"),
        ("${steps.text.output}", "out"),
        ("${run.id} at ${trigger.time}", "018f-run at 2024-01-01T00:00:00Z"),
        ("${run.tenant}/${run.workflow}/${run.version}", "acme/nightly/3"),
        ("${vars.region} ${vars.limits.rows}", "eu 10"),
        ("${secret:db}", "s3"),
        ("${inputs.name} owes 5$", "Ada owes 5$"),
        ("$${inputs.name} is ${inputs.name}", "${inputs.name} is Ada"),
    ],
)
def test_text_renders(source: str, rendered: str) -> None:
    assert compile_text(source, "params.x").render(SCOPE) == rendered


def test_a_string_that_is_one_reference_keeps_the_type() -> None:
    value = {
        "typed": "${inputs.count}",
        "text": " ${inputs.count}",
        "list": ["${inputs.list}", "${inputs.none}", "x"],
        "object": {"deep": "${steps.a.output.b}"},
        "plain": [1, {"$${k": "$${v"}],
    }
    template = compile_value(value, "input")
    rendered = template.render(SCOPE)
    assert rendered == {
        "typed": 3,
        "text": " 3",
        "list": [[1, [2]], None, "x"],
        "object": {"deep": {"c": "deep"}},
        "plain": [1, {"${k": "${v"}],
    }
    assert isinstance(rendered, dict)
    assert list(rendered) == list(value)
    assert [reference.text() for reference in template.references] == [
        "inputs.count", "inputs.count", "inputs.list", "inputs.none", "steps.a.output.b",
    ]  # fmt: skip


@given(JSON)
def test_an_escaped_value_is_constant_and_renders_as_itself(value: object) -> None:
    template = compile_value(escaped(value), "input")
    assert template.is_constant
    assert template.render(SCOPE) == value


@given(JSON)
def test_any_value_passes_through_a_reference_whole_and_as_json_in_text(value: object) -> None:
    scope = Scope({"v": value}, {"s": value}, {"id": "r"}, "t")
    assert compile_value(["${inputs.v}", "${steps.s.output}"], "input").render(scope) == [value, value]
    text = compile_text("${inputs.v}", "params").render(scope)
    assert text == value if isinstance(value, str) else json.loads(text) == value


@pytest.mark.parametrize(
    ("source", "path", "said"),
    [
        ("${inputs.nam}", "inputs.nam", "Did you mean 'name'?"),
        ("${inputs.name.first}", "inputs.name.first", "the text 'Ada', which has no key 'first'"),
        ("${inputs.empty.x}", "inputs.empty.x", "an object without keys"),
        ("${inputs.none.x.y}", "inputs.none.x", "there is null"),
        ("${inputs.list.x}", "inputs.list.x", "a list of 2, which has no key"),
        ("${inputs.list[2]}", "inputs.list[2]", "last index is 1, not 2"),
        ("${inputs.count[0]}", "inputs.count[0]", "the number 3, which has no index 0"),
        ("${inputs.flag[0]}", "inputs.flag[0]", "the boolean true"),
        ("${steps.a.output[0]}", "steps.a.output[0]", "an object, which has no index"),
        ("${steps.a.output.b.x.y}", "steps.a.output.b.x", "the object has 'c'"),
        ("${steps.z.output.b}", "steps.z.output", "step 'z' has no output"),
        ("${secret:other}", "secret:other", "no secret 'other'"),
    ],
)
def test_a_missing_value_names_its_path_and_what_was_there(source: str, path: str, said: str) -> None:
    for render in (compile_text(source, "step.x").render, compile_value([source], "step").render):
        with pytest.raises(RenderError) as caught:
            render(SCOPE)
        assert caught.value.path == path
        assert said in caught.value.sentence
        assert str(caught.value).startswith("step")
        assert f"${{{path}}}" in str(caught.value)


def test_secrets_are_not_resolved_where_none_are_handed_over() -> None:
    scope = Scope({}, {}, {"id": "r"}, "t")
    with pytest.raises(RenderError, match="cannot be resolved here"):
        compile_text("${secret:db}", "params.x").render(scope)


def test_a_value_without_a_json_form_is_an_error_in_text() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (float("nan"), deep):
        with pytest.raises(RenderError, match="no JSON form"):
            compile_text("x${inputs.v}", "params").render(Scope({"v": value}, {}, {"id": "r"}, "t"))
    while deep:  # dismantled by hand: freeing so deep a value recurses in C
        deep = deep.pop()  # type: ignore[assignment]


@pytest.mark.parametrize("count", [100, 10_000])
@pytest.mark.parametrize("source", ["${inputs.big}", "x${inputs.big}", "${inputs.list}", "x${inputs.list}"])
def test_many_copies_of_a_large_value_are_refused_before_memory_is_full(source: str, count: int) -> None:
    scope = Scope({"big": "x" * 100_000, "list": ["y" * 100_000]}, {}, {"id": "r"}, "t")
    with pytest.raises(RenderError, match="passes 4194304 characters"):
        compile_value([source] * count, "input").render(scope)


def test_a_limit_counts_what_references_produce() -> None:
    template = compile_text("${inputs.name}${inputs.name}", "params")
    assert template.render(SCOPE, limit=6) == "AdaAda"
    with pytest.raises(RenderError, match="passes 5 characters"):
        template.render(SCOPE, limit=5)


def test_a_reference_is_checked_against_inputs_and_upstream_steps() -> None:
    value = {
        "fine": "${inputs.topic} ${steps.split.output} ${run.id} ${secret:s}",
        "input": "x ${inputs.topci}",
        "later": "${steps.join.output.x}",
        "unknown": "${steps.spilt.output}",
    }
    violations = check(compile_value(value, "steps[1].input"), {"topic"}, {"split"}, {"split", "join"})
    assert [violation.field for violation in violations] == [
        "steps[1].input.input",
        "steps[1].input.later",
        "steps[1].input.unknown",
    ]
    assert "character 3: there is no input 'topci'" in violations[0].description
    assert "Did you mean 'topic'?" in violations[0].description
    assert "'join' does not end before this one" in violations[1].description
    assert "needs" in violations[1].description
    assert "Did you mean 'split'?" in violations[2].description
    assert check(compile_text("${inputs.any}", "x"), None, ()) == []
    assert check(compile_text("${inputs}", "x"), {"a"}, ()) == []


def test_checking_stops_after_twenty() -> None:
    template = compile_value([f"${{inputs.x{n}}}" for n in range(100)], "input")
    assert len(check(template, {"y"}, ())) == 20


def test_a_workflow_is_checked_at_once() -> None:
    shape: list[tuple[str, list[str]]] = [("c", ["b"]), ("b", ["a"]), ("a", [])]
    graph = Graph([(step, upstream, TriggerRule.ALL_SUCCESS) for step, upstream in shape])
    templates: list[tuple[int, Template | ValueTemplate]] = [
        (0, compile_value("${steps.a.output} ${steps.b.output} ${inputs.i}", "steps[0].input")),
        (1, compile_text("${steps.c.output}", "steps[1].params.x")),
        (2, compile_text("${steps.a.output} ${steps.d.output}", "steps[2].params.x")),
    ]
    violations = check_workflow(templates, graph, {"i"})
    assert [violation.field for violation in violations] == ["steps[1].params.x"] + ["steps[2].params.x"] * 2
    assert "'c' does not end before" in violations[0].description
    assert "'a' does not end before" in violations[1].description
    assert "no step 'd'" in violations[2].description
    assert check_workflow(templates[:1], graph, {"i"}) == []
    assert len(check_workflow(templates[1:] * 20, graph, None)) == 20
