"""Durations as people write them: `30s`, `1h30m`, `500ms`, `PT1H30M`."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

PATTERN = (
    r"^([0-9]+(\.[0-9]+)?(d|h|m|s|ms))+$"
    r"|^P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$"
)
"""What is a duration, as a regular expression of JSON Schema."""

HOW = "write a duration with its unit, for example 30s, 5m, 1h30m, 500ms or PT1H30M"

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhmsDHMS])")
_SECONDS = {
    "d": Decimal(86_400), "h": Decimal(3_600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001"),
}  # fmt: skip


def parse_duration(text: str) -> timedelta:
    """Returns the duration.

    Raises:
        ValueError: The text is none; its message says how to write one.
    """
    if not re.fullmatch(PATTERN, text) or len(text) > 40:
        raise ValueError(f"`{text[:40]}` is no duration; {HOW}")
    total = sum((Decimal(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(text)), Decimal(0))
    try:
        return timedelta(microseconds=int(total * 1_000_000))
    except OverflowError:
        raise ValueError(f"`{text[:40]}` is too long; at most 30 days are taken") from None


def show_duration(span: timedelta) -> str:
    """Returns it as a file has it: `1h30m`, `250ms`, `0s`."""
    left = round(span / timedelta(milliseconds=1))
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def show_seconds(seconds: float) -> str:
    """Returns a measured time for people: `12 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
