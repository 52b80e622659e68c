"""Pages of lists at the door: sizes, orders and tokens, also spoiled ones."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.pages import Page, read_page

ORDERS = ("create_time desc", "create_time")


def read(size: int = 0, token: str = "", order: str = "", scope: str = "tasks") -> Page:
    return read_page(size, token, order, orders=ORDERS, scope=scope)


def field_of(**given: str | int) -> str:
    with pytest.raises(InvalidInput) as refused:
        read(**given)  # type: ignore[arg-type]
    return refused.value.violations[0].field


def test_defaults() -> None:
    page = read()
    assert (page.size, page.after, page.descending) == (100, None, True)
    assert not read(order="create_time").descending
    assert not read(order="create_time asc").descending
    assert read(order=" create_time   desc ").descending


@pytest.mark.parametrize(("size", "taken"), [(1, 1), (1_000, 1_000)])
def test_sizes_within_the_range_are_taken(size: int, taken: int) -> None:
    assert read(size).size == taken


@pytest.mark.parametrize("size", [-1, 1_001])
def test_sizes_outside_are_refused(size: int) -> None:
    assert field_of(size=size) == "page_size"


def test_an_unknown_order_is_refused() -> None:
    assert field_of(order="create_tim") == "order_by"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_a_token_brings_its_key_back(key: str) -> None:
    page = read()
    assert read(token=page.next_token(key)).after == key


def test_a_token_is_good_for_its_own_list_only() -> None:
    token = read().next_token("id")
    assert field_of(token=token, scope="runs") == "page_token"
    assert field_of(token=token, order="create_time") == "page_token"


@given(st.data())
def test_a_spoiled_token_is_refused_and_nothing_else_happens(data: st.DataObject) -> None:
    token = read().next_token("018f3b5e-7c1a")
    place = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("ABCxyz09-_!é="))
    spoiled = token[:place] + character + token[place + 1 :]
    if base64.urlsafe_b64decode(token + "==") == _decoded(spoiled):
        return  # the same bytes, written otherwise
    assert field_of(token=spoiled) == "page_token"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_other_text_is_no_token(text: str) -> None:
    assert field_of(token=text) == "page_token"


def _decoded(token: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return None
