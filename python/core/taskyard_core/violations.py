"""What is wrong with an input, said so that a person can mend it: field, value, rule, way out.

Not for faults of a task or of the machinery: only for input that is refused at the door.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

QUOTE_LIMIT = 200
"""Characters of a user's value that an error repeats (gRPC trailers are small)."""

SUGGESTION_POOL_LIMIT = 2_000
"""Above so many candidates no similar name is looked for: comparing costs too much."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that one field of an input breaks.

    Attributes:
        field: Path of the field in the input, as in `steps[3].depends_on[0]`.
        description: A sentence that names the value, the rule and the way out.
    """

    field: str
    description: str


class CoreError(Exception):
    """Root of every exception that taskyard_core raises on purpose."""


class InvalidInput(CoreError):
    """The input breaks at least one rule; `violations` lists each with its field."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations: list[Violation] = list(violations)
        if not self.violations:
            raise ValueError("InvalidInput needs at least one violation")
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations[:3]))


class LocatedError(InvalidInput):
    """A text in one of our small languages is wrong at one place.

    Attributes:
        field: Path of the field that holds the text.
        source: The whole text.
        position: Offset of the first wrong character in `source`, counted from 0.
        sentence: The rule and the way out.
    """

    def __init__(self, field: str, source: str, position: int, sentence: str) -> None:
        self.field = field
        self.source = source
        self.position = position
        self.sentence = sentence
        description = f"{excerpt(source, position)}, character {position + 1}: {sentence}"
        super().__init__([Violation(field, description)])


def cut(value: object, limit: int = QUOTE_LIMIT) -> str:
    """Quote a value for an error: printable, in quotes when it is text, at most `limit` characters."""
    if isinstance(value, str):
        shown = repr(value[:limit])
        return shown if len(value) <= limit else f"{shown}... ({len(value)} characters)"
    bounded = reprlib.Repr()  # a plain repr fails on a value as deep as an attacker likes
    bounded.maxlevel = 3
    bounded.maxlist = bounded.maxtuple = bounded.maxdict = bounded.maxset = 20
    bounded.maxstring = bounded.maxother = bounded.maxlong = limit
    shown = bounded.repr(value)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


def excerpt(source: str, position: int, limit: int = QUOTE_LIMIT) -> str:
    """Quote at most `limit` characters of `source` around `position`, with dots where it was cut."""
    start = max(0, min(position - limit // 2, len(source) - limit))
    end = start + limit
    return f"{'...' if start else ''}{source[start:end]!r}{'...' if end < len(source) else ''}"


def suggestion(word: str, candidates: Collection[str]) -> str:
    """Return `" Did you mean 'x'?"` for the candidate most like `word`, or nothing when none is near."""
    if len(candidates) > SUGGESTION_POOL_LIMIT or len(word) > QUOTE_LIMIT:
        return ""
    near = difflib.get_close_matches(word, candidates, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
