"""Reads YAML as JSON values, with the place of each, and refuses what different readers take for different things.

The values are those of YAML 1.2's core schema. What YAML 1.1 reads otherwise (`no`, `012`, `1:30`) is an error that
says how to write it. Knows nothing of workflows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from taskyard_cli.problems import BadFile, Mark, Problem

MAX_BYTES = 16 << 20
"""Largest file that is read."""

MAX_DEPTH = 100
"""Deepest nesting."""

MAX_REPEATED = 100_000
"""Most values that aliases may add to those that are written."""

Path = tuple[str | int, ...]
"""Keys and indexes from the top to a value."""

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({"str", "null", "bool", "int", "float", "timestamp", "merge", "value"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_CHARACTER = "this escape is no character to YAML; write the character itself"
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """A file that was read.

    Attributes:
        file: Its name as the user gave it.
        value: What it holds: None, bool, int, float, str, list and dict with str keys.
        marks: Where each value is; for a member of a mapping, where its key is.
        texts: How each number and boolean was written.
    """

    file: str
    value: Any = None
    marks: dict[Path, Mark] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)

    def mark(self, path: Path) -> Mark | None:
        """Returns where the value is, or else what it is part of."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path)


def read_yaml(data: bytes, file: str) -> Document:
    """Reads a file's content.

    Raises:
        BadFile: It is not YAML, or not only one document, or holds what is refused here.
    """
    if len(data) > MAX_BYTES:
        raise BadFile(file, [Problem(None, "", f"has {len(data):,} bytes; at most {MAX_BYTES:,} are read")])
    return _Reader(Document(file)).read(_node(utf8_text(data, file), file))


def utf8_text(data: bytes, file: str) -> str:
    """Returns a file's content as text.

    Raises:
        BadFile: It is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BadFile(file, [Problem(Mark(line, column), "", message)]) from None


def _node(text: str, file: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
        return node
    except yaml.MarkedYAMLError as error:
        raise BadFile(file, [_syntax(error, text)]) from None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        mark = Mark(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))
        code = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
        say = f'the character U+{code:04X} may not stand in YAML; write it in double quotes as an escape ("\\x..")'
        raise BadFile(file, [Problem(mark, "", say)]) from None
    except RecursionError:
        raise BadFile(file, [Problem(None, "", f"is nested deeper than {MAX_DEPTH} levels")]) from None


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Problem:
    at = error.problem_mark or error.context_mark
    mark = Mark(at.line + 1, at.column + 1) if at else None
    lines = text.splitlines()
    line = lines[at.line] if at and at.line < len(lines) else ""
    indent = line[: len(line) - len(line.lstrip())]
    say = f"{error.problem or error.context}"
    if "\t" in indent or (at and line[at.column : at.column + 1] == "\t"):
        return Problem(mark, "", "is indented with a tab; YAML takes only spaces there")
    if "another document" in say:
        return Problem(mark, "", "a second document begins here; give each its own file")
    if "cannot start any token" in say and at:
        say = f"a plain value cannot begin with `{line[at.column : at.column + 1]}`; put it in quotes"
    if "mapping values are not allowed" in say:
        say = "a `:` stands where none can; put a text with `: ` in quotes, or check the indentation"
    if "maximum nesting depth" in say:
        say = f"is nested deeper than {MAX_DEPTH} levels"
    if "escape code" in say:
        say = _NO_CHARACTER
    if "undefined alias" in say:
        say = "this alias (`*name`) has no anchor (`&name`) above; put a text that begins with `*` in quotes"
    if error.context and error.context_mark and error.context_mark.line + 1 != (mark.line if mark else 0):
        say = f"{say} ({error.context} that begins in line {error.context_mark.line + 1})"
    return Problem(mark, "", say)


class _Reader:
    """Turns nodes into values. Every problem is noted, and the first ones are told together at the end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []
        self._seen: set[int] = set()
        self._open: list[int] = []
        self._repeated = 0

    def read(self, node: yaml.Node | None) -> Document:
        if node is None:
            self._problem(None, (), "is empty")
        else:
            self._document.value = self._value(node, (), node)
        if self._problems:
            raise BadFile(self._document.file, self._problems)
        return self._document

    def _problem(self, node: yaml.Node | None, path: Path, message: str) -> None:
        mark = _mark(node) if node is not None else None
        self._problems.append(Problem(mark, dotted(path), message))

    def _value(self, node: yaml.Node, path: Path, place: yaml.Node) -> Any:
        self._document.marks[path] = _mark(place)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if not self._enter(node, path):
            return None
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._value(item, (*path, at), item) for at, item in enumerate(node.value)]
            return {
                key: self._value(value, (*path, key), key_node) for key, key_node, value in self._members(node, path)
            }
        finally:
            self._open.pop()

    def _enter(self, node: yaml.Node, path: Path) -> bool:
        if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
            self._problem(node, path, f"the tag `{node.tag}` is not understood here; leave it out")
            return False
        if id(node) in self._open:
            self._problem(node, path, "contains itself through an alias")
            return False
        if len(self._open) >= MAX_DEPTH:
            self._problem(node, (), f"is nested deeper than {MAX_DEPTH} levels")
            return False
        if id(node) in self._seen:
            self._repeated += len(node.value)
        self._seen.add(id(node))
        if self._repeated > MAX_REPEATED:
            if not self._problems:
                say = f"aliases make more than {MAX_REPEATED:,} values of this; write it without so many"
                self._problem(node, path, say)
            return False
        self._open.append(id(node))
        return True

    def _members(self, node: yaml.Node, path: Path) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        first: dict[str, yaml.Node] = {}
        merged: list[yaml.Node] = []
        for key_node, value in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in first:
                line = first[key].start_mark.line + 1
                self._problem(key_node, (*path, key), f"`{key}` is there already, in line {line}; keep one of them")
                continue
            first[key] = key_node
            yield key, key_node, value
        for part in merged:
            yield from self._merged(part, path, first)

    def _merged(
        self, part: yaml.Node, path: Path, first: dict[str, yaml.Node]
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        if not isinstance(part, yaml.MappingNode):
            self._problem(part, path, "`<<` takes a mapping or a list of mappings")
            return
        if not self._enter(part, path):
            return
        for key, key_node, value in self._members(part, path):
            if key not in first:
                first[key] = key_node
                yield key, key_node, value
        self._open.pop()

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problem(node, path, "a key must be a text; write a template in quotes")
            return None
        if not node.style and node.tag in {f"{_TAG}bool", f"{_TAG}null"}:
            self._problem(node, path, f'the key `{node.value}` is no text; write "{node.value}" in quotes')
            return None
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text, kind = str(node.value), node.tag.removeprefix(_TAG)
        if kind not in _SCALARS:
            self._problem(node, path, f"the tag `{node.tag}` is not understood here; leave it out")
            return None
        if not text.isprintable() and _SURROGATE.search(text):  # only the pure reader lets them through
            self._problem(node, path, _NO_CHARACTER)
            return None
        if node.style:  # quoted or a block; a plain one has None, or "" when libyaml reads it
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return self._boolean(node, text, path)
        if kind in {"int", "float"} or _FLOAT.fullmatch(text):
            return self._number(node, text, path)
        return text

    def _boolean(self, node: yaml.ScalarNode, text: str, path: Path) -> bool | None:
        if text.lower() in {"true", "false"}:
            self._document.texts[path] = text
            return text.lower() == "true"
        meant = "true" if text.lower() in {"yes", "on", "y"} else "false"
        say = f'`{text}` is a boolean to some readers and a text to others; write {meant}, or "{text}" in quotes'
        self._problem(node, path, say)
        return None

    def _number(self, node: yaml.ScalarNode, text: str, path: Path) -> int | float | None:
        self._document.texts[path] = text
        if _DECIMAL.fullmatch(text):
            if len(text) <= 400:
                return int(text)
        elif _FLOAT.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9]+", text):
            number = float(text)
            if abs(number) != float("inf"):
                return number
        shown = text if len(text) <= 40 else text[:40] + "…"
        say = f"`{shown}` is not the same number to all readers; write it in decimal, or in quotes as a text"
        self._problem(node, path, say)
        return None


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def dotted(path: Path) -> str:
    """Returns a path as people write it: `steps[2].input.text`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
