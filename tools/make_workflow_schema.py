"""Writes the JSON Schema of workflow files from proto/: structure from the descriptors, rules and texts from comments.

Not a build step: the result is checked in, and `--check` fails when it is not what proto/ gives.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from generate import ROOT, include_paths, our_protos
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from written import settle

from taskyard_cli.durations import HOW, PATTERN
from taskyard_cli.workflows.shape import (
    INPUT_KEYS,
    REQUIRED,
    fields_of,
    holds_json,
    identity,
    is_map,
    key_of,
    words_of,
)

TARGET = ROOT / "python" / "cli" / "taskyard_cli" / "workflows" / "workflow.schema.json"
ROOT_MESSAGE = "taskyard.v1.Workflow"
ANY_JSON: dict[str, Any] = {}
NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: "integer",
    FieldDescriptor.CPPTYPE_INT64: "integer",
    FieldDescriptor.CPPTYPE_DOUBLE: "number",
}

_NUMBER = r"([0-9][0-9,]*)"
RANGE = re.compile(rf"Range: {_NUMBER} to {_NUMBER}\.|{_NUMBER} \(first\) to {_NUMBER} \(last\)")
LENGTH = re.compile(rf"^{_NUMBER} to {_NUMBER} characters")
AT_MOST = re.compile(rf"At most {_NUMBER} characters")
IDENTIFIER = re.compile(rf"^{_NUMBER} to {_NUMBER} letters, digits, `_`, `-`, `\.`")
COUNT = re.compile(rf"^{_NUMBER} to {_NUMBER} ")


def descriptor_set() -> FileDescriptorSet:
    """Returns the contract's descriptors with its comments.

    Raises:
        SystemExit: protoc refused a file; it has said why on stderr.
    """
    with tempfile.TemporaryDirectory(prefix="taskyard-schema-") as scratch:
        image = Path(scratch) / "image.binpb"
        includes = [f"-I{path}" for path in include_paths()]
        options = ["--include_source_info", "--include_imports", f"--descriptor_set_out={image}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *includes, *options, *our_protos()]
        done = subprocess.run(command, check=False)
        if done.returncode:
            raise SystemExit(f"protoc failed on proto/ (exit code {done.returncode})")
        return FileDescriptorSet.FromString(image.read_bytes())


def comments_of(file: FileDescriptorProto) -> dict[str, str]:
    """Returns the comment of each message, field and enum value of a file by full name, as one line."""
    named: dict[tuple[int, ...], str] = {}
    for at, message in enumerate(file.message_type):
        named[4, at] = message.name
        named |= {(4, at, 2, number): f"{message.name}.{field.name}" for number, field in enumerate(message.field)}
    for at, enum in enumerate(file.enum_type):
        named |= {(5, at, 2, number): f"{enum.name}.{value.name}" for number, value in enumerate(enum.value)}
    return {
        f"{file.package}.{named[tuple(location.path)]}": " ".join(location.leading_comments.split())
        for location in file.source_code_info.location
        if tuple(location.path) in named
    }


class Schema:
    """Makes the schema.

    Args:
        comments: By full name.
    """

    def __init__(self, comments: dict[str, str]) -> None:
        self._comments = comments
        self._defs: dict[str, Any] = {}

    def of(self, root: Descriptor) -> dict[str, Any]:
        """Returns the schema whose top is this message."""
        top = self._message(root)
        head = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Taskyard workflow",
        }
        return head | top | {"$defs": dict(sorted(self._defs.items()))}

    def _comment(self, full_name: str) -> str:
        return self._comments[full_name]

    def _message(self, message: Descriptor) -> dict[str, Any]:
        made: dict[str, Any] = {
            "description": self._comment(message.full_name),
            "type": "object",
            "properties": {key_of(field): self._field(field) for field in fields_of(message)},
            "additionalProperties": False,
        }
        if message.name in REQUIRED:
            made["required"] = REQUIRED[message.name]
        if message.name == "WorkflowStep":
            made["properties"]["selector"] = {
                "description": "Short for `placement: {selector: ...}`.",
                "type": "string",
            }
        return made

    def _ref(self, message: Descriptor) -> dict[str, Any]:
        if message.name not in self._defs:
            self._defs[message.name] = {}
            self._defs[message.name] = self._message(message)
        return {"$ref": f"#/$defs/{message.name}"}

    def _field(self, field: FieldDescriptor) -> dict[str, Any]:
        comment = self._comment(field.full_name)
        described = {"description": comment}
        if identity(field) == "Workflow.inputs" and field.message_type is not None:
            return described | self._inputs(field.message_type)
        if is_map(field):
            return described | {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
        if field.is_repeated:
            return described | {"type": "array", "items": self._single(field, "")} | counts(comment)
        return described | self._single(field, comment)

    def _single(self, field: FieldDescriptor, comment: str) -> dict[str, Any]:
        if holds_json(field):
            return {"type": "object"} if "a JSON object" in comment else ANY_JSON
        if field.enum_type is not None:
            return self._words(field.enum_type, comment)
        if field.message_type is not None:
            if field.message_type.full_name == "google.protobuf.Duration":
                self._defs["Duration"] = {"description": f"A duration; {HOW}.", "type": "string", "pattern": PATTERN}
                return {"$ref": "#/$defs/Duration"}
            return self._ref(field.message_type)
        if field.cpp_type in NUMBERS:
            return {"type": NUMBERS[field.cpp_type]} | ranges(comment)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return {"type": "boolean"}
        return {"type": "string"} | lengths(comment)

    def _words(self, enum: EnumDescriptor, comment: str) -> dict[str, Any]:
        names = {value.number: value.name for value in enum.values}
        words = words_of(enum)
        texts = [f"`{word}`: {self._comment(f'{enum.full_name}.{names[at]}')}" for word, at in words.items()]
        return {"enum": list(words), "description": " ".join([comment, *texts])}

    def _inputs(self, message: Descriptor) -> dict[str, Any]:
        """Returns the schema of inputs: a list, or a mapping from name to default or to what it says of itself."""
        whole = self._message(message)
        name = whole["properties"]["name"]
        about = {key: whole["properties"][key] for key in INPUT_KEYS}
        self._defs["WorkflowInput"] = whole | {"type": ["object", "string"]}
        return {
            "type": ["array", "object"],
            "items": {"$ref": "#/$defs/WorkflowInput"},
            "propertyNames": {"pattern": name["pattern"]},
            "additionalProperties": {
                "description": "Its default, or nothing, or a mapping of type, default and description.",
                "type": ["string", "number", "boolean", "null", "array", "object"],
                "properties": about,
                "additionalProperties": False,
            },
        }


def number(text: str) -> int:
    """Returns a number that is written with thousands' commas."""
    return int(text.replace(",", ""))


def ranges(comment: str) -> dict[str, int]:
    """Returns the bounds of a number as its comment says them."""
    found = RANGE.search(comment)
    if found is None:
        return {}
    low, high = (number(text) for text in found.groups() if text)
    return {"minimum": low, "maximum": high}


def lengths(comment: str) -> dict[str, Any]:
    """Returns the rule of a text as its comment says it."""
    if found := IDENTIFIER.search(comment):
        return {"pattern": f"^[A-Za-z0-9_.-]{{{found[1]},{found[2]}}}$"}
    if found := LENGTH.search(comment):
        return {"minLength": number(found[1]), "maxLength": number(found[2])}
    if found := AT_MOST.search(comment):
        return {"maxLength": number(found[1])}
    return {}


def counts(comment: str) -> dict[str, int]:
    """Returns the bounds of a list's length as its comment says them."""
    found = COUNT.search(comment)
    return {"minItems": number(found[1]), "maxItems": number(found[2])} if found else {}


def schema_text() -> str:
    """Returns the schema as the file has it."""
    image = descriptor_set()
    pool = DescriptorPool()
    comments: dict[str, str] = {}
    for file in image.file:
        pool.Add(file)
        comments |= comments_of(file)
    made = Schema(comments).of(pool.FindMessageTypeByName(ROOT_MESSAGE))
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the schema, or with --check only compares; returns the exit code."""
    return settle({TARGET: schema_text()}, "make_workflow_schema.py")


if __name__ == "__main__":
    sys.exit(main())
