"""How an option of a text operation is read and bounded. Not the operations, and not where input comes from.

Task inputs arrive as JSON (where a whole number may be 3.0) or as string parameters: both are taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from taskyard_worker.text.errors import TextInputError

_DIGITS_READ = 18


@dataclass(frozen=True)
class Integer:
    """A whole-number option with its bounds, both inclusive."""

    name: str
    minimum: int
    maximum: int

    def read(self, value: object) -> int:
        """Returns the value as a number within the bounds.

        Raises:
            TextInputError: it is no whole number, or out of bounds.
        """
        number = _whole(value)
        if number is None or not self.minimum <= number <= self.maximum:
            rule = f"must be a whole number from {self.minimum} to {self.maximum}"
            raise TextInputError(self.name, value, rule, "Give one in that range, or leave it out.")
        return number


@dataclass(frozen=True)
class Flag:
    """A yes-or-no option."""

    name: str

    def read(self, value: object) -> bool:
        """Returns the value as a truth value.

        Raises:
            TextInputError: it is neither a JSON boolean nor the string "true" or "false".
        """
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise TextInputError(self.name, value, "must be true or false", "Give one of the two, or leave it out.")


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS_READ:
        return int(value)
    return None
