"""Bad workflows and runs at the real door: every fault named with its field, nothing stored."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from e2e.refusals import refused
from e2e.site import Site
from taskyard.v1 import policies_pb2 as policies
from taskyard.v1 import workflows_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT
EMOJI = "👩‍👩‍👧‍👦 中文"


def step(id: str = "a", **fields: Any) -> pb.WorkflowStep:
    return pb.WorkflowStep(**{"id": id, "task_type": "tell", **fields})


BAD: list[tuple[list[pb.WorkflowStep], str]] = [
    ([], "workflow.steps"),
    ([step("a", needs=["a"])], "workflow.steps[0].needs"),
    ([step("a", needs=["c"]), step("b", needs=["a"]), step("c", needs=["b"])], "workflow.steps"),
    ([step("a", needs=["nowhere"])], "workflow.steps[0].needs"),
    ([step("a"), step("b", needs=["a", "a"])], "workflow.steps[1].needs"),
    ([step("a"), step("a")], "workflow.steps[1].id"),
    ([step("")], "workflow.steps[0].id"),
    ([step("a b")], "workflow.steps[0].id"),
    ([step("a\0")], "workflow.steps[0].id"),
    ([step(EMOJI)], "workflow.steps[0].id"),
    ([step("x" * 129)], "workflow.steps[0].id"),
    ([step("a", task_type="")], "workflow.steps[0].task_type"),
    ([step("a", task_name="nowhere")], "workflow.steps[0].task_name"),
    ([step("a", input_json='{"x": "${steps.nowhere.output}"}')], "workflow.steps[0].input_json.x"),
    ([step("a", input_json='{"x": "${inputs.nowhere}"}')], "workflow.steps[0].input_json.x"),
    ([step("a", input_json='{"x": "${nonsense.y}"}')], "workflow.steps[0].input_json.x"),
    ([step("a", input_json='{"x": "${steps.a.output"}')], "workflow.steps[0].input_json.x"),
    ([step("a"), step("b", input_json='{"x": "${steps.a.output}"}')], "workflow.steps[1].input_json.x"),
    ([step("a", params={"p": "${inputs.nowhere}"})], "workflow.steps[0].params.p"),
    ([step("a", params={"p": "\0"})], "workflow.steps[0].params.p"),
    ([step("a", priority=0)], "workflow.steps[0].priority"),
    ([step("a", priority=11)], "workflow.steps[0].priority"),
    ([step("a", input_json="nonsense")], "workflow.steps[0].input_json"),
    (
        [step("a", timeouts=policies.TimeoutPolicy(run_timeout=Duration(seconds=-1)))],
        "workflow.steps[0].timeouts.run_timeout",
    ),
    ([step("a", description="\0")], "workflow.steps[0].description"),
    ([step("a", input_json='{"x": "' + "y" * (10 * 1024 * 1024) + '"}')], "workflow.steps"),
]


@pytest.mark.parametrize(("steps", "field"), BAD, ids=lambda value: str(value)[:60])
async def test_a_bad_workflow_is_refused_with_its_field(
    shared_site: Site, steps: list[pb.WorkflowStep], field: str
) -> None:
    door = shared_site.door(shared_site.token())
    request = pb.ApplyWorkflowRequest(workflow=pb.Workflow(name="bad", steps=steps))
    answer = await refused(door.workflows.ApplyWorkflow(request, metadata=door.metadata))
    assert answer.code == INVALID
    assert any(each == field or each.startswith((f"{field}.", f"{field}[")) for each in answer.fields), answer
    assert all(len(sentence) > 10 for sentence in answer.fields.values())
    gone = await refused(door.workflows.GetWorkflow(pb.GetWorkflowRequest(name="bad"), metadata=door.metadata))
    assert gone.code == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("name", ["", "a\0", "a\n", "x" * 201, " a"])
async def test_a_bad_name_is_refused(shared_site: Site, name: str) -> None:
    door = shared_site.door(shared_site.token())
    request = pb.ApplyWorkflowRequest(workflow=pb.Workflow(name=name, steps=[step()]))
    answer = await refused(door.workflows.ApplyWorkflow(request, metadata=door.metadata))
    assert (answer.code, list(answer.fields)) == (INVALID, ["workflow.name"])


async def test_a_hundred_faults_are_twenty_violations(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    steps = [step(f"s{n}", priority=99) for n in range(100)]
    request = pb.ApplyWorkflowRequest(workflow=pb.Workflow(name="bad", steps=steps))
    answer = await refused(door.workflows.ApplyWorkflow(request, metadata=door.metadata))
    assert len(answer.fields) == 20


async def test_versions_count_changes_only(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())

    async def apply(*steps: pb.WorkflowStep) -> tuple[int, bool]:
        request = pb.ApplyWorkflowRequest(workflow=pb.Workflow(name=EMOJI, steps=steps))
        answer = await door.workflows.ApplyWorkflow(request, metadata=door.metadata)
        return answer.workflow.version, answer.changed

    assert await apply(step("a")) == (1, True)
    assert await apply(step("a")) == (1, False)
    assert await apply(step("b")) == (2, True)
    assert await apply(step("a")) == (3, True)


async def test_bad_runs_are_refused_each_alone(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    inputs = [pb.WorkflowInput(name="must"), pb.WorkflowInput(name="may", default_json="7")]
    workflow = pb.Workflow(
        name="takes", inputs=inputs, steps=[step("a", input_json='{"must": "${inputs.must}", "may": "${inputs.may}"}')],
        output_json='{"all": "${steps.a.output}"}',
    )  # fmt: skip
    await door.workflows.ApplyWorkflow(pb.ApplyWorkflowRequest(workflow=workflow), metadata=door.metadata)
    bad = [
        {"workflow": "nowhere"}, {"workflow": "takes", "version": 99}, {"workflow": "takes"},
        {"workflow": "takes", "inputs_json": "["}, {"workflow": "takes", "inputs_json": '{"must": 1, "other": 2}'},
        {"workflow": "takes", "inputs_json": '{"must": 1}', "priority": 11}, {"workflow": "a\0b"}, {"workflow": ""},
        {"workflow": "takes", "inputs_json": '{"must": "' + "x" * (5 * 1024 * 1024) + '"}'},
    ]  # fmt: skip
    runs = [pb.RunSubmission(**fields) for fields in bad]  # type: ignore[arg-type]
    runs.append(pb.RunSubmission(workflow="takes", inputs_json='{"must": 1}'))
    outcomes = (await door.workflows.StartRuns(pb.StartRunsRequest(runs=runs), metadata=door.metadata)).outcomes
    assert [bool(each.run_id) for each in outcomes] == [False] * len(bad) + [True]
    assert all(each.refusal.reason and len(each.refusal.message) > 10 for each in outcomes[:-1])
    run = await shared_site.client().wait_run(outcomes[-1].run_id, 60)
    assert run.state == pb.RUN_STATE_SUCCEEDED
    assert json.loads(run.output_json) == {"all": {"must": 1, "may": 7}}


@pytest.mark.parametrize("run_id", ["", "nonsense", "a\0b", "x" * 100_000, EMOJI])
async def test_an_unknown_run_is_not_found(shared_site: Site, run_id: str) -> None:
    door = shared_site.door(shared_site.token())
    for call in ("GetRun", "CancelRun"):
        request = getattr(pb, f"{call}Request")(run_id=run_id)
        answer = await refused(getattr(door.workflows, call)(request, metadata=door.metadata))
        assert answer.code in (grpc.StatusCode.NOT_FOUND, INVALID)
