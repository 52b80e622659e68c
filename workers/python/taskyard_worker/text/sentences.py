"""Where the sentences of a text begin and end, for Latin and CJK punctuation. Not words, not meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from taskyard_worker.text.tables import Tables

_LONGEST_ABBREVIATION = 12

# Patterns over class letters. A line with no letter, digit or CJK character (empty, or a rule of dashes) ends
# the block of text before it.
_LINE_END = "(?:RN|R|N)"
_TEXT_LINE = f"[^LDCRN]*+[LDC][^RN]*+{_LINE_END}?+"
_BREAK_LINE = f"[^LDCRN]*+{_LINE_END}"
_BLOCK = re.compile(f"(?P<text>(?:{_TEXT_LINE})++)|(?:{_BREAK_LINE})++(?:[^LDCRN]++\\Z)?+|[^LDCRN]++\\Z")
_STOP = re.compile("(?P<run>[.ETW]++)(?P<close>[QA]*+)(?P<next>[SRNZC]|\\Z)?")
_SPOKEN = re.compile("[LC]")
_WORTH_READING = re.compile("[LDC]")
_SPACE = "SRN"
_PART_OF_WORD = "LDMFIA_"


class Segment(NamedTuple):
    """A stretch of text between white space.

    Attributes:
        start: index of its first code point.
        end: index after its last.
        sentence: whether it holds a letter, digit or CJK character; otherwise it is punctuation alone.
    """

    start: int
    end: int
    sentence: bool


def segments(text: str, classes: str, tables: Tables) -> Iterator[Segment]:
    """Yields the segments of a text, in order; only white space lies between them.

    Args:
        text: the text.
        classes: its class letters.
        tables: the tables they come from.
    """
    for block in _BLOCK.finditer(classes):
        start, end = block.span()
        if block["text"] is None:
            yield from _trimmed(classes, start, end)
            continue
        for cut in _cuts(text, classes, tables, start, end):
            yield from _trimmed(classes, start, cut)
            start = cut
        yield from _trimmed(classes, start, end)


def paragraphs(classes: str) -> int:
    """Returns how many blocks of text there are: lines with words, unbroken by a line without."""
    return sum(block["text"] is not None for block in _BLOCK.finditer(classes))


def skip_space(classes: str, start: int, end: int) -> int:
    """Returns the first index from start that is not white space, or end."""
    while start < end and classes[start] in _SPACE:
        start += 1
    return start


def trim_space(classes: str, start: int, end: int) -> int:
    """Returns end without the white space before it, start at the least."""
    while end > start and classes[end - 1] in _SPACE:
        end -= 1
    return end


def _trimmed(classes: str, start: int, end: int) -> Iterator[Segment]:
    first = skip_space(classes, start, end)
    last = trim_space(classes, first, end)
    if first < last:
        yield Segment(first, last, _WORTH_READING.search(classes, first, last) is not None)


def _cuts(text: str, classes: str, tables: Tables, start: int, end: int) -> Iterator[int]:
    """Yields where the sentences of a text block end."""
    spoken = _spoken_from(classes, start, end)
    for stop in _STOP.finditer(classes, start, end):
        if spoken > stop.start() or not _ends_sentence(stop["run"], stop["next"]):
            continue
        if stop["run"] == "." and _abbreviated(text, classes, tables, start, stop.start()):
            continue
        start = stop.end("close")
        yield start
        spoken = _spoken_from(classes, start, end)


def _spoken_from(classes: str, start: int, end: int) -> int:
    """Returns where the first letter or CJK character is: a sentence without one ("1.") does not end."""
    found = _SPOKEN.search(classes, start, end)
    return found.start() if found else end


def _ends_sentence(run: str, following: str | None) -> bool:
    if "W" in run:
        return True
    return following is not None and (following != "C" or "T" in run)


def _abbreviated(text: str, classes: str, tables: Tables, start: int, stop: int) -> bool:
    """Tells whether an abbreviation or single letters ("e.g", "J") stand right before a full stop."""
    first = stop
    while first > start and classes[first - 1] in "L." and stop - first < _LONGEST_ABBREVIATION:
        first -= 1
    if first == stop or (first > start and classes[first - 1] in _PART_OF_WORD):
        return False
    parts = classes[first:stop].split(".")
    if all(part == "L" for part in parts):
        return True
    return "." not in classes[first:stop] and text[first:stop].translate(tables.keys) in tables.abbreviations
