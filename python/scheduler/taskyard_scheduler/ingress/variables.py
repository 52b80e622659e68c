"""Variables of a tenant: checked and brought into the form in which they are stored."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.names import check_step_id
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.texts import DESCRIPTION_LIMIT, text_fault

PATH: Final = "variable."
VALUE_BYTES: Final = 64 * 1024


def variable_name_fault(name: str) -> str | None:
    """Checks a variable's name; None when it is fine."""
    said = check_step_id(name)
    return said.replace("a step's id", "a variable's name") if said else None


def read_variable(variable: pb.Variable) -> pb.Variable:
    """Returns a checked copy without what only the scheduler says.

    Raises:
        InvalidInput: It breaks a rule; fields begin with `variable.`.
    """
    findings = Findings()
    findings.add(f"{PATH}name", variable_name_fault(variable.name))
    findings.add(f"{PATH}description", text_fault(variable.description, DESCRIPTION_LIMIT))
    findings.add(f"{PATH}value_json", _value_fault(variable.value_json))
    findings.raise_any()
    copy = pb.Variable()
    copy.CopyFrom(variable)
    copy.ClearField("update_time")
    return copy


def _value_fault(text: str) -> str | None:
    if not text:
        return 'no value is given; give any JSON, such as "eu" (with its quotes), 3 or null'
    if json_text.exceeds(text, VALUE_BYTES):
        return f"{json_text.size(text):,} bytes are more than {VALUE_BYTES:,}; pass large values as inputs or artifacts"
    try:
        json_text.parse(text)
    except json_text.NotJson as error:
        return str(error)
    return None
