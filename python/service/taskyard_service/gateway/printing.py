"""Prints messages in the canonical JSON form, every field in the contract's order, those at their defaults too.

json_format would put the fields that are set before the others, which makes answers hard to read and to compare. What
has a JSON form of its own is left to it.
"""

from __future__ import annotations

import base64
import functools
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.internal import type_checkers
from google.protobuf.message import Message

from taskyard_service.gateway.fields import has_own_form, is_map, message_of

Convert: TypeAlias = Callable[[Any], Any]
"""Turns one value of a field into its JSON form."""
_TEXT: dict[int, Callable[[Any], str]] = {
    FieldDescriptor.CPPTYPE_INT64: str,
    FieldDescriptor.CPPTYPE_UINT64: str,
    FieldDescriptor.CPPTYPE_BOOL: lambda value: "true" if value else "false",
}
"""How a map's key is written where `str` does not do."""


def message_json(message: Message) -> bytes:
    """Returns a message as one line of canonical JSON."""
    document = _convert_message(message.DESCRIPTOR)(message)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


@functools.cache
def _convert_message(descriptor: Any) -> Convert:
    if has_own_form(descriptor):
        return json_format.MessageToDict
    plan = [(field.json_name, field.name, field.has_presence, _convert_field(field)) for field in descriptor.fields]

    def convert(message: Any) -> dict[str, Any]:
        made = {}
        for json_name, name, presence, to_json in plan:
            if not presence or message.HasField(name):
                made[json_name] = to_json(getattr(message, name))
        return made

    return convert


def _convert_field(field: FieldDescriptor) -> Convert:
    if is_map(field):
        entry = message_of(field)
        text: Callable[[Any], str] = _TEXT.get(entry.fields_by_name["key"].cpp_type, str)
        one = _convert_one(entry.fields_by_name["value"])
        return lambda values: {text(key): one(values[key]) for key in values}
    one = _convert_one(field)
    return (lambda values: [one(value) for value in values]) if field.is_repeated else one


def _convert_one(field: FieldDescriptor) -> Convert:
    if field.message_type is not None:
        inner = message_of(field)
        return lambda value: _convert_message(inner)(value)  # asked late: a message may be within itself
    if field.enum_type is not None:
        return _convert_enum(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda value: base64.b64encode(value).decode()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        return str
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return lambda value: _number(type_checkers.ToShortestFloat(value))
    return _number if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else _same


def _convert_enum(descriptor: EnumDescriptor) -> Convert:
    """Returns what writes names; a number that has none, from a newer peer, stays one."""
    if descriptor.full_name == "google.protobuf.NullValue":
        return lambda _value: None
    names = {value.number: value.name for value in reversed(descriptor.values)}
    return lambda value: names.get(value, value)


def _number(value: float) -> float | int | str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    return int(value) if value.is_integer() else value


def _same(value: Any) -> Any:
    return value
