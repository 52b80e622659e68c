"""Task definitions merged into a workflow's steps, so that a stored version keeps what it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskyard.v1 import policies_pb2, tasks_pb2, workflows_pb2
from taskyard_core.templates import escape
from taskyard_core.violations import InvalidInput, Violation
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.policies import over

WORKFLOW_BYTES: Final = 10 * 1024 * 1024
"""Of a stored workflow: with what escaping adds it must fit into one packet of MariaDB, which is 16 MiB."""


def merge_definitions(
    workflow: workflows_pb2.Workflow, definitions: Mapping[str, tasks_pb2.TaskDefinition]
) -> workflows_pb2.Workflow:
    """Returns a copy in which each step has its definition's values where it has none of its own.

    A definition's params and input are plain values, a step's are templates: `${` in a definition is escaped. A step
    whose definition is not known, or whose input is no JSON, is left as it is: `read_workflow` says so.

    Raises:
        InvalidInput: The whole would be too large to be stored.
    """
    merged = workflows_pb2.Workflow()
    merged.CopyFrom(workflow)
    size = workflow.ByteSize()
    _check_size(size)
    for step in merged.steps:
        definition = definitions.get(step.task_name) if step.task_name else None
        if definition is not None:
            size += definition.ByteSize()
            _check_size(size)
            _merge(step, definition)
    return merged


def _check_size(size: int) -> None:
    """Bounds a workflow before it is made: many steps of a large definition are beyond any memory."""
    if size > WORKFLOW_BYTES:
        sentence = (
            f"with the definitions of its steps the workflow takes more than {WORKFLOW_BYTES:,} bytes; pass large data"
            " as inputs or by reference, or split it into several workflows"
        )
        raise InvalidInput([Violation("workflow.steps", sentence)])


def _merge(step: workflows_pb2.WorkflowStep, definition: tasks_pb2.TaskDefinition) -> None:
    if not step.task_type:
        step.task_type = definition.task_type
    if not step.HasField("priority") and definition.HasField("priority"):
        step.priority = definition.priority
    if not step.HasField("exclusive"):
        step.exclusive = definition.exclusive
    for name, value in definition.params.items():
        if name not in step.params:
            step.params[name] = escape(value)
    if definition.input_json:
        step.input_json = _merge_input(step.input_json, definition.input_json)
    _merge_policies(step, definition)


def _merge_input(own: str, base: str) -> str:
    values = _escaped(json_text.parse_object(base))
    if not own:
        return json_text.dump(values)
    try:
        members = json_text.parse_object(own)
    except json_text.NotJson:
        return own
    return json_text.dump({**values, **members})


def _escaped(members: dict[str, object]) -> dict[str, object]:
    return {escape(key): _escaped_value(value) for key, value in members.items()}


def _escaped_value(value: object) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [_escaped_value(each) for each in value]
    return _escaped(value) if isinstance(value, dict) else value


def _merge_policies(step: workflows_pb2.WorkflowStep, definition: tasks_pb2.TaskDefinition) -> None:
    if definition.HasField("timeouts"):
        base = definition.timeouts.SerializeToString()
        step.timeouts.CopyFrom(policies_pb2.TimeoutPolicy.FromString(over(base, step.timeouts)))
    if definition.HasField("retry"):
        base = definition.retry.SerializeToString()
        step.retry.CopyFrom(policies_pb2.RetryPolicy.FromString(over(base, step.retry)))
    if definition.HasField("resources") and not step.HasField("resources"):
        step.resources.CopyFrom(definition.resources)
    if definition.HasField("placement") and not step.HasField("placement"):
        step.placement.CopyFrom(definition.placement)
