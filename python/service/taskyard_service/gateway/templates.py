"""Path templates of google.api.http (google/api/http.proto): read, and what a matched path gives to each variable.

Not which route a path belongs to: that is router.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ONE = "*"
"""Matches one segment."""
MANY = "**"
"""Matches all that is left; only at the end."""
_SPLIT = re.compile(r"/(?![^{]*\})")


class BadTemplate(ValueError):
    """An annotation's path template breaks the grammar; the contract is wrong, not a request."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A field that a part of the path is for.

    Attributes:
        field: Path of the field in the request, as in `workflow.name`.
        start: Number of its first segment.
        end: Number of the segment after its last one; None: all that is left.
    """

    field: str
    start: int
    end: int | None

    def value(self, segments: Sequence[str]) -> str:
        """Returns what the decoded segments of a path give to it."""
        return segments[self.start] if self.end == self.start + 1 else "/".join(segments[self.start : self.end])


@dataclass(frozen=True, slots=True)
class Template:
    """A path template.

    Attributes:
        text: As written.
        parts: For each segment its literal text, ONE or MANY.
        variables: In their order.
        verb: The custom verb after the last `:`; empty: none.
    """

    text: str
    parts: tuple[str, ...]
    variables: tuple[Variable, ...]
    verb: str


def read_template(text: str) -> Template:
    """Reads a template such as `/api/v1/tasks/{task_id}:cancel`.

    Raises:
        BadTemplate: It breaks the grammar.
    """
    path, verb = _without_verb(text)
    if not path.startswith("/"):
        raise BadTemplate(f"{text!r}: a path template begins with `/`")
    parts: list[str] = []
    variables: list[Variable] = []
    for segment in _SPLIT.split(path[1:]):
        if segment.startswith("{") and segment.endswith("}"):
            field, _, pattern = segment[1:-1].partition("=")
            inner = (pattern or ONE).split("/")
            end = None if inner[-1] == MANY else len(parts) + len(inner)
            variables.append(Variable(field, len(parts), end))
            parts += inner
        else:
            parts.append(segment)
    if any(not part or "{" in part or "}" in part for part in parts) or MANY in parts[:-1]:
        raise BadTemplate(f"{text!r}: an empty segment, a brace out of place, or `**` before the end")
    return Template(text, tuple(parts), tuple(variables), verb)


def _without_verb(text: str) -> tuple[str, str]:
    head, colon, verb = text.rpartition(":")
    return (head, verb) if colon and "/" not in verb and "}" not in verb else (text, "")
