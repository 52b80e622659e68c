"""Fills messages from JSON in the common case: every value of the kind that its field has.

Several times faster than json_format, and never long in one step that holds the interpreter. Whatever is unusual (null,
a number in another form, a oneof, bytes) is left to json_format, from the start: it is the judge of what is canonical.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from taskyard_service.gateway.fields import fields_by_name, has_own_form, is_map, message_of

TIMES = ("google.protobuf.Timestamp", "google.protobuf.Duration")
Setter: TypeAlias = Callable[[Any, Any], None]
"""Sets a field of a message to a JSON value."""
Check: TypeAlias = Callable[[Any], Any]
"""Returns what a field is set to for a JSON value."""


class Unusual(Exception):
    """The document has something that is not filled here; the message is half filled."""


def fill(message: Any, document: Any) -> bool:
    """Fills an empty message; False when the document has something unusual: then begin again with json_format."""
    try:
        _filler(message.DESCRIPTOR)(message, document)
    except (Unusual, ValueError, TypeError, OverflowError, RecursionError):
        return False
    return True


@functools.cache
def _filler(descriptor: Any) -> Setter:
    setters = {name: (field.name, _setter(field)) for name, field in fields_by_name(descriptor).items()}

    def fill_in(message: Any, document: Any) -> None:
        if type(document) is not dict:
            raise Unusual
        seen = set()
        for key, value in document.items():
            known = setters.get(key)
            if known is None or known[0] in seen:
                raise Unusual
            seen.add(known[0])
            known[1](message, value)

    return fill_in


def _setter(field: FieldDescriptor) -> Setter:
    name = field.name
    oneof = field.containing_oneof
    if is_map(field):
        return _map_setter(field)
    if oneof is not None and len(oneof.fields) > 1:
        return _unusual
    if field.message_type is not None:
        return _message_setter(field)
    check = _check(field)

    def set_one(message: Any, value: Any) -> None:
        setattr(message, name, check(value))

    def set_many(message: Any, value: Any) -> None:
        if type(value) is not list:
            raise Unusual
        getattr(message, name).extend([check(each) for each in value])

    return set_many if field.is_repeated else set_one


def _message_setter(field: FieldDescriptor) -> Setter:
    name, inner = field.name, message_of(field)
    if has_own_form(inner):
        return _time_setter(name) if inner.full_name in TIMES and not field.is_repeated else _unusual

    def set_one(message: Any, value: Any) -> None:
        part = getattr(message, name)
        part.SetInParent()
        _filler(inner)(part, value)

    def set_many(message: Any, value: Any) -> None:
        if type(value) is not list:
            raise Unusual
        fill_in, parts = _filler(inner), getattr(message, name)
        for each in value:
            fill_in(parts.add(), each)

    return set_many if field.is_repeated else set_one


def _time_setter(name: str) -> Setter:
    def set_time(message: Any, value: Any) -> None:
        if type(value) is not str:
            raise Unusual
        getattr(message, name).FromJsonString(value)

    return set_time


def _map_setter(field: FieldDescriptor) -> Setter:
    name, entry = field.name, message_of(field)
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    if key.type != FieldDescriptor.TYPE_STRING or value.message_type is not None:
        return _unusual
    check = _check(value)

    def set_map(message: Any, document: Any) -> None:
        if type(document) is not dict:
            raise Unusual
        made = getattr(message, name)
        for each, content in document.items():
            made[each] = check(content)

    return set_map


def _check(field: FieldDescriptor) -> Check:
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}
        return lambda value: _known(numbers, value)
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda value: _of((str,), value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return lambda value: _of((bool,), value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return lambda value: _of((float, int), value)
    return _unusual_value if field.cpp_type in _ELSEWHERE else _integer


_ELSEWHERE = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_FLOAT)
"""Bytes, and floats, whose range json_format knows."""


def _of(kinds: tuple[type, ...], value: Any) -> Any:
    if type(value) not in kinds:
        raise Unusual
    return value


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    raise Unusual


def _known(numbers: dict[str, int], value: Any) -> int:
    if type(value) is not str or value not in numbers:
        raise Unusual
    return numbers[value]


def _unusual(_message: Any, _value: Any) -> None:
    raise Unusual


def _unusual_value(_value: Any) -> Any:
    raise Unusual
