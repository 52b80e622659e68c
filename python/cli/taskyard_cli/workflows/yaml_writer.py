"""Writes a workflow of the contract as a file that `taskyard workflow apply` takes again."""

from __future__ import annotations

import json
from typing import Any

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.durations import show_duration
from taskyard_cli.workflows.shape import fields_of, holds_json, is_map, key_of, words_of

_WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Writes what our reader takes, and texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Says that nothing is ever written as an alias."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    plain = text.replace("\n", "").isprintable()  # the writer of PyYAML loses U+0085 and its like elsewhere
    style = "|" if "\n" in text and plain else None if plain and not _changes(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _changes(text: str) -> bool:
    """Tells whether a reader of YAML 1.2 would take the plain text for a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


_Dumper.add_representer(str, _text)


def workflow_yaml(workflow: Workflow) -> str:
    """Returns the file."""
    text: str = yaml.dump(_mapping(workflow), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _mapping(message: Message) -> dict[str, Any]:
    return {
        key_of(field): _value(getattr(message, field.name), field)
        for field in fields_of(message.DESCRIPTOR)
        if _given(message, field)
    }


def _given(message: Message, field: FieldDescriptor) -> bool:
    if field.is_repeated:
        return bool(getattr(message, field.name))
    return message.HasField(field.name) if field.has_presence else bool(getattr(message, field.name))


def _value(value: Any, field: FieldDescriptor) -> Any:
    if holds_json(field):
        return json.loads(value)
    if is_map(field):
        return dict(sorted(value.items()))
    if field.is_repeated:
        return [_mapping(item) if isinstance(item, Message) else item for item in value]
    if isinstance(value, Duration):
        return show_duration(value.ToTimedelta())
    if isinstance(value, Message):
        return _mapping(value)
    if field.enum_type is not None:
        return {number: word for word, number in words_of(field.enum_type).items()}[value]
    return value
