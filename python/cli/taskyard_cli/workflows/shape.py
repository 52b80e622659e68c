"""How a workflow file differs from the contract's message: what is renamed, what is left out, what is shorter.

The one place for both sides: the JSON Schema (tools/make_workflow_schema.py) and the reading of files.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

_RENAMED = {"WorkflowStep.task_type": "type", "WorkflowStep.task_name": "task"}

GIVEN = frozenset({"Workflow.version", "Workflow.create_time", "Workflow.source"})
"""Fields that the scheduler gives, or the command line; a file has none of them."""

REQUIRED = {"Workflow": ["name", "steps"], "WorkflowStep": ["id"], "WorkflowInput": ["name"]}
"""Keys without which a mapping of a file means nothing."""

INPUT_KEYS = ("type", "default", "description")
"""What an input says of itself when inputs are a mapping from name."""


def identity(field: FieldDescriptor) -> str:
    """Returns a field's name with its message's."""
    owner = field.containing_type
    return f"{owner.name}.{field.name}" if owner else field.name


def key_of(field: FieldDescriptor) -> str:
    """Returns the key of a file for a field of the contract."""
    return _RENAMED.get(identity(field), field.name.removesuffix("_json"))


def holds_json(field: FieldDescriptor) -> bool:
    """Tells whether a field is JSON as text, so that a file has the value itself."""
    return field.name.endswith("_json")


def is_map(field: FieldDescriptor) -> bool:
    """Tells whether a field is a map."""
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)


def fields_of(message: Any) -> list[FieldDescriptor]:
    """Returns the fields of a message, given by its descriptor, that a file can have."""
    fields: list[FieldDescriptor] = message.fields
    return [field for field in fields if identity(field) not in GIVEN]


def words_of(enum: EnumDescriptor) -> dict[str, int]:
    """Returns a file's words for an enum: `all_done` for TRIGGER_RULE_ALL_DONE."""
    prefix = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in enum.name).lstrip("_")
    return {
        value.name.removeprefix(f"{prefix.upper()}_").lower(): value.number
        for value in enum.values
        if value.number != 0
    }
