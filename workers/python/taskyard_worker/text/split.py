"""The operation `split`: chunks of bounded length that end where sentences end, each a slice of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taskyard_worker.text.errors import TextInputError
from taskyard_worker.text.options import Integer
from taskyard_worker.text.sentences import segments, skip_space, trim_space
from taskyard_worker.text.source import source
from taskyard_worker.text.tables import tables

MAX_CHARS = Integer("max_chars", 16, 1_000_000)
OVERLAP = Integer("overlap", 0, 500_000)
_ZERO_WIDTH_JOINER = "\u200d"
_EXTENDS = "MFI"

Span = tuple[int, int]


def split(text: str, *, max_chars: object = 1000, overlap: object = 0) -> list[dict[str, int | str]]:
    """Returns the text in chunks, each `{"start", "end", "text"}` with `text` = the slice from start to end.

    Args:
        text: any string.
        max_chars: the longest chunk, in code points.
        overlap: how many code points of whole sentences a chunk may repeat from the one before; at most half
            of max_chars, which keeps the output within a few times the input.

    Raises:
        TextInputError: an argument is not what it must be.
    """
    limit = MAX_CHARS.read(max_chars)
    repeat = OVERLAP.read(overlap)
    if 2 * repeat > limit:
        rule = f"must be at most half of max_chars, which is {limit}"
        raise TextInputError("overlap", overlap, rule, f"Give at most {limit // 2}, or a larger max_chars.")
    whole = source(text)
    pieces = list(_pieces(whole, limit))
    spans = _chunks(pieces, limit, repeat)
    return [{"start": start, "end": end, "text": whole[start:end]} for start, end in spans]


def _pieces(text: str, limit: int) -> Iterator[Span]:
    """Yields the segments of the text, the too long ones broken."""
    classes = tables().classes(text)
    for segment in segments(text, classes, tables()):
        yield from broken(text, classes, (segment.start, segment.end), limit)


def broken(text: str, classes: str, span: Span, limit: int) -> Iterator[Span]:
    """Yields a span in parts of at most limit code points, cut at white space where there is any."""
    start, end = span
    while end - start > limit:
        space = max(classes.rfind(code, start + 1, start + limit + 1) for code in "SRN")
        if space > 0:
            yield start, trim_space(classes, start, space)
            start = skip_space(classes, space, end)
        else:
            cut = _between_characters(text, classes, start, start + limit)
            yield start, cut
            start = cut
    yield start, end


def _between_characters(text: str, classes: str, start: int, cut: int) -> int:
    """Returns the cut, moved back if it can be so that it parts no character from its marks."""
    at = cut
    while at > start and (classes[at] in _EXTENDS or text[at - 1] == _ZERO_WIDTH_JOINER):
        at -= 1
    return at if at > start else cut


def _chunks(pieces: Sequence[Span], limit: int, overlap: int) -> Iterator[Span]:
    """Packs whole pieces greedily; each chunk has at least one piece that no earlier one had."""
    first = fresh = 0
    while fresh < len(pieces):
        after = fresh + 1
        while after < len(pieces) and pieces[after][1] - pieces[first][0] <= limit:
            after += 1
        yield pieces[first][0], pieces[after - 1][1]
        if after < len(pieces):
            first = _overlap_from(pieces, fresh, after, limit, overlap)
        fresh = after


def _overlap_from(pieces: Sequence[Span], fresh: int, after: int, limit: int, overlap: int) -> int:
    """Returns the next chunk's first piece: as far back as overlap and limit allow, never past `fresh`."""
    end_of_chunk, end_of_next = pieces[after - 1][1], pieces[after][1]
    first = after
    while first > fresh:
        start = pieces[first - 1][0]
        if end_of_chunk - start > overlap or end_of_next - start > limit:
            break
        first -= 1
    return first
