"""JSON at the door: what is taken, what is refused, and that nothing else happens."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.json_text import NotJson

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(values, st.sampled_from(["", " ", "\n\t "]))
def test_what_is_json_is_read_as_the_standard_library_reads_it(value: object, blank: str) -> None:
    text = blank + json.dumps(value) + blank
    assert json_text.parse(text, whole_characters=False) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("{", "line 1, column 2"),
        ("{} {}", "Extra data"),
        ("{'a': 1}", "double quotes"),
        ("NaN", "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "beyond what a floating-point number holds"),
        ('{"a": "\x01"}', "Invalid control character"),
        ('{"a": "\0"}', "Invalid control character"),
        ("9" * 5_000, "4300 digits"),
        ("[" * 200 + "]" * 200, "nested deeper than 100"),
        ("[" * 100_000, "nested deeper than 100"),
        ('{"a":' * 150 + "1" + "}" * 150, "nested deeper than 100"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(NotJson) as refused:
        json_text.parse(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 800


def test_a_hundred_levels_are_allowed_and_no_more() -> None:
    assert json_text.parse("[" * 100 + "]" * 100)
    with pytest.raises(NotJson):
        json_text.parse("[" * 101 + "]" * 101)
    wide = json.dumps([[1]] * 5_000)
    assert json_text.parse(wide) == json.loads(wide)


def test_escapes_of_nul_and_whole_pairs_are_taken() -> None:
    assert json_text.parse('"\\u0000"') == "\0"
    assert json_text.parse('"\\ud83d\\ude42"') == "🙂"
    assert json_text.parse('"\\ud800"', whole_characters=False) == "\ud800"


def test_an_object_is_asked_for() -> None:
    assert json_text.parse_object('{"a": 1}') == {"a": 1}
    for text in ("[1]", "1", "null", '"a"'):
        with pytest.raises(NotJson, match="no object"):
            json_text.parse_object(text)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_flat_maps_are_written_as_json_in_the_order_of_their_keys(texts: dict[str, str]) -> None:
    text = json_text.dump_texts(texts)
    if not texts:
        assert text == ""
        return
    assert json.loads(text) == texts
    assert list(json.loads(text)) == sorted(texts)
    assert "\0" not in text


@given(st.text(max_size=40), st.integers(0, 100))
def test_a_size_is_counted_in_bytes(text: str, limit: int) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert json_text.size(text) == size
    assert json_text.exceeds(text, limit) == (size > limit)


@given(st.floats())
def test_no_float_is_written_that_is_no_json(value: float) -> None:
    if math.isfinite(value):
        assert json.loads(json_text.dump(value)) == value
    else:
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_text.dump(value)
