"""The checked-in character classes, lower-case mapping and word lists of the text operations.

Everything that depends on what a character is asks here, never the running Python's own Unicode data.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

Value = TypeVar("Value")

OTHER = "O"
CODES: Mapping[str, str] = {
    "apostrophe": "A",
    "carriage_return": "R",
    "cjk": "C",
    "closer": "Q",
    "comma": ",",
    "control": "K",
    "digit": "D",
    "ellipsis": "E",
    "format": "F",
    "full_stop": ".",
    "invisible": "I",
    "letter": "L",
    "line_end": "N",
    "low_line": "_",
    "mark": "M",
    "space": "S",
    "terminator": "T",
    "wide_terminator": "W",
    "zero_width_space": "Z",
}
"""One ASCII character for each class: a text's classes are then a string that patterns run over."""


class PerCodePoint(dict[int, Value]):
    """A `str.translate` table that asks a function once for each code point it meets."""

    def __init__(self, ask: Callable[[int], Value]) -> None:
        """Makes an empty table over the function."""
        super().__init__()
        self._ask = ask

    def __missing__(self, code: int) -> Value:
        """Asks, and keeps the answer; there are at most 1,114,112 of them."""
        value = self[code] = self._ask(code)
        return value


@dataclass(frozen=True)
class Tables:
    """All tables of one Unicode version.

    Attributes:
        unicode: the version, for example "14.0.0".
        class_codes: code point to its class's letter in `CODES`, `OTHER` when it has none.
        keys: code point to its lower-case form, with every apostrophe as U+0027.
        cleaned: code point to what `clean` makes of it: None (removed), a space, a line feed, or itself.
        stop_words: lower-case words and CJK bigrams that are never keywords.
        stop_characters: CJK characters that no keyword contains.
        abbreviations: lower-case words after which a full stop ends no sentence.
    """

    unicode: str
    class_codes: PerCodePoint[str]
    keys: PerCodePoint[int]
    cleaned: PerCodePoint[int | None]
    stop_words: frozenset[str]
    stop_characters: frozenset[str]
    abbreviations: frozenset[str]

    def classes(self, text: str) -> str:
        """Returns one class letter for each code point of the text."""
        return text.translate(self.class_codes)


@cache
def tables() -> Tables:
    """Returns the packaged tables, read once."""
    data = files("taskyard_worker.text") / "data"
    characters = json.loads((data / "character-classes.json").read_text("utf-8"))
    words = json.loads((data / "words.json").read_text("utf-8"))
    class_codes = PerCodePoint(_class_lookup(characters["classes"]))
    return Tables(
        unicode=characters["unicode"],
        class_codes=class_codes,
        keys=PerCodePoint(_key_lookup(characters["lower"], class_codes)),
        cleaned=PerCodePoint(_cleaned_lookup(class_codes)),
        stop_words=frozenset(words["stop_words"]),
        stop_characters=frozenset(words["stop_characters"]),
        abbreviations=frozenset(words["abbreviations"]),
    )


def _class_lookup(classes: Mapping[str, Iterable[tuple[int, int]]]) -> Callable[[int], str]:
    ranges = sorted((first, last, CODES[name]) for name, runs in classes.items() for first, last in runs)
    starts = [first for first, _, _ in ranges]

    def look_up(code: int) -> str:
        at = bisect_right(starts, code) - 1
        return ranges[at][2] if at >= 0 and code <= ranges[at][1] else OTHER

    return look_up


def _key_lookup(runs: Iterable[tuple[int, int, int, int]], classes: PerCodePoint[str]) -> Callable[[int], int]:
    lower = {code: code + delta for first, last, step, delta in runs for code in range(first, last + 1, step)}

    def look_up(code: int) -> int:
        return ord("'") if classes[code] == "A" else lower.get(code, code)

    return look_up


def _cleaned_lookup(classes: PerCodePoint[str]) -> Callable[[int], int | None]:
    replaced: Mapping[str, int | None] = {"K": None, "I": None, "Z": None, "S": ord(" "), "N": ord("\n")}

    def look_up(code: int) -> int | None:
        return replaced.get(classes[code], code)

    return look_up
