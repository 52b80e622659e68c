"""Segments, tokens and chunks against a model of docs/text-operations.md that steps by single code points.

The model is slow and plain on purpose: it shares the tables with the library and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_worker.text import split
from taskyard_worker.text.sentences import segments
from taskyard_worker.text.tables import tables
from taskyard_worker.text.tokens import Reading, tokens

PARTS = [
    *"abZe.J,'_ \n\r\t\u2028\u0085!?\u2026\u3002\uff01\u201d\"\u2019)(1\u0661\u4e2d\u56fd\u306e",
    *"\uff0e-*\u200b\u200d\u00ad\u0301\u0000",
    *[
        "Dr",
        "mr",
        "e.g",
        "\r\n",
        "...",
        "\u2026\u2026",
        "word",
        "\u5929\u6c14",
        "3.14",
        "\U0001f600",
        "\ufe0f",
    ],
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
Span = tuple[int, int]
WHITE = "SRN"


def lines(classes: str) -> Iterator[Span]:
    start = at = 0
    while at < len(classes):
        at += 1
        if classes[at - 1] in "RN":
            if classes[at - 1] == "R" and classes[at : at + 1] == "N":
                at += 1
            yield start, at
            start = at
    if start < len(classes):
        yield start, len(classes)


def blocks(classes: str) -> list[tuple[int, int, bool]]:
    found: list[tuple[int, int, bool]] = []
    for start, end in lines(classes):
        has_words = any(code in "LDC" for code in classes[start:end])
        if found and found[-1][2] == has_words:
            found[-1] = (found[-1][0], end, has_words)
        else:
            found.append((start, end, has_words))
    return found


def abbreviated(text: str, classes: str, start: int, stop: int) -> bool:
    back = stop
    while back > start and stop - back < 12 and classes[back - 1] in ("L", "."):
        back -= 1
    passed = text[back:stop].translate(tables().keys)
    if not passed or (back > start and classes[back - 1] in "LDMFIA_"):
        return False
    singles = all((code == "L") == (place % 2 == 0) for place, code in enumerate(classes[back:stop]))
    return (singles and len(passed) % 2 == 1) or passed in tables().abbreviations


def cuts(text: str, classes: str, block: Span) -> Iterator[int]:
    start, end = block
    at = start
    while at < end:
        if classes[at] not in ".ETW":
            at += 1
            continue
        stop = at
        while at < end and classes[at] in ".ETW":
            at += 1
        run = classes[stop:at]
        while at < end and classes[at] in "QA":
            at += 1
        follows = classes[at] if at < end else "end"
        spoken = any(code in "LC" for code in classes[start:stop])
        ends = "W" in run or follows in ("S", "R", "N", "Z", "end") or ("T" in run and follows == "C")
        if spoken and ends and not (run == "." and abbreviated(text, classes, start, stop)):
            yield at
            start = at


def model_segments(text: str, classes: str) -> Iterator[tuple[int, int, bool]]:
    for start, end, has_words in blocks(classes):
        edges = [start, *(cuts(text, classes, (start, end)) if has_words else ()), end]
        for first, last in pairwise(edges):
            inside = [at for at in range(first, last) if classes[at] not in WHITE]
            if inside:
                span = inside[0], inside[-1] + 1
                yield *span, any(code in "LDC" for code in classes[slice(*span)])


def joins(classes: str, at: int) -> bool:
    if at + 1 >= len(classes):
        return False
    left, joiner, right = classes[at - 1], classes[at], classes[at + 1]
    return (
        (joiner == "A" and left in "LM" and right == "L")
        or (joiner in ".," and left == right == "D")
        or (joiner == "_" and left in "LDM" and right in "LD")
    )


def run_end(classes: str, start: int, goes_on: Callable[[int], bool]) -> int:
    at = start + 1
    while at < len(classes) and goes_on(at):
        at += 1
    return at


def model_tokens(classes: str) -> Iterator[Span]:
    at = 0
    while at < len(classes):
        start = at
        if classes[at] in "LD":
            at = run_end(classes, at, lambda here: classes[here] in "LDMFI" or joins(classes, here))
        elif classes[at] == "C":
            at = run_end(classes, at, lambda here: classes[here] in "CMFI")
        else:
            at += 1
            continue
        yield start, at


def model_pieces(text: str, limit: int) -> Iterator[Span]:
    classes = tables().classes(text)
    for first, end, _ in model_segments(text, classes):
        start = first
        while end - start > limit:
            gaps = [at for at in range(start + 1, start + limit + 1) if classes[at] in WHITE]
            cut = gaps[-1] if gaps else start + limit
            while not gaps and cut > start and (classes[cut] in "MFI" or text[cut - 1] == "\u200d"):
                cut -= 1
            cut = cut if cut > start else start + limit
            yield start, max(at for at in range(start, cut) if classes[at] not in WHITE) + 1
            start = next(at for at in range(cut, end) if classes[at] not in WHITE)
        yield start, end


def model_chunks(text: str, limit: int, overlap: int) -> Iterator[Span]:
    pieces = list(model_pieces(text, limit))
    first = new = 0
    while new < len(pieces):
        fits = [at for at in range(new, len(pieces)) if pieces[at][1] - pieces[first][0] <= limit]
        last = max(fits)
        yield pieces[first][0], pieces[last][1]
        if last + 1 == len(pieces):
            return
        able = [
            at
            for at in range(new, last + 1)
            if pieces[last][1] - pieces[at][0] <= overlap and pieces[last + 1][1] - pieces[at][0] <= limit
        ]
        first, new = min([*able, last + 1]), last + 1


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_segments(text: str) -> None:
    classes = tables().classes(text)
    assert [tuple(found) for found in segments(text, classes, tables())] == list(model_segments(text, classes))


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_tokens(text: str) -> None:
    reading = Reading.of(text, tables())
    assert [(token.start, token.end) for token in tokens(reading)] == list(model_tokens(reading.classes))


@given(TEXTS, st.integers(16, 40), st.integers(0, 20))
@settings(max_examples=600, deadline=None)
def test_chunks(text: str, limit: int, overlap: int) -> None:
    repeat = min(overlap, limit // 2)
    chunks = split(text, max_chars=limit, overlap=repeat)
    assert [(chunk["start"], chunk["end"]) for chunk in chunks] == list(model_chunks(text, limit, repeat))
