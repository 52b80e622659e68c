"""The attempt's number, which is filled in after a step's input has been rendered."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.templates import Scope, compile_text, compile_value, fill_input, fill_params

SCOPE = Scope({}, {}, {"id": "r"})
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def rendered_input(value: object, attempt: int) -> object:
    return json.loads(fill_input(json.dumps(compile_value(value, "input").render(SCOPE)), attempt))


def test_a_value_that_is_the_attempt_alone_is_a_number_and_in_text_it_is_text() -> None:
    value = {"n": "${run.attempt}", "name": "try ${run.attempt} of ${run.attempt}", "list": ["${run.attempt}"]}
    assert rendered_input(value, 3) == {"n": 3, "name": "try 3 of 3", "list": [3]}


def test_a_flat_parameter_stays_text() -> None:
    params = json.dumps({"p": compile_text("${run.attempt}", "p").render(SCOPE), "q": "x"})
    assert json.loads(fill_params(params, 12)) == {"p": "12", "q": "x"}


@given(TEXT, st.integers(1, 100))
def test_no_text_without_the_reference_is_touched(text: str, attempt: int) -> None:
    stored = json.dumps({"a": text})
    assert fill_input(stored, attempt) == fill_params(stored, attempt) == stored


def test_before_the_run_has_begun_it_stands_as_it_was_written() -> None:
    before = Scope({}, {}, {"id": "r"}, begun=False)
    assert compile_text("${run.attempt} ${steps.a.output.b[0]} ${run.id}", "p").render(before) == (
        "${run.attempt} ${steps.a.output.b[0]} r"
    )
