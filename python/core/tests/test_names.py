"""Names, step ids and texts: what is accepted, a sentence for what is not, quoted with a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.names import check_name, check_step_id, check_text
from taskyard_core.violations import InvalidInput, LocatedError, Violation, cut, excerpt, suggestion


@pytest.mark.parametrize("good", ["a", "a.b-c_D9", "x" * 128, "-", "9"])
def test_good_step_ids(good: str) -> None:
    assert check_step_id(good) is None


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("", "empty"),
        ("x" * 129, "128"),
        ("a b", "' '"),
        ("é", "'é'"),
        ("a\n", r"'\n'"),
        ("😀", "😀"),
        ("a\0", r"'\x00'"),
    ],
)
def test_bad_step_ids_are_explained(bad: str, said: str) -> None:
    assert said in (check_step_id(bad) or "")


@pytest.mark.parametrize("good", ["a", "report for Émile", "语言参考", "👩‍🚀 launch", "x" * 200, "😀" * 200, "a/b:c"])
def test_good_names(good: str) -> None:
    assert check_name(good) is None


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("", "empty"),
        ("x" * 201, "200"),
        ("a\0b", "U+0000"),
        ("a\tb", "U+0009"),
        ("a\x7f", "U+007F"),
        ("a\x85b", "U+0085"),
        ("a\u2028b", "U+2028"),
        ("a\ud800", "U+D800"),
        ("a ", "white space"),
        ("\u3000a", "white space"),
    ],
)
def test_bad_names_are_explained(bad: str, said: str) -> None:
    assert said in (check_name(bad) or "")


def test_text_may_hold_anything_that_utf8_and_every_database_can() -> None:
    assert check_text("") is None
    assert check_text("line\nline\t\x1b 😀 语言") is None
    assert "U+0000" in (check_text("ab\0") or "")
    assert "character 3" in (check_text("ab\0") or "")
    assert "U+DC00" in (check_text("é\udc00") or "")
    assert "character 2" in (check_text("é\udc00") or "")


@given(st.text(st.characters(exclude_categories=[])))
def test_an_accepted_text_has_a_utf8_form_and_a_refusal_has_one_too(text: str) -> None:
    said = check_text(text)
    if said is None:
        assert b"\0" not in text.encode()
    for sentence in (said, check_name(text), check_step_id(text)):
        assert sentence is None or sentence.encode()


@given(st.text(st.characters(exclude_categories=[]), max_size=500))
def test_a_quoted_value_is_printable_and_bounded(text: str) -> None:
    shown = cut(text, 20)
    assert shown.isprintable()
    assert len(shown) <= 20 * 10 + 40


def test_other_values_are_cut_too() -> None:
    assert cut([1] * 1_000, 10) == "[1, 1, 1, ..."
    assert cut(5) == "5"
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert cut(deep) == "[[[[...]]]]"
    while deep:  # dismantled by hand: freeing so deep a value recurses in C
        deep = deep.pop()  # type: ignore[assignment]


def test_an_excerpt_shows_the_place() -> None:
    assert excerpt("short", 2) == "'short'"
    shown = excerpt("a" * 500 + "!" + "b" * 500, 500)
    assert "a!b" in shown
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert len(shown) < 220


def test_a_suggestion_is_near_or_absent() -> None:
    assert suggestion("extarct", ["extract", "load"]) == " Did you mean 'extract'?"
    assert suggestion("zzz", ["extract", "load"]) == ""
    assert suggestion("step-1", [f"step-{n}" for n in range(3_000)]) == ""


def test_errors_carry_their_violations() -> None:
    plain = InvalidInput([Violation("name", "is empty; give it one")])
    located = LocatedError("input.a", "${x", 0, "has no end; close it with }")
    assert str(plain) == "name: is empty; give it one"
    assert located.violations == [Violation("input.a", "'${x', character 1: has no end; close it with }")]
    with pytest.raises(ValueError, match="at least one"):
        InvalidInput([])
