"""Workflows at the door: every fault at once, definitions merged, compiled into what runs need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskyard.v1 import policies_pb2, tasks_pb2, workflows_pb2
from taskyard_core.dag import TriggerRule
from taskyard_core.templates import RenderError, Scope
from taskyard_core.violations import InvalidInput
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress.workflows import compile_stored, content_hash, merge_definitions, read_workflow


def step(id: str, *needs: str, **given: Any) -> workflows_pb2.WorkflowStep:
    return workflows_pb2.WorkflowStep(**{"id": id, "task_type": "noop", "needs": needs, **given})


def workflow(*steps: workflows_pb2.WorkflowStep, **given: Any) -> workflows_pb2.Workflow:
    return workflows_pb2.Workflow(**{"name": "flow", "version": 3, "steps": steps, **given})


def an_input(name: str, default_json: str = "") -> workflows_pb2.WorkflowInput:
    return workflows_pb2.WorkflowInput(name=name, default_json=default_json)


def read(given: workflows_pb2.Workflow, *definitions: tasks_pb2.TaskDefinition) -> WorkflowVersion:
    return read_workflow("t1", given, {each.name: each for each in definitions})


def faults(given: workflows_pb2.Workflow, *definitions: tasks_pb2.TaskDefinition) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read(given, *definitions)
    return {violation.field: violation.description for violation in refused.value.violations}


def test_a_good_one_is_compiled() -> None:
    plan = read(
        workflow(
            step("split", params={"text": "${inputs.text}", "n": "3"}, priority=2),
            step("join", "split", input_json='{"parts": "${steps.split.output.parts}", "k": 1}',
                 trigger_rule=workflows_pb2.TRIGGER_RULE_ALL_DONE),
            step("end", "join", params={"a": "$${literal}"}, input_json='{"b": ["$${x}", 2]}'),
            inputs=[an_input("text"), an_input("size", "[1, 2]")],
            output_json='{"report": "${steps.join.output}"}',
        )
    )  # fmt: skip
    assert (plan.tenant, plan.name, plan.version) == ("t1", "flow", 3)
    assert plan.graph.ids == ("split", "join", "end")
    assert plan.graph.rules[1] is TriggerRule.ALL_DONE
    assert plan.inputs == (("text", None), ("size", "[1, 2]"))
    assert plan.kept == {0, 1}
    split, join, end = plan.steps
    assert split.priority == 2
    assert split.constant_params is None
    scope = Scope({"text": "hello"}, {"split": {"parts": [1]}}, {"id": "r"})
    assert {name: template.render(scope) for name, template in split.params} == {"n": "3", "text": "hello"}
    assert join.constant_input is None
    assert join.input is not None
    assert join.input.render(scope) == {"parts": [1], "k": 1}
    assert (end.constant_params, end.constant_input) == ('{"a":"${literal}"}', '{"b":["${x}",2]}')


GONE = "${steps.a.output.gone}"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"input_json": f'{{"x": "{GONE}"}}'}, "steps.b.c.input.x"),
        ({"input_json": f'{{"input_json": [{{"a b": "{GONE}"}}]}}'}, "steps.b.c.input.input_json[0]['a b']"),
        ({"input_json": f'{{"a b": "see {GONE}"}}'}, "steps.b.c.input['a b']"),
        ({"params": {"input_json": GONE}}, "steps.b.c.params.input_json"),
        ({"params": {"a b": GONE}}, "steps.b.c.params['a b']"),
    ],
)
def test_a_value_missing_at_run_time_is_told_in_the_words_of_the_file(given: dict[str, Any], place: str) -> None:
    _, plan = read(workflow(step("a"), step("b.c", "a", **given))).steps
    with pytest.raises(RenderError) as caught:
        (plan.input or plan.params[0][1]).render(Scope({}, {"a": {}}, {"id": "r"}))
    assert caught.value.told("b.c").startswith(f"{place}: {GONE}: there is ")


@pytest.mark.parametrize(
    ("text", "place"),
    [(f'"{GONE}"', "output"), (f'["{GONE}"]', "output[0]"), (f'{{"output_json": "{GONE}"}}', "output.output_json")],
)
def test_an_output_missing_at_run_time_is_told_in_the_words_of_the_file(text: str, place: str) -> None:
    output = read(workflow(step("a"), output_json=text)).output
    assert output is not None
    with pytest.raises(RenderError) as caught:
        output.render(Scope({}, {"a": {}}, {"id": "r"}))
    assert caught.value.told().startswith(f"{place}: {GONE}: there is ")


def test_a_step_without_work_has_empty_constants() -> None:
    [only] = read(workflow(step("a"))).steps
    assert (only.constant_params, only.constant_input, only.params, only.input) == ("", "", (), None)


def test_all_faults_are_named_at_once() -> None:
    found = faults(
        workflow(
            step("a", "c", params={"x": "${inputs.nope}"}, priority=11),
            step("b", "ghost", task_name="missing", input_json="[1]"),
            step("c", "a", params={"y": "${steps.d.output}"}),
            step("c d", trigger_rule=99, task_type=""),
            inputs=[an_input("text"), an_input("text"), an_input("n", "{")],
            output_json='"${steps.zz.output}"',
            name="",
        )
    )
    assert set(found) == {
        "workflow.name",
        "workflow.inputs[1].name",
        "workflow.inputs[2].default_json",
        "workflow.steps[0].priority",
        "workflow.steps[0].params.x",
        "workflow.steps[1].task_name",
        "workflow.steps[1].needs[0]",
        "workflow.steps[1].input_json",
        "workflow.steps[2].params.y",
        "workflow.steps[3].id",
        "workflow.steps[3].task_type",
        "workflow.steps[3].trigger_rule",
        "workflow.output_json",
    }
    assert "step 'b': there is no task definition 'missing'" in found["workflow.steps[1].task_name"]
    assert "'ghost' is not a step" in found["workflow.steps[1].needs[0]"]


def test_a_cycle_is_shown() -> None:
    found = faults(workflow(step("a", "b"), step("b", "a")))
    assert "b -> a -> b" in found["workflow.steps[1].needs"]


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        (workflow(), "workflow.steps", "at least one"),
        (workflow(step("a"), step("a")), "workflow.steps[1].id", "already the id"),
        (workflow(step("a", "a")), "workflow.steps[0].needs[0]", "itself"),
        (workflow(step("a", "zzz")), "workflow.steps[0].needs[0]", "'zzz' is not a step"),
        (workflow(step("a", params={"x": "${inputs.txt}"}), inputs=[an_input("text")]),
         "workflow.steps[0].params.x", "Did you mean 'text'?"),
        (workflow(step("a", params={"x y": "${"})), "workflow.steps[0].params['x y']", "'${'"),
        (workflow(step("a", input_json='{"k": ["${steps.b.output}"]}'), step("b")),
         "workflow.steps[0].input_json.k[0]", "does not end before"),
        (workflow(step("a", input_json='{"${inputs.x}": 1}')), "workflow.steps[0].input_json", "key"),
        (workflow(step("a", params={"x": "${secret:key}"})), "workflow.steps[0].params.x", "no secrets"),
        (workflow(step("a", params={"x": "\0"})), "workflow.steps[0].params.x", "NUL"),
        (workflow(step("a", params={"x": "y" * 4_200_000})), "workflow.steps[0].params", "4,194,304"),
        (workflow(step("a", description="x" * 10_001)), "workflow.steps[0].description", "10,000"),
        (workflow(step("a", task_type="*")), "workflow.steps[0].task_type", "step 'a'"),
        (workflow(step("a", retry=policies_pb2.RetryPolicy(max_attempts=0))),
         "workflow.steps[0].retry.max_attempts", "1 to 100"),
        (workflow(step("a"), output_json="nope"), "workflow.output_json", "not JSON"),
        (workflow(step("a"), inputs=[an_input("x y")]), "workflow.inputs[0].name", "an input's name"),
        (workflow(step("a"), inputs=[an_input("x", "NaN")]), "workflow.inputs[0].default_json", "NaN"),
        (workflow(step("a"), description="\0"), "workflow.description", "NUL"),
    ],
)  # fmt: skip
def test_each_rule_names_its_field(given: workflows_pb2.Workflow, field: str, said: str) -> None:
    found = faults(given)
    assert list(found) == [field]
    assert said in found[field]


def test_at_most_twenty_violations_are_named() -> None:
    assert len(faults(workflow(*(step(f"s{n}", priority=0) for n in range(100))))) == 20


# Definitions.


def definition(**given: Any) -> tasks_pb2.TaskDefinition:
    return tasks_pb2.TaskDefinition(**{"name": "greet", "task_type": "py", **given})


def test_a_definition_is_merged_under_the_step() -> None:
    base = definition(
        priority=2, params={"a": "1", "b": "2"}, input_json='{"x": 1, "y": 1}', exclusive=True,
        timeouts=policies_pb2.TimeoutPolicy(), retry=policies_pb2.RetryPolicy(max_attempts=7, factor=3),
        resources=policies_pb2.Resources(cpu_millis=100), placement=policies_pb2.Placement(selector="a=1"),
    )  # fmt: skip
    given = workflow(
        step("s", task_type="", task_name="greet", params={"b": "${inputs.v}"}, input_json='{"y": "${inputs.v}"}',
             retry=policies_pb2.RetryPolicy(factor=2)),
        inputs=[an_input("v")],
    )  # fmt: skip
    [plan] = read(given, base).steps
    assert (plan.task_type, plan.task_name, plan.priority) == ("py", "greet", 2)
    scope = Scope({"v": "new"}, {}, {"id": "r"})
    assert {name: template.render(scope) for name, template in plan.params} == {"a": "1", "b": "new"}
    assert plan.input is not None
    assert plan.input.render(scope) == {"x": 1, "y": "new"}
    assert (plan.policy.retry.max_attempts, plan.policy.retry.factor) == (7, 2)
    assert (plan.policy.cpu_millis, plan.policy.selector, plan.policy.exclusive) == (100, "a=1", True)


def test_a_definitions_values_are_no_templates() -> None:
    base = definition(params={"cmd": "echo ${HOME}"}, input_json='{"k${": ["${HOME}", {"z": "${y}"}]}')
    [plan] = read(workflow(step("s", task_type="", task_name="greet")), base).steps
    assert plan.constant_params == '{"cmd":"echo ${HOME}"}'
    assert json.loads(plan.constant_input or "") == {"k${": ["${HOME}", {"z": "${y}"}]}


def test_a_stored_version_keeps_what_it_was_made_with() -> None:
    given = workflow(step("s", task_type="", task_name="greet"), step("t", "s"))
    base = definition(params={"a": "1"}, priority=9)
    stored = merge_definitions(given, {"greet": base}).SerializeToString()
    plan = compile_stored("t1", workflows_pb2.Workflow.FromString(stored))
    fresh = read(given, base)
    assert plan.graph.ids == fresh.graph.ids
    for one, other in zip(plan.steps, fresh.steps, strict=True):
        assert (one.task_type, one.priority, one.constant_params, one.policy) == (
            other.task_type, other.priority, other.constant_params, other.policy,
        )  # fmt: skip
    assert given.steps[0].task_type == "", "the request is left as it was"


def test_many_steps_of_a_large_definition_are_refused_before_they_are_made() -> None:
    base = definition(params={"a": "x" * 4_000_000})
    given = workflow(*(step(f"s{n}", task_type="", task_name="greet") for n in range(10_000)))
    assert list(faults(given, base)) == ["workflow.steps"]


def test_the_content_hash_is_of_all_but_version_and_time() -> None:
    one, other = workflow(step("a", params={"x": "1"})), workflow(step("a", params={"x": "1"}), version=9)
    other.create_time.seconds = 5
    assert content_hash(one) == content_hash(other)
    assert len(content_hash(one)) == 16
    other.steps[0].params["x"] = "2"
    assert content_hash(one) != content_hash(other)


def test_a_hundred_thousand_steps_are_read() -> None:
    ids = [f"step-{n}" for n in range(100_000)]
    plan = read(workflow(*(step(id, *ids[max(0, n - 1) : n]) for n, id in enumerate(ids))))
    assert len(plan.steps) == 100_000


def test_a_default_is_of_its_input_s_type() -> None:
    def typed(default: str, type_: int = workflows_pb2.INPUT_TYPE_INTEGER) -> workflows_pb2.Workflow:
        given = workflow(step("a"))
        given.inputs.append(workflows_pb2.WorkflowInput(name="n", default_json=default))
        given.inputs[0].type = type_  # type: ignore[assignment]  # also one that is none
        return given

    assert read(typed("3")).input_types == (("n", workflows_pb2.INPUT_TYPE_INTEGER),)
    assert read(typed("null")).inputs == (("n", "null"),)
    assert read(typed("[1]", 0)).input_types == ()
    assert "is not a whole number" in faults(typed('"x"'))["workflow.inputs[0].default_json"]
    assert list(faults(typed("{"))) == ["workflow.inputs[0].default_json"]
    assert (
        "77 is no type of an input; choose one of STRING, INTEGER" in faults(typed("3", 77))["workflow.inputs[0].type"]
    )
