"""Says what in a JSON document does not fit a message: each field with its path, its value and its rule.

Asked when the protobuf library has refused the document, and for messages with bytes, of which the library takes any
text. Else the library stays the judge: a leaf is tried alone with it, and what it takes is no fault here.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from taskyard_service.errors import FieldViolation
from taskyard_service.gateway.fields import (
    NAMES_LIMIT,
    fields_by_name,
    for_example,
    has_own_form,
    is_map,
    message_of,
    wanted,
)
from taskyard_service.status import VIOLATION_LIMIT

SHOWN_LIMIT = 60
"""Characters of a value in a violation's sentence."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_SAMPLES: dict[int, object] = {
    FieldDescriptor.CPPTYPE_STRING: "",
    FieldDescriptor.CPPTYPE_BOOL: False,
    FieldDescriptor.CPPTYPE_MESSAGE: {},
}
"""Values that suit a field of a kind; numbers and enums: 0."""
REFUSALS = (json_format.ParseError, ValueError, TypeError, AttributeError, KeyError, OverflowError)
"""What the library raises for documents that do not fit; some of it is not meant to be seen."""


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
    if found := _nearest(name, names):
        return f"did you mean {found}?"
    listed = ", ".join(names[:NAMES_LIMIT]) + (", …" if len(names) > NAMES_LIMIT else "")
    return f"there is {listed}" if names else "there is none"


def _nearest(name: str, names: list[str]) -> str:
    """Returns the name that was meant, perhaps without its prefix, as in `FAILED`; empty when none is like it."""
    whole = [known for known in names if known.lower().endswith(f"_{name[:100].lower()}")]
    return next(iter(whole or difflib.get_close_matches(name[:100], names, n=1)), "")


def _message(value: object, descriptor: Descriptor, path: str, found: list[FieldViolation]) -> None:
    if not isinstance(value, Mapping):
        found.append(FieldViolation(path or "body", f'{shown(value)}: an object is wanted, as in {{"name": …}}'))
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
        found.append(FieldViolation(path, f'{shown(value)}: an object is wanted, as in {{"name": …}}'))
        return
    key_field, value_field = (message_of(field).fields_by_name[name] for name in ("key", "value"))
    for key, each in value.items():
        at = f"{path}[{json.dumps(key, ensure_ascii=False)}]"
        own_fields = value_field.message_type is not None and not has_own_form(value_field.message_type)
        if not _fits({field.name: {key: _SAMPLES.get(value_field.cpp_type, 0)}}, field):
            said = f"{shown(key)}: as its name, {wanted(key_field)} is wanted{for_example(key_field)}"
            found.append(FieldViolation(at, said))
        elif own_fields:
            _message(each, message_of(value_field), at, found)
        elif not _fits({field.name: {key: each}}, field):
            _say(each, value_field, at, found)


def _one(value: object, field: FieldDescriptor, path: str, found: list[FieldViolation]) -> None:
    if field.message_type is not None and not has_own_form(field.message_type):
        _message(value, field.message_type, path, found)
    elif field.type == FieldDescriptor.TYPE_BYTES and not _is_base64(value):
        _say(value, field, path, found)
    elif not _fits({field.name: [value] if field.is_repeated else value}, field):
        _say(value, field, path, found)


def _say(value: object, field: FieldDescriptor, path: str, found: list[FieldViolation]) -> None:
    hint = for_example(field)
    if field.enum_type is not None and isinstance(value, str):
        meant = _nearest(value, [known.name for known in field.enum_type.values])
        hint = f"; did you mean {meant}?" if meant else ""
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, int | float):
        hint = f', as in "{shown(value)}"'
    if field.type == FieldDescriptor.TYPE_STRING and field.name.endswith("_json") and isinstance(value, Mapping | list):
        hint = f"; this field is JSON within a string, as in {_within_string(value, field)}"
    found.append(FieldViolation(path, f"{shown(value)}: {wanted(field)} is wanted{hint}"))


def _within_string(value: object, field: FieldDescriptor) -> str:
    """Returns how a JSON value is sent in a string: the value that was given when it is short, else one like it."""
    inner = json.dumps(value, ensure_ascii=False)
    if len(inner) > SHOWN_LIMIT:
        inner = '{"seconds": 1}' if isinstance(value, Mapping) else "[1, 2]"
    return f'"{field.json_name}": {json.dumps(inner, ensure_ascii=False)}'


def _is_base64(value: object) -> bool:
    """Tells whether a value is base64 of either alphabet, padded or not: the library passes over what is none."""
    return isinstance(value, str) and _BASE64.fullmatch(value) is not None and len(value.rstrip("=")) % 4 != 1


def _fits(document: dict[str, Any], field: FieldDescriptor) -> bool:
    try:
        json_format.ParseDict(document, _class_of(field.containing_type)())
    except REFUSALS:
        return False
    return True


def _class_of(descriptor: Any) -> Any:
    return message_factory.GetMessageClass(descriptor)
