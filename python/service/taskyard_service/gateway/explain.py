"""Says what in a JSON document does not fit a message: each field with its path, its value and its rule.

Asked only when the protobuf library has refused the document. The library stays the judge: a leaf is tried alone with
it, and what it takes is no fault here.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskyard_service.errors import FieldViolation
from taskyard_service.status import VIOLATION_LIMIT

SHOWN_LIMIT = 60
"""Characters of a value in a violation's sentence."""
NAMES_LIMIT = 12
"""Names of fields or enum values in a sentence."""
REFUSALS = (json_format.ParseError, json_format.SerializeToJsonError, ValueError, TypeError, AttributeError, KeyError)
"""What the library raises for documents that do not fit; some of it is not meant to be seen."""
_INTEGERS = {
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT32,), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_UINT32,), (0, 2**32 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT64,), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_UINT64,), (0, 2**64 - 1)),
}
_WELL_KNOWN = {
    "google.protobuf.Timestamp": 'a time such as "2026-01-31T12:00:00Z"',
    "google.protobuf.Duration": 'a number of seconds as text, such as "1.5s"',
    "google.protobuf.FieldMask": 'names of fields as text, such as "name,labels"',
    "google.protobuf.Struct": "an object",
    "google.protobuf.ListValue": "a list",
    "google.protobuf.Any": 'an object with "@type"',
}
"""Messages that have a JSON form of their own, and how it looks; the package's others are tried as they are."""


def faults(document: object, descriptor: Descriptor) -> list[FieldViolation]:
    """Returns what of a document does not fit a message; nothing when no single field is to blame."""
    found: list[FieldViolation] = []
    _message(document, descriptor, "", found)
    return found


def shown(value: object) -> str:
    """Returns a value as a sentence can show it: cut, and lists and objects by their kind."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value[: SHOWN_LIMIT + 1] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= SHOWN_LIMIT else text[: SHOWN_LIMIT - 3] + "..."


def near(name: str, names: list[str]) -> str:
    """Returns the hint for a name that is not known."""
    found = difflib.get_close_matches(name[:100], names, n=1)
    if found:
        return f"did you mean {found[0]}?"
    listed = ", ".join(names[:NAMES_LIMIT]) + (", …" if len(names) > NAMES_LIMIT else "")
    return f"there is {listed}" if names else "there is none"


@functools.cache
def fields_by_name(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    """Returns a message's fields by both of their names: `task_id` and `taskId`."""
    return {name: field for field in descriptor.fields for name in (field.name, field.json_name)}


def wanted(field: FieldDescriptor) -> str:
    """Returns what one value of a field must be, as a sentence has it."""
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        return f"an integer from {low} to {high}"
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


def is_map(field: FieldDescriptor) -> bool:
    """Tells whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def has_own_form(descriptor: Descriptor | None) -> bool:
    """Tells whether a message is one of protobuf's own, which JSON writes otherwise than as its fields."""
    return descriptor is not None and descriptor.full_name.startswith("google.protobuf.")


def _message(value: object, descriptor: Descriptor, path: str, found: list[FieldViolation]) -> None:
    if not isinstance(value, Mapping):
        found.append(FieldViolation(path or "body", f"{shown(value)}: an object is wanted, as in {{\"name\": …}}"))
        return
    fields = fields_by_name(descriptor)
    seen: dict[str, str] = {}
    for name, each in value.items():
        if len(found) >= VIOLATION_LIMIT:
            return
        field = fields.get(name)
        at = f"{path}.{field.name if field else name}" if path else (field.name if field else name)
        if field is None:
            names = [known.json_name for known in descriptor.fields]
            found.append(FieldViolation(at, f"there is no such field; {near(name, names)}"))
        elif field.name in seen:
            found.append(FieldViolation(at, f"it is given twice, as {seen[field.name]} and {name}: leave one out"))
        else:
            seen[field.name] = name
            _field(each, field, at, found)


def _field(value: object, field: FieldDescriptor, path: str, found: list[FieldViolation]) -> None:
    if value is None:
        return
    if is_map(field):
        _map(value, field, path, found)
    elif not field.is_repeated:
        _one(value, field, path, found)
    elif not isinstance(value, list):
        found.append(FieldViolation(path, f"{shown(value)}: a list is wanted, as in [ … ], each {wanted(field)}"))
    else:
        for number, each in enumerate(value):
            if len(found) >= VIOLATION_LIMIT:
                return
            _one(each, field, f"{path}[{number}]", found)


def _map(value: object, field: FieldDescriptor, path: str, found: list[FieldViolation]) -> None:
    if not isinstance(value, Mapping):
        found.append(FieldViolation(path, f"{shown(value)}: an object is wanted, as in {{\"name\": …}}"))
        return
    key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    for key, each in value.items():
        at = f"{path}[{json.dumps(key, ensure_ascii=False)}]"
        if value_field.message_type is not None and not has_own_form(value_field.message_type):
            _message(each, value_field.message_type, at, found)
        elif not _fits({field.name: {key: each}}, field):
            said = f"{shown(each)}: {wanted(value_field)} is wanted, its name {wanted(key_field)}"
            found.append(FieldViolation(at, said))


def _one(value: object, field: FieldDescriptor, path: str, found: list[FieldViolation]) -> None:
    if field.message_type is not None and not has_own_form(field.message_type):
        _message(value, field.message_type, path, found)
    elif not _fits({field.name: [value] if field.is_repeated else value}, field):
        hint = ""
        if field.enum_type is not None and isinstance(value, str):
            hint = f"; {near(value, [known.name for known in field.enum_type.values])}"
        found.append(FieldViolation(path, f"{shown(value)}: {wanted(field)} is wanted{hint}"))


def _fits(document: dict[str, Any], field: FieldDescriptor) -> bool:
    try:
        json_format.ParseDict(document, message_factory.GetMessageClass(field.containing_type)())
    except REFUSALS:
        return False
    return True
