"""References to artifacts: found in any text, and what templates make of those that stand for values."""

from __future__ import annotations

import json

import pytest

from taskyard_core.artifacts import MARK, URI_BYTES, artifacts_in, artifacts_in_bytes, is_id, is_value, member, uri_of
from taskyard_core.templates import Scope, compile_text, compile_value
from taskyard_core.templates.errors import RenderError

ONE = "018f3b5e-7c1a-7abc-9def-0123456789ab"
TWO = "018f3b5e-7c1a-7abc-9def-0123456789ac"
LARGE = f"artifact://{ONE}#"
SCOPE = Scope(inputs={"x": f"artifact://{TWO}"}, steps={"a": LARGE, "small": {"b": 1, "l": [LARGE]}})


@pytest.mark.parametrize(
    "text",
    [
        f"artifact://{ONE}", f'{{"a": "artifact://{ONE}#/b"}}', f"see artifact://{ONE}, and more",
        json.dumps(f"artifact://{ONE}").replace("/", "\\/"), f"artifact://{TWO}artifact://{ONE}",
    ],
)  # fmt: skip
def test_a_reference_is_found_wherever_it_stands(text: str) -> None:
    assert MARK in text
    assert ONE in artifacts_in([text, None, ""])
    assert ONE in artifacts_in_bytes(text.encode())


@pytest.mark.parametrize(
    "text",
    ["", "artifact://", f"artifacts://{ONE}", f"artifact:/{ONE}", "artifact://018F3B5E-7C1A-7ABC-9DEF-0123456789AB"],
)
def test_what_is_no_reference_is_not_found(text: str) -> None:
    assert artifacts_in([text]) == set()
    assert not is_value(text)


def test_the_longest_form_of_a_uri_fits_into_what_is_carried_over() -> None:
    assert len(json.dumps(uri_of(ONE)).replace("/", "\\/")) - 2 == URI_BYTES
    assert is_id(ONE)
    assert not is_id(ONE.upper())


def test_a_path_into_a_large_output_becomes_a_pointer() -> None:
    assert compile_value("${steps.a.output}", "f").render(SCOPE) == LARGE
    assert compile_value("${steps.a.output.b[0].c}", "f").render(SCOPE) == f"{LARGE}/b/0/c"
    assert compile_value({"k": ["${steps.small.output.l[0].x}"]}, "f").render(SCOPE) == {"k": [f"{LARGE}/x"]}
    assert compile_value('${steps.a.output["a/b~c d%"]}', "f").render(SCOPE) == f"{LARGE}/a~1b~0c%20d%25"
    assert compile_text("${steps.a.output.b}", "f").render(SCOPE) == f"{LARGE}/b"
    assert member(LARGE, 3) == f"{LARGE}/3"


def test_the_bytes_of_an_artifact_have_no_members() -> None:
    with pytest.raises(RenderError, match="has no key 'b'"):
        compile_value("${inputs.x.b}", "f").render(SCOPE)
    assert compile_text("see ${inputs.x}", "f").render(SCOPE) == f"see artifact://{TWO}"


@pytest.mark.parametrize("source", ["it is ${steps.a.output}", "${steps.a.output.b} ", "${steps.small.output} too"])
def test_a_large_output_cannot_stand_in_a_longer_text(source: str) -> None:
    for compiled in (compile_text(source, "f"), compile_value([source], "f")):
        with pytest.raises(RenderError, match="too large to be put into text"):
            compiled.render(SCOPE)


def test_the_way_out_of_a_longer_text_is_one_that_works() -> None:
    with pytest.raises(RenderError, match=r"for example `value: \$\{steps\.a\.output\.b\}`") as caught:
        compile_text("there are ${steps.a.output.b} rows", "f").render(SCOPE)
    advised = str(caught.value).split("`value: ")[1].split("`")[0]
    assert compile_value({"value": advised}, "f").render(SCOPE) == {"value": f"{LARGE}/b"}
