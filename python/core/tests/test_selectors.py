"""Selectors: their language, its canonical form, matching against a model, and located errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.selectors import Operator, Requirement, Selector, SelectorError, check_label

KEYS = st.sampled_from(["gpu", "zone", "in", "notin", "a.b/c-d"])
VALUES = st.sampled_from(["", "a", "b", "eu-1", "x:y@z+1"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(Operator))
    listed = operator in (Operator.IN, Operator.NOT_IN)
    values = draw(st.sets(VALUES, min_size=1)) if listed else ()
    return Requirement(draw(KEYS), operator, tuple(sorted(values)))


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    present = requirement.key in labels
    listed = present and labels[requirement.key] in requirement.values
    return {
        Operator.EXISTS: present,
        Operator.NOT_EXISTS: not present,
        Operator.IN: listed,
        Operator.NOT_IN: not listed,
    }[requirement.operator]


@given(st.lists(requirements(), max_size=5), LABELS)
def test_canonical_text_parses_back_and_matching_follows_the_words(
    wanted: list[Requirement], labels: dict[str, str]
) -> None:
    selector = Selector.parse(",".join(map(str, wanted)))
    assert set(selector.requirements) == set(wanted)
    assert Selector.parse(selector.text) == selector
    assert hash(Selector.parse(selector.text)) == hash(selector)
    assert selector.matches(labels) == all(holds(requirement, labels) for requirement in wanted)
    assert selector.unmet(labels) == sorted(r for r in set(wanted) if not holds(r, labels))


@pytest.mark.parametrize(
    ("source", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("lang=java,model!=x,zone in (a,b),gpu,!spot", "!spot,gpu,lang=java,model!=x,zone in (a,b)"),
        (" zone  in ( b , a,b ) , ! spot ", "!spot,zone in (a,b)"),
        ("zone in(a)", "zone=a"),
        ("zone notin (a)", "zone!=a"),
        ("lang == java", "lang=java"),
        ("index,notinuse", "index,notinuse"),
        ("empty=", "empty="),
        ("in in (in)", "in=in"),
        ("a,a", "a"),
    ],
)
def test_the_canonical_form(source: str, canonical: str) -> None:
    selector = Selector.parse(source)
    assert sorted(selector.text.split(",")) == sorted(canonical.split(","))
    assert Selector.parse(canonical) == selector
    assert str(selector) == selector.text


@pytest.mark.parametrize(
    ("source", "position", "said"),
    [
        (",a", 0, "label's name"),
        ("a,", 2, "label's name"),
        ("a b", 2, "','"),
        ("zone in a", 8, "list"),
        ("zone in (a", 10, "')'"),
        ("zone in (a b)", 11, "')'"),
        ("a=b=c", 3, "','"),
        ("a=é", 2, "','"),
        ("!", 1, "label's name"),
        ("\0", 0, "label's name"),
        ("k" * 129, 0, "128"),
        ("a=" + "v" * 129, 2, "128"),
        ("a," * 3_000, 4_096, "4096"),
    ],
)
def test_an_error_is_located_and_explained(source: str, position: int, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.parse(source, "steps[0].selector")
    assert caught.value.position == position
    assert said in caught.value.sentence
    assert caught.value.violations[0].field == "steps[0].selector"


@given(st.text(st.sampled_from("ab=!,() \tin\0é"), max_size=30))
def test_any_text_is_parsed_or_refused_with_its_place(source: str) -> None:
    place = place_of_error(source)
    if place is None:
        selector = Selector.parse(source)
        assert Selector.parse(selector.text) == selector
    else:
        assert 0 <= place <= len(source)


def place_of_error(source: str) -> int | None:
    try:
        Selector.parse(source)
    except SelectorError as error:
        return error.position
    return None


@pytest.mark.parametrize(("key", "value"), [("", "a"), ("a b", "c"), ("k" * 129, ""), ("a", "b c"), ("a", "v" * 129)])
def test_a_label_that_no_selector_could_name_is_refused(key: str, value: str) -> None:
    assert check_label(key, value)


def test_a_good_label_is_accepted() -> None:
    assert check_label("example.org/zone", "eu-1") is None
    assert check_label("gpu", "") is None
