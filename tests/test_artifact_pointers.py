"""The pointer rule from end to end: what a template makes of a path, whoever reads it finds at that path."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_client.artifact_values import BadReference, read_name, read_uri, read_value, resolved, values_in
from taskyard_core.artifacts import member

ID = "018f3b5e-7c1a-7abc-9def-0123456789ab"
WHOLE = f"artifact://{ID}#"
LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


def places(value: Any, uri: str = WHOLE) -> list[tuple[str, Any]]:
    """Returns every value within a value with what a template makes of the way to it."""
    found = [(uri, value)]
    if isinstance(value, dict):
        found += [place for key, inner in value.items() for place in places(inner, member(uri, key))]
    if isinstance(value, list):
        found += [place for at, inner in enumerate(value) for place in places(inner, member(uri, at))]
    return found


@given(VALUES)
def test_what_a_template_points_to_is_what_a_reader_finds(value: Any) -> None:
    for uri, wanted in places(value):
        reference = read_value(uri)
        assert reference is not None
        assert reference.artifact_id == ID
        assert json.dumps(reference.find(value)) == json.dumps(wanted)


@given(VALUES, st.text())
def test_any_other_pointer_finds_a_part_or_nothing(value: Any, pointer: str) -> None:
    reference = read_value(f"{WHOLE}{pointer}")
    assert reference is not None
    with suppress(BadReference):
        assert json.dumps(reference.find(value)) in {json.dumps(wanted) for _, wanted in places(value)}


@given(VALUES)
def test_what_refers_to_nothing_stays_as_it_is(value: Any) -> None:
    assert list(values_in(value)) == []


async def test_values_are_put_in_their_places_and_each_artifact_is_loaded_once() -> None:
    loads: list[str] = []

    async def load(id: str) -> Any:
        loads.append(id)
        return {"a": [WHOLE], "n": 1}

    def blame(path: str, reference: Any, error: Exception) -> Exception:
        return ValueError(f"{path} {reference.text} {error}")

    value = {"x": [f"{WHOLE}/n", f"{WHOLE}/a"], "y": f"artifact://{ID}", "z": f"text {WHOLE}"}
    found = await resolved(value, load, blame)
    assert found == {**value, "x": [1, [WHOLE]]}, "what is found is not looked into again"
    assert loads == [ID]
    with pytest.raises(ValueError, match=r"x\[1\] artifact://.*#/b there is no key 'b'"):
        await resolved({"x": [0, f"{WHOLE}/b"]}, load, blame)


@pytest.mark.parametrize("text", ["", "x", "artifact://x", f"artifact://{ID.upper()}", f"artifact://{ID}/a"])
def test_what_is_no_uri_is_refused(text: str) -> None:
    assert read_value(text) is None
    for read in (read_uri, read_name):
        with pytest.raises(BadReference):
            read(text)


def test_names_are_uris_or_ids() -> None:
    assert read_name(ID) == read_name(f"artifact://{ID}") == read_uri(f"artifact://{ID}") == ID
    with pytest.raises(BadReference, match="without #"):
        read_name(WHOLE)
