"""What the scripted server of the command's tests has: times that are always the same, and a workflow. Not a test."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import workflows_pb2

START = 1_795_981_387  # 2026-11-29 19:43:07 UTC


def time_at(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromNanoseconds(int((START + seconds) * 1e9))
    return stamp


def workflow() -> workflows_pb2.Workflow:
    return workflows_pb2.Workflow(
        name="two",
        version=3,
        description="Two steps.",
        create_time=time_at(0),
        inputs=[
            workflows_pb2.WorkflowInput(name="day"),
            workflows_pb2.WorkflowInput(name="n", default_json="3"),
        ],
        steps=[
            workflows_pb2.WorkflowStep(id="fetch", task_type="shell", params={"command": "echo ${inputs.day}"}),
            workflows_pb2.WorkflowStep(
                id="join",
                task_name="joiner",
                needs=["fetch"],
                trigger_rule=workflows_pb2.TriggerRule.TRIGGER_RULE_ALL_DONE,
            ),
        ],
        output_json='"${steps.join.output}"',
    )
