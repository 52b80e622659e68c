"""Pages of lists: size, order, and the opaque token that says where a page begins."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from taskyard_core.names import check_text
from taskyard_core.violations import cut, suggestion
from taskyard_scheduler.ingress.findings import Findings, outside

SIZE_DEFAULT: Final = 100
SIZE_LIMIT: Final = 1_000
TOKEN_LIMIT: Final = 4_096
KEY_LIMIT: Final = 255
"""Characters of the longest key that a list has: a name, an id, or a queue's type and digest."""
_CHECK: Final = 8


@dataclass(frozen=True, slots=True)
class Page:
    """Which page is asked for.

    Attributes:
        size: How many items at most.
        after: Key of the last item of the page before; None for the first page.
        descending: Whether the order is turned round.
        scope: What the list is of; a token is good for the same list only.
    """

    size: int
    after: str | None
    descending: bool
    scope: str

    def next_token(self, last: str) -> str:
        """Returns the token of the page that follows an item."""
        key = last.encode()
        return urlsafe_b64encode(_mark(key, self.scope) + key).decode().rstrip("=")


def read_page(
    page_size: int,
    page_token: str,
    order_by: str = "",
    *,
    orders: Sequence[str] = (),
    scope: str = "",
    default: int = SIZE_DEFAULT,
    limit: int = SIZE_LIMIT,
) -> Page:
    """Reads which page is asked for.

    Args:
        page_size: Items wanted; 0 for the default.
        page_token: From the page before; empty for the first.
        order_by: One of `orders`; empty for the first of them.
        orders: Orders that the list has, the default first, such as `create_time desc` and `create_time`.
        scope: Name of the list and all that selects its items, such as the filter: a token of another is refused.
        default: Items when `page_size` is 0.
        limit: Most items of a page.

    Raises:
        InvalidInput: A field breaks its rule.
    """
    findings = Findings()
    findings.add("page_size", outside(page_size, 0, limit))
    order = " ".join(order_by.split()).removesuffix(" asc")
    if order and order not in orders:
        known = ", ".join(map(repr, orders)) or "none"
        hint = suggestion(order, orders)
        findings.add("order_by", f"{cut(order_by)} is no order of this list; it has {known}.{hint}")
    order = order or (orders[0] if orders else "")
    after = None
    scope = f"{scope}\0{order}"
    if page_token:
        after = _read_token(page_token, scope)
        if after is None:
            sentence = f"{cut(page_token, 60)} is no token of this list, filter and order; start from the first page"
            findings.add("page_token", sentence)
    findings.raise_any()
    return Page(page_size or default, after, order.endswith(" desc"), scope)


def _mark(key: bytes, scope: str) -> bytes:
    return blake2b(key, digest_size=_CHECK, key=blake2b(scope.encode(), digest_size=32).digest()).digest()


def _read_token(token: str, scope: str) -> str | None:
    """Returns the key of a token; None when it is none of ours. Its mark keeps off mistakes, not who means to forge it.

    So the key is looked at as well; a forged one that could be a key begins a page where its maker wants it to.
    """
    if len(token) > TOKEN_LIMIT or not token.isascii():
        return None
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        key = data[_CHECK:].decode()
    except (NotBase64, UnicodeDecodeError):
        return None
    if data[:_CHECK] != _mark(data[_CHECK:], scope) or not 0 < len(key) <= KEY_LIMIT or check_text(key):
        return None
    return key
