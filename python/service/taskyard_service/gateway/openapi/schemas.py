"""JSON schemas of messages and enums in their canonical JSON form, collected as they are referred to."""

from __future__ import annotations

from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from taskyard_service.gateway.fields import is_map, message_of
from taskyard_service.gateway.openapi.comments import Comments

Schema: TypeAlias = dict[str, Any]
_SPECIAL = {"enum": ["NaN", "Infinity", "-Infinity"]}


def _text_64(name: str) -> Schema:
    return {"type": "string", "format": name, "pattern": r"^-?[0-9]{1,20}$", "examples": ["0"]}


_INT32: Schema = {"type": "integer", "format": "int32"}
_UINT32: Schema = {"type": "integer", "format": "uint32", "minimum": 0}
_SCALARS: dict[int, Schema] = {
    FieldDescriptor.TYPE_DOUBLE: {"anyOf": [{"type": "number", "format": "double"}, _SPECIAL]},
    FieldDescriptor.TYPE_FLOAT: {"anyOf": [{"type": "number", "format": "float"}, _SPECIAL]},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_INT64: _text_64("int64"),
    FieldDescriptor.TYPE_SINT64: _text_64("int64"),
    FieldDescriptor.TYPE_SFIXED64: _text_64("int64"),
    FieldDescriptor.TYPE_UINT64: _text_64("uint64"),
    FieldDescriptor.TYPE_FIXED64: _text_64("uint64"),
}
_WELL_KNOWN: dict[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.Empty": {"type": "object"},
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array", "items": {}},
    "google.protobuf.Any": {
        "type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"],
        "additionalProperties": True,
    },
}  # fmt: skip
_WRAPPER = "google.protobuf."
_WRAPPER_END = "Value"


class Schemas:
    """The schemas of one document.

    Args:
        comments: What describes them.
    """

    def __init__(self, comments: Comments) -> None:
        self._comments = comments
        self._names: dict[str, str] = {}
        self.made: dict[str, Schema] = {}

    def of_message(self, descriptor: Any) -> Schema:
        """Returns what stands for a message: a reference to its schema, which is made on the way."""
        known = _WELL_KNOWN.get(descriptor.full_name)
        if known is not None:
            return dict(known)
        if descriptor.full_name.startswith(_WRAPPER) and descriptor.name.endswith(_WRAPPER_END):
            return dict(_SCALARS[descriptor.fields_by_name["value"].type])
        name = self._name(descriptor)
        if name not in self.made:
            self.made[name] = {}  # before its fields, which may refer to it
            self.made[name] = self._message(descriptor)
        return {"$ref": f"#/components/schemas/{name}"}

    def of_field(self, field: FieldDescriptor) -> Schema:
        """Returns the schema of a field with its description."""
        described = self._described(field.full_name)
        if is_map(field):
            value = self._one(message_of(field).fields_by_name["value"])
            return {"type": "object", "additionalProperties": value} | described
        if field.is_repeated:
            return {"type": "array", "items": self._one(field)} | described
        return self._one(field) | described

    def _one(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            return self._enum(field.enum_type)
        return dict(_SCALARS[field.type])

    def _message(self, descriptor: Descriptor) -> Schema:
        properties = {field.json_name: self.of_field(field) for field in descriptor.fields}
        return {"type": "object", **self._described(descriptor.full_name), "properties": properties}

    def _enum(self, descriptor: EnumDescriptor) -> Schema:
        name = self._name(descriptor)
        if name not in self.made:
            values = [value.name for value in descriptor.values]
            said = [self._comments.get(descriptor.full_name, "")]
            told = ((value, self._comments.get(f"{descriptor.full_name}.{value}", "")) for value in values)
            said += ["\n".join(f"- `{value}`: {text}" for value, text in told if text)]
            described = {"description": "\n\n".join(filter(None, said))} if any(said) else {}
            self.made[name] = {"type": "string", "enum": values, **described}
        return {"$ref": f"#/components/schemas/{name}"}

    def _described(self, full_name: str) -> Schema:
        text = self._comments.get(full_name)
        return {"description": text} if text else {}

    def _name(self, descriptor: Descriptor | EnumDescriptor) -> str:
        """Returns a name without the package, unless another package has it too."""
        package = descriptor.file.package
        short = descriptor.full_name.removeprefix(f"{package}." if package else "")
        owner = self._names.setdefault(short, descriptor.full_name)
        return short if owner == descriptor.full_name else descriptor.full_name
