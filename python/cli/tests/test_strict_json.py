"""JSON that all readers take for the same, and words for what they do not."""

from __future__ import annotations

import json
import re

import pytest
from cli_served import Cli, Served
from hypothesis import given
from hypothesis import strategies as st

from taskyard_cli import strict_json
from taskyard_cli.exits import Exit

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
)


@given(VALUES)
def test_what_the_standard_has_is_read(value: object) -> None:
    assert strict_json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' comes twice"),
        ('[{"x": {"": 1, "": 1}}]', "the key '' comes twice"),
        ("[NaN]", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("1" * 401, f"the number {'1' * 20}… has 401 digits; at most 400 are read"),
        ("1" * 10_000, "has 10,000 digits"),
    ],
)
def test_what_readers_differ_on_is_refused_in_words(text: str, says: str, at: Cli, served: Served) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        strict_json.loads(text)
    shown = at("submit", "x", "--input", f'{{"in": {text}}}')
    assert shown.exit_code == Exit.REFUSED
    assert says in shown.stderr
    assert served.wire.calls == []
