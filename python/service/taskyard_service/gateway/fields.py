"""Facts about the fields of messages that requests, refusals and documents share."""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

NAMES_LIMIT = 12
"""Names of fields or enum values in a sentence."""
_INTEGERS = {
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT32,), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_UINT32,), (0, 2**32 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT64,), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_UINT64,), (0, 2**64 - 1)),
}
_WELL_KNOWN = {
    "google.protobuf.Timestamp": 'a time as text, such as "2026-01-31T12:00:00Z",',
    "google.protobuf.Duration": 'seconds as text, such as "1.5s",',
    "google.protobuf.FieldMask": 'names of fields as text, such as "name,labels",',
    "google.protobuf.Struct": "an object",
    "google.protobuf.ListValue": "a list",
    "google.protobuf.Any": 'an object with "@type"',
}
"""Messages that have a JSON form of their own, and how it looks; the package's others are tried as they are."""


@functools.cache
def fields_by_name(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    """Returns a message's fields by both of their names: `task_id` and `taskId`."""
    return {name: field for field in descriptor.fields for name in (field.name, field.json_name)}


def is_map(field: FieldDescriptor) -> bool:
    """Tells whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def has_own_form(descriptor: Descriptor | None) -> bool:
    """Tells whether a message is one of protobuf's own, which JSON writes otherwise than as its fields."""
    return descriptor is not None and descriptor.full_name.startswith("google.protobuf.")


def wanted(field: FieldDescriptor) -> str:
    """Returns what one value of a field must be, as a sentence has it."""
    if field.cpp_type in _INTEGERS:
        return "a whole number"
    if field.enum_type is not None:
        names = [value.name for value in field.enum_type.values]
        return f"one of {', '.join(names[:NAMES_LIMIT])}" + (", …" if len(names) > NAMES_LIMIT else "")
    if field.message_type is not None:
        return _WELL_KNOWN.get(field.message_type.full_name, "an object")
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "base64 text"
    return {
        FieldDescriptor.CPPTYPE_BOOL: "true or false",
        FieldDescriptor.CPPTYPE_STRING: "text",
    }.get(field.cpp_type, "a number")


def for_example(field: FieldDescriptor) -> str:
    """Returns what follows a sentence that a whole number is wanted; of any other field nothing.

    The field's own rule is the scheduler's, and mostly narrower than what the type holds.
    """
    if field.cpp_type not in _INTEGERS:
        return ""
    low, high = _INTEGERS[field.cpp_type]
    return f", for example 5 (its type holds {low} to {high})"


def message_of(field: FieldDescriptor) -> Any:
    """Returns the descriptor of the message that a field is; of any other field None, which nobody asks for."""
    return field.message_type


def has_bytes(descriptor: Any, above: frozenset[str] = frozenset()) -> bool:
    """Tells whether a message has bytes, itself or in a message within it."""
    within = above | {descriptor.full_name}
    return any(
        field.type == FieldDescriptor.TYPE_BYTES
        or (message_of(field) is not None and message_of(field).full_name not in within
            and has_bytes(message_of(field), within))
        for field in descriptor.fields
    )  # fmt: skip
