"""Makes the request message from what HTTP brings: the path's variables, the query, and a JSON body.

Canonical protobuf JSON. Every refusal is an InvalidArgument that names field, value and rule. Made once per binding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from taskyard_service.errors import FieldViolation, InvalidArgument
from taskyard_service.gateway.explain import REFUSALS, faults, near, shown
from taskyard_service.gateway.fields import fields_by_name, for_example, has_bytes, has_own_form, is_map, wanted
from taskyard_service.gateway.filling import fill
from taskyard_service.gateway.methods import WHOLE_BODY, Binding
from taskyard_service.status import cut

PARAMETERS_LIMIT = 1_000
"""Query parameters of one request."""


class RequestReader:
    """Makes the requests of one binding.

    Args:
        binding: What it is for.
    """

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._class = binding.method.request
        self._descriptor: Descriptor = self._class.DESCRIPTOR
        self._strict = has_bytes(self._descriptor)
        self._variables = [(variable, variable.field.split(".")) for variable in binding.template.variables]

    def read(self, segments: Sequence[str], query: bytes, body: bytes) -> Message:
        """Returns the request.

        Args:
            segments: The path's, decoded.
            query: As it came, without `?`.
            body: Empty: an empty message.

        Raises:
            InvalidArgument: Something of it does not fit the request.
        """
        binding = self._binding
        document: Any = _json(body) if body and binding.body else {}
        if binding.body and binding.body != WHOLE_BODY:
            document = {binding.body: document} if body else {}
        if query:
            document = self._with_query(query, document)
        message: Message = self._class()
        if document != {} and not fill(message, document):
            message = self._class()
            self._fill(message, document)
        for variable, path in self._variables:
            _set(message, path, variable.value(segments), variable.field)
        return message

    def _fill(self, message: Message, document: object) -> None:
        if not isinstance(document, dict):
            raise InvalidArgument(faults(document, self._descriptor))
        try:
            json_format.ParseDict(document, message)
        except (*REFUSALS, RecursionError) as error:
            _refuse(document, self._descriptor, error)
        if self._strict and (found := faults(document, self._descriptor)):
            raise InvalidArgument(found)

    def _with_query(self, query: bytes, document: dict[str, Any]) -> dict[str, Any]:
        if self._binding.body == WHOLE_BODY:
            name = query.decode("latin-1").partition("=")[0]
            said = "this call takes its fields in the body, not in the query: put it there"
            raise InvalidArgument([FieldViolation(cut(name), said)])
        found: list[FieldViolation] = []
        for name, values in _parameters(query).items():
            _place(document, self._descriptor, name, values, found)
        if found:
            raise InvalidArgument(found)
        return document


def _json(body: bytes) -> Any:
    """Reads JSON, strictly: UTF-8, no NaN, no name twice in one object."""
    try:
        return json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _bad_body(f"byte {error.start} is no UTF-8: JSON is sent as UTF-8")
    except json.JSONDecodeError as error:
        near_it = error.doc[max(0, error.pos - 10) : error.pos + 20]
        _bad_body(f"it is no JSON: {error.msg}, line {error.lineno}, column {error.colno}, near {shown(near_it)}")
    except RecursionError:
        _bad_body("it is nested too deeply")
    except ValueError as error:
        _bad_body(f"it is no JSON that can be read: {error}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {shown(twice)} twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is no JSON; a number field takes it as text, "{name}"')


def _bad_body(sentence: str) -> NoReturn:
    raise InvalidArgument([FieldViolation("body", sentence)], reason="INVALID_JSON") from None


def _refuse(document: object, descriptor: Descriptor, error: Exception) -> NoReturn:
    if isinstance(error, RecursionError):
        _bad_body("it is nested too deeply")
    violations = faults(document, descriptor)
    raise InvalidArgument(violations or [FieldViolation("body", cut(str(error)))]) from None


def _parameters(query: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_LIMIT
        )
    except UnicodeDecodeError:
        said = "it is no percent-encoded UTF-8; curl encodes a value with -G --data-urlencode 'name=value'"
        raise InvalidArgument([FieldViolation("query", said)]) from None
    except ValueError:
        said = f"it has more than {PARAMETERS_LIMIT} parameters"
        raise InvalidArgument([FieldViolation("query", said)]) from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def _place(
    document: dict[str, Any], descriptor: Descriptor, name: str, values: list[str], found: list[FieldViolation]
) -> None:
    """Puts a parameter where JSON has its field; `a.b` is field b of message a."""
    *outer, last = name.split(".")
    for part in outer:
        field = fields_by_name(descriptor).get(part)
        if field is None or field.message_type is None or field.is_repeated or has_own_form(field.message_type):
            found.append(_unknown(name, descriptor))
            return
        document = document.setdefault(field.name, {})
        descriptor = field.message_type
    field = fields_by_name(descriptor).get(last)
    if field is None:
        found.append(_unknown(name, descriptor))
    elif problem := _unfit(field, values, document):
        found.append(FieldViolation(name, problem))
    else:
        taken = [_value(field, value) for value in values]
        document[field.name] = taken if field.is_repeated else taken[0]


def _unfit(field: FieldDescriptor, values: list[str], document: dict[str, Any]) -> str:
    """Returns what keeps values from being a field's in a query; empty: nothing."""
    if is_map(field) or (field.message_type is not None and not has_own_form(field.message_type)):
        inner = "" if is_map(field) or field.is_repeated else f"; name one of its fields, as in {field.json_name}.…"
        return f"a query cannot carry it whole{inner}"
    if field.name in document or (len(values) > 1 and not field.is_repeated):
        return f"it is given more than once and takes one value: {wanted(field)}"
    return ""


def _unknown(name: str, descriptor: Descriptor) -> FieldViolation:
    names = [field.json_name for field in descriptor.fields]
    return FieldViolation(cut(name), f"there is no such parameter; {near(name.rpartition('.')[2], names)}")


def _value(field: FieldDescriptor, text: str) -> object:
    """Returns a parameter's text in its JSON form: only truth values are not written as text."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def _set(message: Message, path: Sequence[str], text: str, field_path: str) -> None:
    """Sets a field to what the path says; the body may say the same, or nothing."""
    parent: Any = message
    for name in path[:-1]:
        parent = getattr(parent, name)
    name = path[-1]
    field = parent.DESCRIPTOR.fields_by_name[name]
    wanted_value: Any = text
    if field.type != FieldDescriptor.TYPE_STRING:
        wanted_value = _converted(parent, field, text, field_path)
    given = getattr(parent, name)
    if given and given != wanted_value:
        said = f"{shown(str(given))} in the body or query, and {shown(text)} in the path: leave the first out"
        raise InvalidArgument([FieldViolation(field_path, said)])
    setattr(parent, name, wanted_value)


def _converted(parent: Any, field: FieldDescriptor, text: str, field_path: str) -> Any:
    made = type(parent)()
    try:
        json_format.ParseDict({field.name: _value(field, text)}, made)
    except REFUSALS:
        said = f"{shown(text)}: {wanted(field)} is wanted{for_example(field)}"
        raise InvalidArgument([FieldViolation(field_path, said)]) from None
    return getattr(made, field.name)
