"""The golden vectors of tests/conformance/text: what every worker in any language must answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskyard_worker.text import TextInputError, process, process_input

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "conformance" / "text"
OPERATIONS = ("clean", "keywords", "split", "statistics", "summarize")


def load(name: str) -> list[dict[str, Any]]:
    document = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    cases: list[dict[str, Any]] = document["cases"]
    return cases


@pytest.mark.parametrize(
    ("operation", "case"),
    [pytest.param(name, case, id=f"{name}: {case['name']}") for name in OPERATIONS for case in load(name)],
)
def test_operation_answers_as_the_vector_says(operation: str, case: dict[str, Any]) -> None:
    result = process(case["text"], operation, **case["options"])

    assert json.dumps(result) == json.dumps(case["result"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in load("inputs")])
def test_input_is_taken_or_refused_as_the_vector_says(case: dict[str, Any]) -> None:
    if "output" in case:
        assert process_input(case["input"]) == case["output"]
        return
    with pytest.raises(TextInputError) as refusal:
        process_input(case["input"])
    assert refusal.value.field == case["error_field"]


def test_every_operation_has_vectors() -> None:
    assert all(len(load(name)) >= 15 for name in OPERATIONS)
    assert sum(len(load(name)) for name in (*OPERATIONS, "inputs")) >= 60
