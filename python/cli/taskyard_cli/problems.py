"""What is wrong with a file, each thing at its place, in sentences for the person who wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 20
"""Most problems that are told at once."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text.

    Attributes:
        line: From 1.
        column: From 1.
    """

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        mark: Where; None when it is the file as a whole.
        path: Which field, for example `steps.join.priority`; empty when it is no field.
        message: A sentence: the value, the rule, the way out.
    """

    mark: Mark | None
    path: str
    message: str

    def told(self, file: str) -> str:
        """Returns it as one line that editors can jump to."""
        place = f"{file}:{self.mark.line}:{self.mark.column}" if self.mark else file
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class BadFile(Exception):
    """A file is not what it should be.

    Attributes:
        file: Its name as the user gave it.
        problems: At least one.
    """

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = list(problems)
        lines = [problem.told(file) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            lines.append(f"{file}: and {len(self.problems) - SHOWN} more")
        super().__init__("\n".join(lines))
