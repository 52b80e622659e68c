"""Label selectors: which workers may run a task, by the labels that they carry. Not about capabilities.

The language: requirements joined by commas, all of which must hold. `lang=java` (or `==`), `model!=x`,
`zone in (a,b)`, `zone notin (a,b)`, `gpu` (the label exists), `!spot` (it does not). As in Kubernetes, `!=`
and `notin` also hold for a worker without the label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from taskyard_core.violations import LocatedError, cut

KEY_LIMIT = 128
VALUE_LIMIT = 128
SOURCE_LIMIT = 4_096
"""Characters of a whole selector."""

_KEY = re.compile(r"[A-Za-z0-9_./-]+")
_VALUE = re.compile(r"[A-Za-z0-9_./:@+-]*")
_SPACE = re.compile(r"[ \t]*")
_OPERATOR = re.compile(r"==|=|!=|(?:in|notin)(?=[ \t(])")


class SelectorError(LocatedError):
    """A selector does not follow its language."""


class Operator(StrEnum):
    """How a requirement looks at a label."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on one label.

    Attributes:
        key: The label's name.
        operator: How it is looked at.
        values: For IN and NOT_IN the values named, sorted, each once; else empty.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet this condition."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        return (value is None) == (self.operator is Operator.NOT_EXISTS)

    def __str__(self) -> str:
        """Return the condition in its canonical form."""
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.NOT_EXISTS:
            return f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator is Operator.IN else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector. Equal selectors have equal canonical text, whatever order they were written in.

    Attributes:
        requirements: The conditions, sorted, each once; none matches every worker.
        text: The canonical form, which `parse` takes back; empty for none.
    """

    requirements: tuple[Requirement, ...] = ()
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the canonical text."""
        object.__setattr__(self, "text", ",".join(map(str, self.requirements)))

    @classmethod
    def parse(cls, source: str, where: str = "selector") -> Selector:
        """Parse a selector; an empty or blank one matches every worker.

        Args:
            source: The selector, at most 4,096 characters.
            where: Path of the field that holds it, for the error.

        Raises:
            SelectorError: It does not follow the language; the error says where, and what would.
        """
        if len(source) > SOURCE_LIMIT:
            sentence = f"the selector is longer than {SOURCE_LIMIT} characters; shorten it"
            raise SelectorError(where, source, SOURCE_LIMIT, sentence)
        found = _Parser(source, where).requirements()
        return cls(tuple(sorted(set(found))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a worker with these labels meets every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def unmet(self, labels: Mapping[str, str]) -> list[Requirement]:
        """Return the requirements that these labels do not meet, to explain why a worker is no candidate."""
        return [requirement for requirement in self.requirements if not requirement.matches(labels)]

    def __str__(self) -> str:
        """Return the canonical text."""
        return self.text


def check_label(key: str, value: str) -> str | None:
    """Return what is wrong with a worker's label, or None: only what a selector can name is a label."""
    if not _KEY.fullmatch(key) or len(key) > KEY_LIMIT:
        letters = "ASCII letters, digits, '_', '-', '.' or '/'"
        return f"{cut(key)} cannot name a label; use 1 to {KEY_LIMIT} {letters}"
    if not _VALUE.fullmatch(value) or len(value) > VALUE_LIMIT:
        letters = "ASCII letters, digits, '_', '-', '.', '/', ':', '@' or '+'"
        return f"{cut(value)} cannot be the value of label {key!r}; use at most {VALUE_LIMIT} {letters}"
    return None


class _Parser:
    """Reads a selector from left to right; every error knows its place."""

    def __init__(self, source: str, where: str) -> None:
        self.source = source
        self.where = where
        self.at = 0

    def requirements(self) -> list[Requirement]:
        self.space()
        found: list[Requirement] = []
        while self.at < len(self.source) or found:
            found.append(self.requirement())
            if self.at == len(self.source):
                break
            if not self.take(","):
                self.fail("here a ',' or the end is expected; join requirements with ','")
            self.space()
        return found

    def requirement(self) -> Requirement:
        if self.take("!"):
            self.space()
            return Requirement(self.key(), Operator.NOT_EXISTS)
        key = self.key()
        operator = _OPERATOR.match(self.source, self.at)
        if operator is None:
            return Requirement(key, Operator.EXISTS)
        self.at = operator.end()
        self.space()
        if operator.group() in ("in", "notin"):
            return Requirement(key, Operator(operator.group()), self.values())
        negative = operator.group() == "!="
        return Requirement(key, Operator.NOT_IN if negative else Operator.IN, (self.value(),))

    def key(self) -> str:
        return self.word(_KEY, KEY_LIMIT, "a label's name (letters, digits, '_', '-', '.', '/')")

    def value(self) -> str:
        return self.word(_VALUE, VALUE_LIMIT, "a value")

    def values(self) -> tuple[str, ...]:
        if not self.take("("):
            self.fail("after 'in' and 'notin' a list is expected, as in '(a,b)'")
        found: set[str] = set()
        while True:
            self.space()
            found.add(self.value())
            if self.take(")"):
                self.space()
                return tuple(sorted(found))
            if not self.take(","):
                self.fail("here a ',' or ')' is expected; values are letters, digits and '_-./:@+'")

    def word(self, pattern: re.Pattern[str], limit: int, what: str) -> str:
        found = pattern.match(self.source, self.at)
        if found is None:
            self.fail(f"here {what} is expected")
        if len(found.group()) > limit:
            self.fail(f"{cut(found.group(), 40)} is longer than {limit} characters; shorten it")
        self.at = found.end()
        self.space()
        return found.group()

    def take(self, text: str) -> bool:
        taken = self.source.startswith(text, self.at)
        self.at += len(text) if taken else 0
        return taken

    def space(self) -> None:
        found = _SPACE.match(self.source, self.at)
        self.at = found.end() if found else self.at

    def fail(self, sentence: str) -> NoReturn:
        raise SelectorError(self.where, self.source, self.at, sentence)
