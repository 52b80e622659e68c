"""The two kinds of lists: by time of creation, and by name. What a page token means is in `ingress.pages`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskyard_core.records import Row
from taskyard_scheduler.ingress.pages import Page, read_page

NEWEST_FIRST = "create_time desc"
OLDEST_FIRST = "create_time"


class ListRequest(Protocol):
    """What every list call asks."""

    page_size: int
    page_token: str
    filter: str
    order_by: str


@dataclass(frozen=True, slots=True)
class TimePage:
    """A page of rows by id, which is the order of creation."""

    page: Page
    size: int
    after: str | None
    newest_first: bool

    def next_token(self, rows: Sequence[Row], columns: Sequence[str]) -> str:
        """Returns the next page's token when one row more than the page was found."""
        if len(rows) <= self.size:
            return ""
        return self.page.next_token(rows[self.size - 1][columns.index("id")])


def read_time_page(request: ListRequest, what: str) -> TimePage:
    """Reads the page of a list by time.

    Raises:
        InvalidInput: a field breaks its rule.
    """
    page = read_page(
        request.page_size,
        request.page_token,
        request.order_by,
        orders=(NEWEST_FIRST, OLDEST_FIRST),
        scope=f"{what}\0{request.filter}",
    )
    return TimePage(page, page.size, page.after, page.descending)


@dataclass(frozen=True, slots=True)
class NamePage:
    """A page of things by name."""

    page: Page
    size: int
    after: str

    def next_token(self, found: int, last: str) -> str:
        """Returns the next page's token when more was found than the page holds; `last` is the page's last name."""
        return self.page.next_token(last) if found > self.size else ""


def read_name_page(request: ListRequest, order: str, what: str) -> NamePage:
    """Reads the page of a list by name.

    Raises:
        InvalidInput: a field breaks its rule.
    """
    page = read_page(
        request.page_size, request.page_token, request.order_by, orders=(order,), scope=f"{what}\0{request.filter}"
    )
    return NamePage(page, page.size, page.after or "")
