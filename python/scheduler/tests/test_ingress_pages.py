"""Pages of lists at the door: sizes, orders and tokens, also spoiled ones."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.pages import Page, _mark, read_page
from taskyard_scheduler.services.log_calls import _after
from taskyard_scheduler.services.paging import read_name_page, read_time_page
from taskyard_service.errors import InvalidArgument

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


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50))
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


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 256, "😀" * 256])
def test_a_forged_token_whose_key_no_list_can_have_is_refused(key: str) -> None:
    token = Page(1, None, descending=True, scope=read().scope).next_token(key)
    assert field_of(token=token) == "page_token"


def test_a_forged_token_of_bytes_that_are_no_text_is_refused() -> None:
    data = b"\xff\xfe"
    token = base64.urlsafe_b64encode(_mark(data, read().scope) + data).decode()
    assert field_of(token=token) == "page_token"


@dataclass
class Asked:
    """A list call."""

    page_token: str
    page_size: int = 0
    filter: str = ""
    order_by: str = ""


@given(token=st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.binary(max_size=60).map(lambda data: (
    base64.urlsafe_b64encode(data).decode()
)), key=st.text(st.characters(exclude_categories=["Cs"]), max_size=300), forge=st.booleans())  # fmt: skip
def test_every_list_takes_or_refuses_any_token(token: str, key: str, forge: bool) -> None:
    for what in ("tasks", "runs"):
        scope = read_time_page(Asked(""), what).page
        with suppress(InvalidInput):
            page = read_time_page(Asked(scope.next_token(key) if forge else token), what)
            assert page.after is None or 0 < len(page.after) <= 255
    for what, order in (
        ("workflows", "name"),
        ("workers", "worker_id"),
        ("queues", "task_type"),
        ("definitions", "name"),
    ):
        scope = read_name_page(Asked(""), order, what).page
        with suppress(InvalidInput):
            assert "\0" not in read_name_page(Asked(scope.next_token(key) if forge else token), order, what).after


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_page_of_logs_takes_or_refuses_any_token(token: str) -> None:
    with suppress(InvalidArgument):
        assert -1 <= _after(token) < 1 << 63


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_other_text_is_no_token(text: str) -> None:
    assert field_of(token=text) == "page_token"


def _decoded(token: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        return None
