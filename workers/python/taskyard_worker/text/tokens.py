"""Words and CJK runs of a text, and the terms that keywords and summaries count. Not sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from taskyard_worker.text.tables import Tables

LONGEST_TERM = 64
"""Code points; a longer word is data (a hash, base64), not a keyword."""

# Patterns over class letters. A joiner holds a word together only between the neighbours named here.
# Possessive repeats keep both time and memory linear.
_WORD = r"[LD][LDMFI]*+(?:(?:(?<=[LM])A(?=L)|(?<=D)[.,](?=D)|(?<=[LDM])_(?=[LD]))[LDMFI]*+)*+"
_CJK_RUN = r"C[CMFI]*+"
_TOKEN = re.compile(f"(?P<word>{_WORD})|{_CJK_RUN}")
_CJK_UNIT = re.compile("C[MFI]*+")


class Token(NamedTuple):
    """A word, or a run of CJK characters.

    Attributes:
        start: index of its first code point.
        end: index after its last.
        units: for a word its key alone; for a run the key of each CJK character with its marks.
        cjk: whether it is a run.
        lettered: whether a word has a letter; a number has none.
    """

    start: int
    end: int
    units: tuple[str, ...]
    cjk: bool
    lettered: bool


@dataclass(frozen=True)
class Reading:
    """A text beside its classes and its keys, all of one length."""

    text: str
    classes: str
    keys: str

    @classmethod
    def of(cls, text: str, tables: Tables) -> Reading:
        """Reads a text through the tables."""
        return cls(text, tables.classes(text), text.translate(tables.keys))

    def key(self, start: int, end: int) -> str:
        """Returns the lower-case form of a slice without its format and invisible code points."""
        key = self.keys[start:end]
        classes = self.classes[start:end]
        if "F" not in classes and "I" not in classes:
            return key
        return "".join(char for char, code in zip(key, classes, strict=True) if code not in "FI")


def tokens(reading: Reading, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yields the tokens of a text or of a part of it, in order."""
    for match in _TOKEN.finditer(reading.classes, start, len(reading.text) if end is None else end):
        first, last = match.span()
        if match["word"] is None:
            yield Token(first, last, _units(reading, first, last), True, False)
        else:
            lettered = "L" in match["word"]
            yield Token(first, last, (reading.key(first, last),), False, lettered)


def _units(reading: Reading, start: int, end: int) -> tuple[str, ...]:
    return tuple(reading.key(*unit.span()) for unit in _CJK_UNIT.finditer(reading.classes, start, end))


def terms(reading: Reading, tables: Tables, start: int = 0, end: int | None = None) -> Iterator[str]:
    """Yields what may be a keyword, in order, once for each occurrence."""
    for token in tokens(reading, start, end):
        if token.cjk:
            yield from _cjk_terms(token.units, tables)
        elif token.lettered and 2 <= len(token.units[0]) <= LONGEST_TERM:
            if token.units[0] not in tables.stop_words:
                yield token.units[0]


def _cjk_terms(units: tuple[str, ...], tables: Tables) -> Iterator[str]:
    """Yields each two neighbours of a run, or the single character of a run of one."""
    if len(units) == 1:
        if units[0] not in tables.stop_characters and len(units[0]) <= LONGEST_TERM:
            yield units[0]
        return
    for left, right in pairwise(units):
        bigram = left + right
        stopped = left in tables.stop_characters or right in tables.stop_characters
        if not stopped and bigram not in tables.stop_words and len(bigram) <= LONGEST_TERM:
            yield bigram
