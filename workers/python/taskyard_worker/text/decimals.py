"""Fixed decimals out of integers, so that no runtime's float formatting shows in a result."""

from __future__ import annotations


def thousandths(numerator: int, denominator: int) -> str:
    """Returns numerator / denominator with three decimals, a tie going to the even thousandth.

    Args:
        numerator: 0 or more.
        denominator: 0 or more; a quotient by 0 is "0.000".
    """
    if denominator == 0:
        return "0.000"
    units, rest = divmod(numerator * 1000, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and units % 2 == 1):
        units += 1
    return f"{units // 1000}.{units % 1000:03d}"
