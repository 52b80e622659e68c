"""Collects what is wrong with one message, bounded, and makes of it a refusal or an error. Knows no rule."""

from __future__ import annotations

from collections.abc import Iterable

from taskyard_core.engine.events import Refused
from taskyard_core.violations import InvalidInput, Violation, cut

VIOLATIONS_LIMIT = 20
"""An answer carries no more: gRPC trailers are small."""


class Findings:
    """Violations of one message, in the order in which they were found; at most 20 are kept.

    For the items of a list `items` is the list's path; each item sets `place`, and fields begin with `items[place].`.
    Items that have a name of their own set `subject` as well, such as `step 'a'`: sentences begin with it.
    """

    __slots__ = ("_items", "place", "subject", "violations")

    def __init__(self, items: str = "") -> None:
        self._items = items
        self.place = 0
        self.subject = ""
        self.violations: list[Violation] = []

    def add(self, field: str, sentence: str | None) -> bool:
        """Takes in what is wrong with a field. Returns False for None, which means that nothing is."""
        if sentence is None:
            return False
        if not self.full:
            told = f"{self.subject}: {sentence}" if self.subject else sentence
            self.violations.append(Violation(self.path(field), told))
        return True

    def path(self, field: str) -> str:
        """Returns the whole path of a field."""
        return f"{self._items}[{self.place}].{field}" if self._items else field

    def extend(self, violations: Iterable[Violation], prefix: str = "") -> None:
        """Takes in violations whose fields lie below a path."""
        for violation in violations:
            self.add(prefix + violation.field, violation.description)

    @property
    def full(self) -> bool:
        """Whether nothing more is taken in, so that looking further is useless."""
        return len(self.violations) >= VIOLATIONS_LIMIT

    def raise_any(self) -> None:
        """Raises InvalidInput if anything was found."""
        if self.violations:
            raise InvalidInput(self.violations)

    def refusal(self) -> Refused:
        """Returns the refusal of the item that the violations are about, and starts afresh."""
        violations, self.violations = self.violations, []
        first = violations[0]
        more = len(violations) - 1
        tail = f" (and {more} more violation{'s' if more > 1 else ''})" if more else ""
        return Refused("INVALID_INPUT", f"{first.field}: {first.description}{tail}", violations)


def outside(value: float, low: float, high: float) -> str | None:
    """Checks a number against a range; NaN is outside."""
    return None if low <= value <= high else f"{cut(value)} is outside {low:,} to {high:,}; choose a value within"


def member(path: str, key: str) -> str:
    """Returns the path of a map's entry: `params.text`, or `params["a b"]` for a key that is no word."""
    return f"{path}.{key}" if key.isidentifier() and len(key) <= 60 else f"{path}[{cut(key, 60)}]"
