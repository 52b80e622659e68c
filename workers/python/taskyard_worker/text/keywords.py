"""The operation `keywords`: the terms that a text repeats most. Counting only; no corpus, no model."""

from __future__ import annotations

from collections import Counter

from taskyard_worker.text.clean import clean
from taskyard_worker.text.decimals import thousandths
from taskyard_worker.text.options import Integer
from taskyard_worker.text.tables import tables
from taskyard_worker.text.tokens import Reading, terms

TOP_K = Integer("top_k", 1, 1000)


def keywords(text: str, *, top_k: object = 10) -> list[dict[str, int | str]]:
    """Returns the most frequent terms of the cleaned text, each `{"keyword", "count", "share"}`.

    Args:
        text: any string.
        top_k: at most how many.

    Raises:
        TextInputError: an argument is not what it must be.
    """
    wanted = TOP_K.read(top_k)
    counts = Counter(terms(Reading.of(clean(text), tables()), tables()))
    total = counts.total()
    # The sort is stable and a Counter keeps the order of first occurrence, which is therefore the tie-break.
    ranked = sorted(counts.items(), key=lambda entry: -entry[1])[:wanted]
    return [{"keyword": term, "count": count, "share": thousandths(count, total)} for term, count in ranked]
