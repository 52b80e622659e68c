"""Tags, the words that tasks and runs are found by: their stored form, which can be searched as text."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = "\n"
"""Before, between and after the tags, so that each is found whole. No tag contains it."""


def dump_tags(tags: Iterable[str]) -> str | None:
    """Returns the stored form; None for no tags."""
    text = SEPARATOR.join(tags)
    return f"{SEPARATOR}{text}{SEPARATOR}" if text else None


def load_tags(text: str | None) -> list[str]:
    """Reads the stored form."""
    return text[1:-1].split(SEPARATOR) if text else []


def stored_tag(tag: str) -> str:
    """Returns what the stored form contains if, and only if, it has the tag."""
    return f"{SEPARATOR}{tag}{SEPARATOR}"
