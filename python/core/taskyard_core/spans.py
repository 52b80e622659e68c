"""Spans of time in words for people: what is reckoned in milliseconds is said in what they think in."""

from __future__ import annotations

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_LONG = 2 * _DAY
"""From here on days are what counts."""


def span(ms: float) -> str:
    """Returns a span in its two largest units: `12 ms`, `54.1 s`, `3 min 5 s`, `1 h`, `2 h 10 min`, `3 d 4 h`."""
    if ms < _SECOND:
        return f"{ms:.0f} ms"
    if ms < _MINUTE - 50:
        return f"{ms / _SECOND:.1f}".removesuffix(".0") + " s"
    if ms < _HOUR - 500:
        return _two(ms, _MINUTE, "min", _SECOND, "s")
    if ms < _LONG:
        return _two(ms, _HOUR, "h", _MINUTE, "min")
    return _two(ms, _DAY, "d", _HOUR, "h")


def _two(ms: float, large: int, large_name: str, small: int, small_name: str) -> str:
    count, rest = divmod(round(ms / small), large // small)
    return f"{count} {large_name}" + (f" {rest} {small_name}" if rest else "")
