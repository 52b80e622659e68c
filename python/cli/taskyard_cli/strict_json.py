"""Reads JSON as the standard has it: no NaN, no key twice, no number so long that readers differ on it."""

from __future__ import annotations

import json
from typing import Any

MAX_DIGITS = 400
"""Most digits of a whole number; no float holds more before its point."""


def loads(text: str) -> Any:
    """Returns the value.

    Raises:
        json.JSONDecodeError: It is no JSON; says where.
        ValueError: It is JSON that different readers take for different things; its message says what.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_int=_whole, parse_constant=_refuse_constant, object_pairs_hook=_no_doubles)


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {text[:20]}… has {len(text):,} digits; at most {MAX_DIGITS} are read")
    return int(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _no_doubles(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        keys = [key for key, _ in members]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice")
    return found
