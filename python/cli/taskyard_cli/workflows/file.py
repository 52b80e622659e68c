"""Reads a workflow file into the contract's message, and finds the place in the file of what the scheduler says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from taskyard.v1.workflows_pb2 import Workflow, WorkflowInput, WorkflowStep
from taskyard_cli.durations import parse_duration
from taskyard_cli.problems import BadFile, Problem
from taskyard_cli.workflows.needs import unknown_needs
from taskyard_cli.workflows.rules import broken_rules, field_name, in_order
from taskyard_cli.workflows.shape import INPUT_KEYS, fields_of, holds_json, is_map, key_of, words_of
from taskyard_cli.workflows.yaml_source import Document, Path, read_yaml
from taskyard_client import Violation

_FILE_KEYS = {field.name: key_of(field) for field in WorkflowStep.DESCRIPTOR.fields if field.name != key_of(field)}
"""Fields of a step that a file calls otherwise, and how."""

_HEAD = re.compile(r"\w+")


def read_workflow(file: str, data: bytes | None = None) -> tuple[Workflow, Document]:
    """Reads a workflow file.

    Args:
        file: Its path, for messages as well.
        data: Its content; None: read it from `file`.

    Raises:
        BadFile: It cannot be read, is no YAML, or breaks the schema; each problem with its place.
    """
    if data is None:
        try:
            data = FilePath(file).read_bytes()
        except OSError as error:
            raise BadFile(file, [Problem(None, "", f"cannot be read: {error.strerror}")]) from None
    document = read_yaml(data, file)
    problems = broken_rules(document)
    if problems:
        raise BadFile(file, in_order([*problems, *unknown_needs(document)]))
    builder = _Builder(document)
    workflow = Workflow()
    builder.fill(workflow, document.value, ())
    if builder.problems:
        raise BadFile(file, builder.problems)
    return workflow, document


class _Builder:
    """Fills messages from values that the schema has let through."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append(Problem(self._document.mark(path), field_name(self._document, path), message))

    def fill(self, message: Message, value: dict[str, Any], path: Path) -> None:
        for field in fields_of(message.DESCRIPTOR):
            key = key_of(field)
            if key in value:
                self._set(message, field, value[key], (*path, key))
        if isinstance(message, WorkflowStep) and "selector" in value:
            if message.placement.selector:
                self._problem((*path, "selector"), "is given in `placement` as well; keep one of them")
            message.placement.selector = value["selector"]

    def _set(self, message: Message, field: FieldDescriptor, value: Any, path: Path) -> None:
        target = getattr(message, field.name)
        if holds_json(field):
            setattr(message, field.name, self._json(value, path))
        elif isinstance(message, Workflow) and field.name == "inputs":
            message.inputs.extend(self._inputs(value, path))
        elif is_map(field):
            target.update({key: self._text(text, (*path, key)) for key, text in value.items()})
        elif field.is_repeated and field.message_type is not None:
            for at, item in enumerate(value):
                self.fill(target.add(), item, (*path, at))
        elif field.is_repeated:
            target.extend(value)
        elif isinstance(target, Duration):
            self._duration(target, value, path)
        elif field.message_type is not None:
            target.SetInParent()
            self.fill(target, value, path)
        else:
            setattr(message, field.name, words_of(field.enum_type)[value] if field.enum_type else value)

    def _json(self, value: Any, path: Path) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def _text(self, value: Any, path: Path) -> str:
        return value if isinstance(value, str) else self._document.texts[path]

    def _duration(self, target: Duration, value: str, path: Path) -> None:
        try:
            target.FromTimedelta(parse_duration(value))
        except ValueError as error:
            self._problem(path, str(error))

    def _inputs(self, value: Any, path: Path) -> list[WorkflowInput]:
        if isinstance(value, dict):
            return [self._named_input(name, about, (*path, name)) for name, about in value.items()]
        made = []
        for at, item in enumerate(value):
            entry = WorkflowInput()
            self.fill(entry, {"name": item} if isinstance(item, str) else item, (*path, at))
            made.append(entry)
        return made

    def _named_input(self, name: str, about: Any, path: Path) -> WorkflowInput:
        entry = WorkflowInput(name=name)
        if isinstance(about, dict):
            self.fill(entry, {key: about[key] for key in INPUT_KEYS if key in about}, path)
        elif about is not None:
            entry.default_json = self._json(about, path)
        return entry


def located(document: Document, violations: Sequence[Violation]) -> BadFile:
    """Returns what the scheduler says of a workflow as problems of the file."""
    return BadFile(document.file, [_problem(document, each) for each in violations])


def _problem(document: Document, violation: Violation) -> Problem:
    path, rest, value = _find(document.value, violation.field)
    head = None if isinstance(value, list) else _HEAD.match(rest)
    if head is not None:  # a field that the file does not have
        key = _FILE_KEYS.get(head[0], head[0].removesuffix("_json"))
        rest = key + rest[head.end() :]
    joint = "." if path and rest and rest[0] != "[" else ""
    return Problem(document.mark(path), field_name(document, path) + joint + rest, violation.description)


def _find(value: Any, field: str) -> tuple[Path, str, Any]:
    """Returns the path in the file of a field of the contract as far as it goes, the rest of it, and what is there."""
    rest = field.removeprefix("workflow.")
    found: Path = ()
    while rest:
        part, below, left = _step(value, rest)
        if part is None:
            break
        found, value, rest = (*found, part), below, left
    return found, rest, value


def _step(value: Any, rest: str) -> tuple[str | int | None, Any, str]:
    if isinstance(value, list):
        if numbered := re.match(r"\[(\d+)\]\.?", rest):
            at = int(numbered[1])
            return (at, value[at], rest[numbered.end() :]) if at < len(value) else (None, None, "")
        labels = {at: _label(item) for at, item in enumerate(value)}
        fitting = [at for at, label in labels.items() if label and _begins(rest, label)]
        if not fitting:
            return None, None, ""
        at = max(fitting, key=lambda each: len(labels[each]))
        return at, value[at], rest[len(labels[at]) :].lstrip(".")
    if not isinstance(value, dict):
        return None, None, ""
    keys = {**{f"{key}_json": key for key in value}, **{key: key for key in value}}
    keys |= {name: key for name, key in _FILE_KEYS.items() if key in value and name not in value}
    fitting_keys = [name for name in keys if _begins(rest, name)]
    if not fitting_keys:
        return None, None, ""
    name = max(fitting_keys, key=len)
    return keys[name], value[keys[name]], rest[len(name) :].lstrip(".")


def _label(item: Any) -> str:
    if isinstance(item, str):
        return item
    label = item.get("id", item.get("name", "")) if isinstance(item, dict) else ""
    return label if isinstance(label, str) else ""


def _begins(rest: str, name: str) -> bool:
    return rest.startswith(name) and rest[len(name) : len(name) + 1] in {"", ".", "["}
