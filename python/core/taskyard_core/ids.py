"""Time-ordered ids (UUID version 7 as text) and attempt tokens. Clock and randomness are the caller's.

Monotonic by RFC 9562, section 6.2, method 2 (a random start per millisecond, then random increments).
"""

from __future__ import annotations

from collections.abc import Callable

_TIME_BITS = 48
_UPPER_BITS = 26  # the 12 bits after the version and the 14 after the variant
_LOWER_BITS = 48
_LOWER_LIMIT = 1 << _LOWER_BITS


class IdSource:
    """Makes ids that strictly increase, also as text, whatever the clock does.

    The 74 bits beside the time are a counter that starts at random in each new millisecond, its top bit clear
    so that there is room to count. While the clock stands still or steps back, the last millisecond is kept
    and the counter grows by a random number. Two sources share no state: their ids differ by randomness.
    """

    __slots__ = ("_lower", "_ms", "_prefix", "_random_bits", "_upper")

    def __init__(self, random_bits: Callable[[int], int]) -> None:
        """Take the source of randomness: `random_bits(n)` returns an integer of `n` random bits."""
        self._random_bits = random_bits
        self._ms = -(1 << 63)
        self._upper = 0
        self._lower = 0
        self._prefix = ""  # everything before the lower bits, which change with each id

    def next(self, now_ms: int) -> str:
        """Return the next id, such as `018f3b5e-7c1a-7abc-9def-0123456789ab`.

        Args:
            now_ms: Unix time in milliseconds, 0 to 2**48 - 1.

        Raises:
            ValueError: `now_ms` is outside that range.
        """
        if now_ms > self._ms:
            self._start(now_ms)
        else:
            self._lower += self._random_bits(32) + 1
            if self._lower >= _LOWER_LIMIT:
                self._carry()
        return f"{self._prefix}{self._lower:012x}"

    def token(self) -> str:
        """Return 64 random bits as 16 hexadecimal digits: the proof that a result belongs to its attempt."""
        return f"{self._random_bits(64):016x}"

    def _start(self, ms: int) -> None:
        if not 0 <= ms < 1 << _TIME_BITS:
            raise ValueError(f"time {ms} ms does not fit the {_TIME_BITS} bits of an id")
        bits = self._random_bits(_UPPER_BITS + _LOWER_BITS - 1)
        self._ms = ms
        self._lower = bits & (_LOWER_LIMIT - 1)
        self._set_upper(bits >> _LOWER_BITS)

    def _carry(self) -> None:
        """Move the lower bits' overflow into the upper bits, and theirs into the time."""
        if self._upper + 1 == 1 << _UPPER_BITS:
            self._start(self._ms + 1)
        else:
            self._lower -= _LOWER_LIMIT
            self._set_upper(self._upper + 1)

    def _set_upper(self, upper: int) -> None:
        self._upper = upper
        time = f"{self._ms:012x}"
        self._prefix = f"{time[:8]}-{time[8:]}-{0x7000 | upper >> 14:x}-{0x8000 | upper & 0x3FFF:x}-"


def time_of(id_text: str) -> int:
    """Return the Unix time in milliseconds that an id carries (the latest its source had seen).

    Raises:
        ValueError: The text does not have the form of a UUID of version 7.
    """
    if len(id_text) != 36 or id_text[8] != "-" or id_text[13:15] != "-7":
        raise ValueError(f"{id_text[:40]!r} is not a UUID of version 7")
    return int(id_text[:8] + id_text[9:13], 16)
