"""References, the things between `${` and `}`: which roots there are and what follows each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

Segment = str | int
"""A key of an object, or an index into a list (from 0)."""

INPUTS: Final = "inputs"
STEPS: Final = "steps"
RUN: Final = "run"
TRIGGER: Final = "trigger"
VARS: Final = "vars"
SECRET: Final = "secret"  # noqa: S105 - a word of the language, no secret

ROOTS: Final = (INPUTS, STEPS, RUN, TRIGGER, VARS, SECRET)
STEP_FIELDS: Final = ("output",)
ATTEMPT: Final = "attempt"
RUN_FIELDS: Final = ("id", ATTEMPT, "workflow", "version", "tenant")
TRIGGER_FIELDS: Final = ("time",)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference of a template.

    Attributes:
        root: `inputs`, `steps`, `run`, `trigger`, `vars` or `secret`.
        path: What follows the root; a secret's is its name alone.
        position: Offset in the template's source of the `$` that begins it.
    """

    root: str
    path: tuple[Segment, ...]
    position: int = 0

    @property
    def step(self) -> str | None:
        """The id of the step that it reads, if it reads one."""
        return str(self.path[0]) if self.root == STEPS else None

    @property
    def input(self) -> str | None:
        """The name of the input that it reads; None for another root or for all inputs at once."""
        return str(self.path[0]) if self.root == INPUTS and self.path else None

    @property
    def secret(self) -> str | None:
        """The name of the secret that it reads, if it reads one."""
        return str(self.path[0]) if self.root == SECRET else None

    @property
    def variable(self) -> str | None:
        """The name of the variable that it reads, if it reads one."""
        return str(self.path[0]) if self.root == VARS else None

    @property
    def of_attempt(self) -> bool:
        """Whether it reads the number of the attempt, which is known when an attempt is made and not before."""
        return self.root == RUN and self.path[0] == ATTEMPT

    def text(self, length: int | None = None) -> str:
        """Return the reference as it is written, or only its first `length` segments after the root."""
        if self.root == SECRET:
            return f"{SECRET}:{self.path[0]}"
        return self.root + "".join(map(_segment_text, self.path[:length]))


def _segment_text(segment: Segment) -> str:
    if isinstance(segment, int):
        return f"[{segment}]"
    if _WORD.fullmatch(segment):
        return f".{segment}"
    quoted = segment.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{quoted}"]'
