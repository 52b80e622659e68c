"""Workflow files: what they mean in the contract, what is refused where, and that they can be written again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from taskyard.v1.policies_pb2 import Placement, Resources, RetryPolicy, TimeoutPolicy
from taskyard.v1.workflows_pb2 import InputType, TriggerRule, Workflow, WorkflowInput, WorkflowStep
from taskyard_cli.problems import BadFile
from taskyard_cli.workflows.file import located, read_workflow
from taskyard_cli.workflows.rules import workflow_schema
from taskyard_cli.workflows.shape import fields_of, key_of
from taskyard_cli.workflows.yaml_writer import workflow_yaml
from taskyard_client import Violation

REPOSITORY = Path(__file__).parents[3]
WHOLE = """
name: nightly
description: Makes the report.
inputs:
  day:
  count: {type: integer, default: 3}
  where: {default: [a, b], description: Which places.}
  nothing: {default: null}
steps:
  - id: fetch
    type: shell
    params: {command: 'echo ${inputs.day}', tries: 3, ratio: 1.10, deep: true}
    priority: 2
    timeouts: {run_timeout: 30s, total_timeout: PT1H}
    retry: {max_attempts: 5, first_delay: 1s, factor: 1.5, max_delay: 2m, jitter: 0}
    resources: {cpu_millis: 500, memory_mb: 64, gpus: 1}
    placement: {selector: 'lang=python', affinity: 'zone=a', spread: zone, worker_id: w-1}
    exclusive: true
    description: Gets it.
  - id: join
    task: joiner
    needs: [fetch]
    trigger_rule: all_done
    selector: lang=java
    input:
      text: ${steps.fetch.output.stdout_tail}
      list: [1, 2.5, null, true, {deep: "no"}]
output: {report: '${steps.join.output}'}
"""


def read(text: str) -> Workflow:
    return read_workflow("f.yaml", text.encode())[0]


def complaints(text: str) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read(text)
    return [problem.told("f.yaml") for problem in caught.value.problems]


def step(text: str) -> str:
    return f"name: w\nsteps:\n  - id: a\n    {text}\n"


def test_a_file_means_what_it_says() -> None:
    made = read(WHOLE)
    assert made == Workflow(
        name="nightly",
        description="Makes the report.",
        inputs=[
            WorkflowInput(name="day"),
            WorkflowInput(name="count", default_json="3", type=InputType.INPUT_TYPE_INTEGER),
            WorkflowInput(name="where", default_json='["a","b"]', description="Which places."),
            WorkflowInput(name="nothing", default_json="null"),
        ],
        steps=[
            WorkflowStep(
                id="fetch",
                task_type="shell",
                params={"command": "echo ${inputs.day}", "tries": "3", "ratio": "1.10", "deep": "true"},
                priority=2,
                timeouts=TimeoutPolicy(run_timeout=Duration(seconds=30), total_timeout=Duration(seconds=3600)),
                retry=RetryPolicy(
                    max_attempts=5, first_delay=Duration(seconds=1), factor=1.5,
                    max_delay=Duration(seconds=120), jitter=0,
                ),
                resources=Resources(cpu_millis=500, memory_mb=64, gpus=1),
                placement=Placement(selector="lang=python", affinity="zone=a", spread="zone", worker_id="w-1"),
                exclusive=True,
                description="Gets it.",
            ),
            WorkflowStep(
                id="join",
                task_name="joiner",
                needs=["fetch"],
                trigger_rule=TriggerRule.TRIGGER_RULE_ALL_DONE,
                placement=Placement(selector="lang=java"),
                input_json='{"text":"${steps.fetch.output.stdout_tail}","list":[1,2.5,null,true,{"deep":"no"}]}',
            ),
        ],
        output_json='{"report":"${steps.join.output}"}',
    )  # fmt: skip


def test_inputs_as_a_list() -> None:
    made = read("name: w\ninputs: [a, {name: b, default: 1}]\nsteps: [{id: s, type: x}]")
    assert list(made.inputs) == [WorkflowInput(name="a"), WorkflowInput(name="b", default_json="1")]


def test_what_is_written_is_read_again() -> None:
    made = read(WHOLE)
    assert read(workflow_yaml(made)) == made


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
_STEPS = st.lists(
    st.builds(
        WorkflowStep,
        id=st.text("abc_-.9", min_size=1, max_size=20),
        task_type=_TEXT,
        params=st.dictionaries(_TEXT, _TEXT, max_size=3),
        input_json=st.dictionaries(_TEXT, st.integers() | _TEXT | st.booleans(), max_size=3).map(
            lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        ),
        needs=st.lists(_TEXT, max_size=3),
        trigger_rule=st.sampled_from(range(6)),
        priority=st.none() | st.integers(1, 10),
        exclusive=st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(_TEXT.filter(bool), _STEPS)
def test_every_workflow_can_be_written_and_read_again(name: str, steps: list[WorkflowStep]) -> None:
    made = Workflow(name=name, steps=steps)
    assert read(workflow_yaml(made)) == made


HOW = "write a duration with its unit, for example 30s, 5m, 1h30m, 500ms or PT1H30M"
NAME = "is no name; use 1 to 128 of the letters A to Z and a to z, digits, `_`, `-`, `.`"
TEXT = "put it in quotes, since a text goes here"
WORDS = "`{}` is none of the words that go here; "
BROKEN = {
    step("priorty: 3"): "4:5: steps.a.priorty: `priorty` is not known here; did you mean `priority`?",
    step("task_type: x"): "4:5: steps.a.task_type: `task_type` is not known here; did you mean `type`?",
    step("resources: {cpus: 2}"): (
        "4:17: steps.a.resources.cpus: `cpus` is not known here; write `cpu_millis: 2000` (thousandths of a core)"
    ),
    step("resources: {cpu: 0.5}"): (
        "4:17: steps.a.resources.cpu: `cpu` is not known here; write `cpu_millis: 500` (thousandths of a core)"
    ),
    step("resources: {cores: many}"): (
        "4:17: steps.a.resources.cores: `cores` is not known here; write `cpu_millis` (thousandths of a core)"
    ),
    step("resources: {memory_gb: 2}"): (
        "4:17: steps.a.resources.memory_gb: `memory_gb` is not known here; write `memory_mb: 2048` (MiB)"
    ),
    step("resources: {gpu: 1}"): ("4:17: steps.a.resources.gpu: `gpu` is not known here; write `gpus: 1` (whole GPUs)"),
    step("timeouts: {run: 30s}"): ("4:16: steps.a.timeouts.run: `run` is not known here; did you mean `run_timeout`?"),
    step("retry: {attempts: 3}"): (
        "4:13: steps.a.retry.attempts: `attempts` is not known here; did you mean `max_attempts`?"
    ),
    step("priority: 11"): "4:5: steps.a.priority: 11 is not from 1 to 10",
    step("priority: high"): "4:5: steps.a.priority: high is a text; a whole number goes here",
    step("priority: 1.5"): "4:5: steps.a.priority: 1.5 is a number; a whole number goes here",
    step("type: 5"): f"4:5: steps.a.type: 5 is a number; {TEXT}",
    step("needs: b"): "4:5: steps.a.needs: `b` is a text; write a list: [b]",
    step("needs: [3]"): f"4:13: steps.a.needs[0]: 3 is a number; {TEXT}",
    step("trigger_rule: ALL_DONE"): (f"4:5: steps.a.trigger_rule: {WORDS.format('ALL_DONE')}did you mean `all_done`?"),
    step("trigger_rule: 7"): (
        f"4:5: steps.a.trigger_rule: {WORDS.format('7')}"
        "write one of: all_success, all_done, one_success, one_failed, none_failed"
    ),
    step("timeouts: {run_timeout: 30}"): f"4:16: steps.a.timeouts.run_timeout: `30` is no duration; {HOW}",
    step("retry: {jitter: 2}"): "4:13: steps.a.retry.jitter: 2 is not from 0 to 1",
    step("retry: 5"): "4:5: steps.a.retry: 5 is a number; a mapping goes here",
    step("input: [1]"): "4:5: steps.a.input: [1] is a list; a mapping goes here",
    step("params: {a: [1]}"): ("4:14: steps.a.params.a: [1] is a list; a text or a number or true or false goes here"),
    step("selector: x\n    placement: {selector: y}"): (
        "4:5: steps.a.selector: is given in `placement` as well; keep one of them"
    ),
    "steps: [{id: a}]": "1:1: `name` is missing; every workflow has one",
    "name: w\nsteps: [{type: x}]": "2:9: steps[0]: `id` is missing; every step has one",
    "name: w\nsteps: []": "2:1: steps: is empty; give at least one",
    "name: ''\nsteps: [{id: a}]": "1:1: name: is empty; give a text",
    "name: w\nversion: 2\nsteps: [{id: a}]": ("2:1: version: `version` is given by the scheduler; leave it out"),
    "name: w\nsteps: [{id: 'a b'}]": f"2:10: steps.a b.id: `a b` {NAME}",
    "name: w\ninputs: {'a b': 1}\nsteps: [{id: a}]": f"2:1: inputs: `a b` {NAME}",
    "name: w\ninputs: {a: {defualt: 1}}\nsteps: [{id: a}]": (
        "2:14: inputs.a.defualt: `defualt` is not known here; did you mean `default`?"
    ),
    "- a": '1:1: ["a"] is a list; a mapping goes here',
    f"name: {'x' * 201}\nsteps: [{{id: a}}]": "1:1: name: is too long: 201, at most 200",
}


@pytest.mark.parametrize(("text", "says"), BROKEN.items(), ids=range(len(BROKEN)))
def test_each_broken_rule_says_where_what_and_how(text: str, says: str) -> None:
    assert complaints(text) == [f"f.yaml:{says}"]


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "name: 5\nsteps:\n  - id: a\n    nope: 1\n  - id: b\n    priority: 0\n"
    assert [line.split(": ")[0] for line in complaints(text)] == ["f.yaml:1:1", "f.yaml:4:5", "f.yaml:6:5"]
    many = "name: w\nsteps:\n" + "".join(f"  - id: s{at}\n    nope: 1\n" for at in range(30))
    with pytest.raises(BadFile, match="and 10 more"):
        read(many)


def test_a_step_that_is_needed_and_not_there_is_told_with_the_rest() -> None:
    text = "name: w\nsteps:\n  - id: fetch\n    needs: [zz, fetc, 3]\n    retry: {max_attempts: 0}\n"
    told = complaints(text)
    unknown = "is not a step of this workflow; add it, or name one that is."
    assert told[0] == f'f.yaml:4:13: steps.fetch.needs[0]: "zz" {unknown}'
    assert told[1] == f"f.yaml:4:17: steps.fetch.needs[1]: \"fetc\" {unknown} Did you mean 'fetch'?"
    assert [line.split(": ")[1] for line in told[2:]] == ["steps.fetch.needs[2]", "steps.fetch.retry.max_attempts"]


@pytest.mark.parametrize(
    "steps", ["5", "[5]", "[{id: 5}, {id: a, needs: [b]}]", "[{needs: [b]}]", "[{id: a, needs: b}]"]
)
def test_what_may_be_meant_by_a_broken_id_is_not_told(steps: str) -> None:
    assert not [line for line in complaints(f"name: w\nsteps: {steps}\n") if "is not a step" in line]


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(BadFile, match=r"/no/such\.yaml: cannot be read: No such file"):
        read_workflow("/no/such.yaml")


@pytest.mark.parametrize(
    ("field", "place", "named"),
    [
        ("steps.join.input.list[4].deep", "27:35", "steps.join.input.list[4].deep"),
        ("steps.join.input_json", "25:5", "steps.join.input"),
        ("workflow.steps[1].input_json.text", "26:7", "steps.join.input.text"),
        ("workflow.steps[0].input_json", "10:5", "steps.fetch.input"),
        ("steps[0].retry.max_attempts", "15:13", "steps.fetch.retry.max_attempts"),
        ("steps.fetch.params.command", "12:14", "steps.fetch.params.command"),
        ("steps.join.task_name", "21:5", "steps.join.task"),
        ("steps.join.task_type", "20:5", "steps.join.type"),
        ("steps.join.needs", "22:5", "steps.join.needs"),
        ("steps.join.needs[0]", "22:13", "steps.join.needs[0]"),
        ("inputs.where.default_json", "7:11", "inputs.where.default"),
        ("inputs[1].name", "4:1", "inputs[1].name"),
        ("output_json.report", "28:10", "output.report"),
        ("workflow.name", "2:1", "name"),
        ("steps.no-such.id", "9:1", "steps.no-such.id"),
        ("steps.input_json.id", "9:1", "steps.input_json.id"),
        ("what.ever", "2:1", "what.ever"),
    ],
)
def test_what_the_scheduler_says_is_found_in_the_file_and_has_its_names(field: str, place: str, named: str) -> None:
    _, document = read_workflow("f.yaml", WHOLE.encode())
    assert str(located(document, [Violation(field, "is bad")])) == f"f.yaml:{place}: {named}: is bad"


def test_no_field_of_the_contract_is_named_that_a_file_calls_otherwise() -> None:
    text = "name: w\nsteps: [{id: a}]\n"
    _, document = read_workflow("f.yaml", text.encode())
    for path, message in (("workflow", Workflow), ("workflow.steps[0]", WorkflowStep)):
        for field in fields_of(message.DESCRIPTOR):
            told = str(located(document, [Violation(f"{path}.{field.name}", "x")]))
            assert told.endswith(f"{'steps.a.' if message is WorkflowStep else ' '}{key_of(field)}: x"), told


def test_an_input_whose_name_another_only_lengthens_is_found_itself() -> None:
    text = "name: w\nsteps:\n  - id: a\n    type: x\n    input:\n      b: 1\n      b_json: 2\n"
    _, document = read_workflow("f.yaml", text.encode())
    told = str(located(document, [Violation("steps[0].input_json.b_json", "x")]))
    assert told == "f.yaml:7:7: steps.a.input.b_json: x"


def test_the_schema_is_that_of_the_contract() -> None:
    done = subprocess.run(
        [sys.executable, "tools/make_workflow_schema.py", "--check"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_is_a_schema_and_every_rule_in_it_has_a_sentence() -> None:
    jsonschema.Draft202012Validator.check_schema(workflow_schema())
    known = {
        "type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
        "additionalProperties", "required", "propertyNames",
    }  # fmt: skip
    silent = {"$schema", "title", "description", "$defs", "$ref", "items", "properties"}

    def rules(schema: Any) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        found = set(schema)
        for name, part in schema.items():
            if name in {"properties", "$defs"}:
                found |= {rule for each in part.values() for rule in rules(each)}
            elif name in {"items", "additionalProperties", "propertyNames"}:
                found |= rules(part)
        return found

    assert rules(workflow_schema()) <= known | silent


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_each_thing_that_is_missing_is_told_once(steps: int) -> None:
    text = "{}" if not steps else "steps:\n" + "  - {}\n" * steps
    with pytest.raises(BadFile) as caught:
        read(text)
    told = str(caught.value).splitlines()
    assert len(told) == len(set(told))
    missing = [line.rpartition("`")[0].rpartition("`")[2] for line in told if "is missing" in line]
    assert missing == (["name", "steps"] if not steps else ["name", *["id"] * steps])
