"""Task definitions: checked and brought into the form in which they are stored."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import tasks_pb2 as pb
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.policies import parts_of, read_policy
from taskyard_scheduler.ingress.tasks import size_fault
from taskyard_scheduler.ingress.texts import (
    DESCRIPTION_LIMIT,
    name_fault,
    params_fault,
    text_fault,
    type_fault,
)

PATH: Final = "definition."


def read_definition(definition: pb.TaskDefinition) -> pb.TaskDefinition:
    """Returns a checked copy with canonical selectors and without what only the scheduler says.

    Raises:
        InvalidInput: It breaks a rule; fields begin with `definition.`.
    """
    findings = Findings()
    findings.add(f"{PATH}name", name_fault(definition.name))
    findings.add(f"{PATH}task_type", type_fault(definition.task_type))
    findings.add(f"{PATH}description", text_fault(definition.description, DESCRIPTION_LIMIT))
    if definition.HasField("priority"):
        findings.add(f"{PATH}priority", outside(definition.priority, 1, 10))
    _check_work(definition, findings)
    read = read_policy(parts_of(definition))
    findings.extend(read.violations, PATH)
    findings.raise_any()
    copy = pb.TaskDefinition()
    copy.CopyFrom(definition)
    for given in ("number", "create_time", "update_time"):
        copy.ClearField(given)
    if copy.HasField("placement"):
        copy.placement.selector = read.policy.selector
        copy.placement.affinity = read.policy.affinity
    return copy


def _check_work(definition: pb.TaskDefinition, findings: Findings) -> None:
    params = dict(definition.params)
    fault = params_fault(params)
    if fault:
        findings.add(member(f"{PATH}params", fault[0]), fault[1])
    too_large = size_fault(json_text.dump_texts(params), definition.input_json)
    if findings.add(f"{PATH}params", too_large) or not definition.input_json:
        return
    try:
        json_text.parse_object(definition.input_json)
    except json_text.NotJson as error:
        findings.add(f"{PATH}input_json", str(error))
