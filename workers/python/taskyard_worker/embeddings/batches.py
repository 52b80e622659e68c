"""Texts in batches that are worked on at once."""

from __future__ import annotations

from collections.abc import Sequence


def batches(texts: Sequence[str], characters: int, most: int) -> list[Sequence[str]]:
    """Return the texts in their order in batches of at most `most`, which have more characters only when it is one."""
    result: list[list[str]] = []
    size = 0
    for text in texts:
        if not result or len(result[-1]) >= most or size + len(text) > characters:
            result.append([])
            size = 0
        result[-1].append(text)
        size += len(text)
    return list(result)
