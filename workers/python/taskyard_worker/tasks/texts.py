"""Texts in the input of a built-in task."""

from __future__ import annotations

from typing import Any

from taskyard_worker.errors import InvalidInput


def text_of(field: str, value: Any) -> str:
    """Return a text that says something and can be sent, or raise InvalidInput."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{field!r} must be a text that is not empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field!r} is not valid Unicode: {error.reason}") from error
    return value
