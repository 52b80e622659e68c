"""Task definitions at the door."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskyard.v1 import tasks_pb2
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.definitions import read_definition


def definition() -> tasks_pb2.TaskDefinition:
    return tasks_pb2.TaskDefinition(name="greet", task_type="py")


def test_a_good_one_is_copied_with_canonical_selectors_and_without_the_schedulers_fields() -> None:
    given = definition()
    given.number = 7
    given.create_time.seconds = 1
    given.update_time.seconds = 2
    given.placement.selector = "b=2,  a==1"
    given.placement.spread = "zone"
    given.params["a"] = "${not a template}"
    read = read_definition(given)
    assert read.placement.selector == "a=1,b=2"
    assert read.placement.spread == "zone"
    assert read.params["a"] == "${not a template}"
    assert (read.number, read.HasField("create_time"), read.HasField("update_time")) == (0, False, False)
    assert given.number == 7, "the request is left as it was"


def test_absent_fields_stay_absent() -> None:
    read = read_definition(definition())
    assert read == definition()


@pytest.mark.parametrize(
    ("field", "spoil", "said"),
    [
        ("name", lambda d: setattr(d, "name", ""), "empty"),
        ("name", lambda d: setattr(d, "name", "a\u2028b"), "U+2028"),
        ("task_type", lambda d: setattr(d, "task_type", ""), "empty"),
        ("task_type", lambda d: setattr(d, "task_type", "*"), "any type"),
        ("description", lambda d: setattr(d, "description", "x" * 10_001), "10,000"),
        ("description", lambda d: setattr(d, "description", "\0"), "NUL"),
        ("priority", lambda d: setattr(d, "priority", 0), "1 to 10"),
        ("params.x", lambda d: d.params.update({"x": "\0"}), "NUL"),
        ("params", lambda d: d.params.update({"x": "y" * 5_000_000}), "4,194,304"),
        ("input_json", lambda d: setattr(d, "input_json", "1"), "no object"),
        ("timeouts.run_timeout", lambda d: setattr(d.timeouts.run_timeout, "seconds", -1), "30 days"),
        ("retry.max_attempts", lambda d: setattr(d.retry, "max_attempts", -1), "1 to 100"),
        ("placement.selector", lambda d: setattr(d.placement, "selector", "!"), "label's name"),
    ],
)
def test_each_rule_names_its_field(field: str, spoil: Callable[[tasks_pb2.TaskDefinition], object], said: str) -> None:
    given = definition()
    spoil(given)
    with pytest.raises(InvalidInput) as refused:
        read_definition(given)
    [violation] = refused.value.violations
    assert violation.field == f"definition.{field}"
    assert said in violation.description
