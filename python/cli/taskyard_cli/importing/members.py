"""Takes values out of a JSON document and notes, with its path, each that is not what it should be.

What is noted is replaced by something harmless, so that all faults of a document are found at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from taskyard_cli.problems import Problem
from taskyard_cli.workflows.yaml_source import Path, dotted

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"), (dict, "an object"), (list, "a list"), (str, "a text"), ((int, float), "a number"),
)  # fmt: skip
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_SHOWN = 60


def shown(value: Any) -> str:
    """Returns a value as a message shows it: in JSON's notation, short, and harmless for a terminal."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(value)
    except RecursionError:  # what could just be read can be too deep to be written
        text = "{…}" if isinstance(value, dict) else "[…]"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


class Members:
    """Looks into one document.

    Attributes:
        problems: What was found so far.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(self, path: Path, message: str) -> None:
        """Notes that something is wrong."""
        self.problems.append(Problem(None, dotted(path), message))

    def object(self, owner: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Returns the object at the end of the path, a member of `owner`."""
        value = self._value(owner, path, dict)
        return value if isinstance(value, dict) else {}

    def objects(
        self, owner: Mapping[str, Any], path: Path, *, required: bool = True
    ) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yields the objects of a list with their paths."""
        for at, value in enumerate(self._items(owner, path, required)):
            if isinstance(value, dict):
                yield (*path, at), value
            else:
                self._wrong((*path, at), value, dict)

    def text(self, owner: Mapping[str, Any], path: Path) -> str:
        """Returns a text that is not empty."""
        value = self._value(owner, path, str)
        if value == "":
            self.note(path, "is empty; give a text")
        return self._storable(value, path) if isinstance(value, str) else ""

    def texts(self, owner: Mapping[str, Any], path: Path, *, required: bool = True) -> tuple[str, ...]:
        """Returns a list of texts."""
        found = []
        for at, value in enumerate(self._items(owner, path, required)):
            if isinstance(value, str):
                found.append(self._storable(value, (*path, at)))
            else:
                self._wrong((*path, at), value, str)
        return tuple(found)

    def amount(self, owner: Mapping[str, Any], path: Path) -> float:
        """Returns a number from 0."""
        value = self._value(owner, path, (int, float))
        if not isinstance(value, int | float):
            return 0.0
        if not 0 <= value <= 1e300:  # a JSON number can be larger than any float
            self.note(path, f"{shown(value)} is {'negative' if value < 0 else 'too large'}; give a number from 0")
            return 0.0
        return value

    def count(self, owner: Mapping[str, Any], path: Path) -> int:
        """Returns a whole number from 0."""
        value = self.amount(owner, path)
        if value != int(value):
            self.note(path, f"{shown(value)} is no whole number; give one")
        return int(value)

    def _value(self, owner: Mapping[str, Any], path: Path, kind: type | tuple[type, ...]) -> Any:
        """Returns the member, or None when it is absent or of another kind."""
        if path[-1] not in owner:
            self.note(path, f"is missing; {_kind_name(kind)} goes here")
            return None
        value = owner[str(path[-1])]
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        self._wrong(path, value, kind)
        return None

    def _items(self, owner: Mapping[str, Any], path: Path, required: bool) -> list[Any]:
        value = self._value(owner, path, list) if required or path[-1] in owner else None
        return value if isinstance(value, list) else []

    def _wrong(self, path: Path, value: Any, kind: type | tuple[type, ...]) -> None:
        found = next((name for each, name in _KINDS if isinstance(value, each)), "nothing")
        self.note(path, f"{shown(value)} is {found}; {_kind_name(kind)} goes here")

    def _storable(self, text: str, path: Path) -> str:
        if wrong := _NO_TEXT.search(text):
            self.note(path, f"{shown(text)} contains U+{ord(wrong[0]):04X}, which no text may; remove it")
        return text


def _kind_name(kind: type | tuple[type, ...]) -> str:
    return next(name for each, name in _KINDS if each == kind)
