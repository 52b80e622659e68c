"""Reads the template language from text, once, from left to right, in linear time.

    text       = { literal | "$${" (a literal "${") | "${" reference "}" }
    reference  = ("inputs" | "steps" | "run" | "trigger" | "vars") { "." word | "[" index "]" | "[" string "]" }
               | "secret:" name
    word       = letters, digits and "_"      index = digits      name = letters, digits and "_-./"
    string     = in single or double quotes; a backslash stands before a quote or a backslash

Blanks are allowed after `${` and before `}`. A `$` before anything else is a `$`.
"""

from __future__ import annotations

import re
from typing import NoReturn

from taskyard_core.templates.errors import TemplateError
from taskyard_core.templates.references import (
    INPUTS,
    ROOTS,
    RUN,
    RUN_FIELDS,
    SECRET,
    STEP_FIELDS,
    STEPS,
    TRIGGER,
    TRIGGER_FIELDS,
    VARS,
    Reference,
    Segment,
)
from taskyard_core.violations import cut, suggestion

PATH_LIMIT = 100
"""Segments of one reference."""
INDEX_LIMIT = 10_000_000

_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"[0-9]+")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_BLANKS = " \t\r\n"
_FIELDS = {STEPS: STEP_FIELDS, RUN: RUN_FIELDS, TRIGGER: TRIGGER_FIELDS}
_MEANT = {
    STEPS: 'name a step and its output: ${steps.a.output} or ${steps["a-b"].output.c}',
    RUN: "write " + ", ".join(f"${{run.{field}}}" for field in RUN_FIELDS[:-1]) + f" or ${{run.{RUN_FIELDS[-1]}}}",
    TRIGGER: "write ${trigger.time}",
}


def parse(source: str, where: str) -> list[str | Reference]:
    """Return the literal texts (escapes undone, none empty, no two in a row) and references of a template.

    Args:
        source: The template.
        where: Path of the field that holds it, for errors.

    Raises:
        TemplateError: The source does not follow the language.
    """
    parts: list[str | Reference] = []
    literal: list[str] = []
    at = 0
    while (found := source.find("${", at)) >= 0:
        if found > at and source[found - 1] == "$":
            literal.append(source[at : found - 1] + "${")
            at = found + 2
            continue
        literal.append(source[at:found])
        if text := "".join(literal):
            parts.append(text)
        literal.clear()
        reader = _ReferenceReader(source, where, found)
        parts.append(reader.read())
        at = reader.at
    literal.append(source[at:])
    if text := "".join(literal):
        parts.append(text)
    return parts


def escape(text: str) -> str:
    """Return a template that renders as exactly `text`."""
    return text.replace("${", "$${")


class _ReferenceReader:
    """Reads one reference; `at` is where reading goes on."""

    def __init__(self, source: str, where: str, start: int) -> None:
        self.source = source
        self.where = where
        self.start = start
        self.at = start + 2

    def read(self) -> Reference:
        self.skip_blanks()
        root_at = self.at
        root = self.match(_WORD)
        if root == SECRET:
            reference = self.secret()
        elif root in ROOTS:
            reference = Reference(root, self.path(), self.start)
            self.check_fields(reference)
        else:
            self.at = root_at
            self.fail_root(root)
        self.skip_blanks()
        if not self.take("}"):
            self.fail_end()
        return reference

    def secret(self) -> Reference:
        if not self.take(":"):
            self.fail("after 'secret' a ':' and a name are expected, as in ${secret:name}")
        name = self.match(_SECRET_NAME)
        if not name:
            self.fail("here a secret's name is expected: letters, digits, '_', '-', '.' and '/'")
        return Reference(SECRET, (name,), self.start)

    def path(self) -> tuple[Segment, ...]:
        segments: list[Segment] = []
        while True:
            if self.take("."):
                segments.append(self.word())
            elif self.take("["):
                segments.append(self.bracket())
            else:
                return tuple(segments)
            if len(segments) > PATH_LIMIT:
                self.fail(f"the reference has more than {PATH_LIMIT} parts; pass flatter values")

    def word(self) -> str:
        word = self.match(_WORD)
        if not word:
            self.fail("after '.' a name of letters, digits and '_' is expected; any other goes in [\"...\"]")
        return word

    def bracket(self) -> Segment:
        quote = self.source[self.at : self.at + 1]
        segment = self.string(quote) if quote in ('"', "'") else self.index()
        if not self.take("]"):
            self.fail("here a ']' is expected")
        return segment

    def index(self) -> int:
        digits = self.match(_DIGITS)
        if not digits:
            self.fail("after '[' an index from 0 or a quoted name is expected, as in [0] or [\"a-b\"]")
        if len(digits) > len(str(INDEX_LIMIT)) or int(digits) > INDEX_LIMIT:
            self.fail(f"the index {cut(digits, 20)} is above {INDEX_LIMIT}; no list is that long")
        return int(digits)

    def string(self, quote: str) -> str:
        opened = self.at
        self.at += 1
        pieces: list[str] = []
        while not self.take(quote):
            if piece := self.match(_PLAIN[quote]):
                pieces.append(piece)
            elif self.take("\\"):
                pieces.append(self.escaped())
            else:
                self.at = opened
                self.fail(f"the quoted name has no end; close it with {quote}")
        return "".join(pieces)

    def escaped(self) -> str:
        character = self.source[self.at : self.at + 1]
        if character not in ('"', "'", "\\"):
            self.fail("after a backslash a quote or a backslash is expected; write a backslash as two")
        self.at += 1
        return character

    def check_fields(self, reference: Reference) -> None:
        """Check the part of the path that the language itself knows."""
        root, path = reference.root, reference.path
        if root == INPUTS:
            if path and not isinstance(path[0], str):
                self.fail("an input has a name, not a number: write ${inputs.name}")
            return
        if root == VARS:
            if not path or not isinstance(path[0], str):
                self.fail("a variable is named after 'vars': write ${vars.name}")
            return
        place = 1 if root == STEPS else 0
        if len(path) <= place or any(not isinstance(segment, str) for segment in path[: place + 1]):
            self.fail(f"'{reference.text()}' is incomplete; {_MEANT[root]}")
        fields = _FIELDS[root]
        name = str(path[place])
        if name not in fields:
            hint = suggestion(name, fields)
            self.fail(f"'{reference.text(place)}' has no field {cut(name)}; {_MEANT[root]}.{hint}")
        if root != STEPS and len(path) > 1:
            self.fail(f"'{reference.text(1)}' is one value and has no parts; {_MEANT[root]}")

    def fail_root(self, root: str) -> NoReturn:
        known = ", ".join(ROOTS)
        if not root:
            self.fail(f"after '${{' one of {known} is expected; write $${{ for a literal ${{")
        hint = suggestion(root, ROOTS)
        self.fail(f"{cut(root)} is unknown; a template begins with one of {known}.{hint}")

    def fail_end(self) -> NoReturn:
        if self.at == len(self.source):
            self.at = self.start
            self.fail("the template has no end; close it with '}', or write $${ for a literal ${")
        wrong = self.source[self.at]
        way = 'a name with other characters goes in ["..."]' if wrong not in _BLANKS else "remove the blank"
        self.fail(f"here '.', '[' or '}}' is expected, not {wrong!r}; {way}")

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.source, self.at)
        if not found:
            return ""
        self.at = found.end()
        return found.group()

    def take(self, text: str) -> bool:
        taken = self.source.startswith(text, self.at)
        self.at += len(text) if taken else 0
        return taken

    def skip_blanks(self) -> None:
        while self.source[self.at : self.at + 1] in _BLANKS and self.at < len(self.source):
            self.at += 1

    def fail(self, sentence: str) -> NoReturn:
        raise TemplateError(self.where, self.source, self.at, sentence)
