"""Arguments of a kind that nothing can be made of, and errors without the machinery below them."""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
from typing import Any

import pytest

from taskyard_client import (
    AsyncClient,
    Client,
    InvalidInput,
    Placement,
    Resources,
    Retry,
    Timeouts,
    Unavailable,
    new_run,
    new_task,
)
from taskyard_client.submissions import new_trigger

MAPPING = 'a mapping of names to values (dict), for example {"year": 2026}'
TIMES: dict[str, list[tuple[Any, str, str]]] = {
    "schedule_time": [("tomorrow", "schedule_time", "a datetime or None"), (5, "schedule_time", "")],
    "start_delay": [("5s", "start_delay", "a number, a timedelta or None"), (math.nan, "start_delay", "a number")],
    "expire_time": [("tomorrow", "expire_time", "")],
    "tags": [(5, "tags", "a list of text"), (["a", 5], "tags[1]", "text")],
}
TASK: dict[str, list[tuple[Any, str, str]]] = {
    **TIMES,
    "task_type": [(5, "task_type", "text")],
    "input": [(5, "input", MAPPING), (["ab"], "input", MAPPING), ("2026", "input", MAPPING),
              ([("a", 1)], "input", MAPPING), ({"a": object()}, "input", "")],
    "task_name": [(5, "task_name", "text")],
    "params": [({"a": 1}, "params.a", "text"), ({1: "a"}, "params", "text as keys"),
               (5, "params", "a mapping from text to text")],
    "priority": [("high", "priority", "a whole number or None"), (5.5, "priority", "a whole number or None")],
    "retry": [
        (3, "retry", "Retry(max_attempts=…, first_delay=…"), (0, "retry", "Retry("),
        (Retry(max_attempts="3"), "retry.max_attempts", "a whole number or None"),  # type: ignore[arg-type]
        (Retry(first_delay="5s"), "retry.first_delay", "a number, a timedelta or None"),  # type: ignore[arg-type]
        (Retry(max_delay=math.nan), "retry.max_delay", "a number, a timedelta or None"),
        (Retry(max_delay=math.inf), "retry.max_delay", "a number"),
        (Retry(jitter="much"), "retry.jitter", "a number or None"),  # type: ignore[arg-type]
    ],
    "timeouts": [
        (5, "timeouts", "Timeouts(queued=…, start=…, run=…, total=…) or None"),
        (Timeouts(run="1h"), "timeouts.run", "a number, a timedelta or None"),  # type: ignore[arg-type]
        (Timeouts(run=1e30), "timeouts.run", "a number"),
    ],
    "selector": [(5, "selector", "text")],
    "placement": [("gpu", "placement", "Placement("), (Placement(selector=5), "placement.selector", "text")],  # type: ignore[arg-type]
    "resources": [(2, "resources", "Resources("), (Resources(gpus="1"), "resources.gpus", "a whole number")],  # type: ignore[arg-type]
    "exclusive": [("yes", "exclusive", "True or False")],
    "idempotency_key": [(5, "idempotency_key", "text")],
    "request_id": [(5, "request_id", "text")],
    "traceparent": [(5, "traceparent", "text")],
}  # fmt: skip
RUN: dict[str, list[tuple[Any, str, str]]] = {
    **TIMES,
    "workflow": [(5, "workflow", "text")],
    "inputs": [(5, "inputs", MAPPING), ("2026", "inputs", MAPPING), (["ab"], "inputs", MAPPING)],
    "version": [("1", "version", "a whole number")],
    "priority": [("1", "priority", "a whole number or None")],
    "idempotency_key": [(5, "idempotency_key", "text")],
    "request_id": [(5, "request_id", "text")],
}
TRIGGER = {"name": [(5, "name", "text")], **{name: TASK[name] for name in ("input", "params", "request_id")}}
BUILDERS = [(new_task, TASK), (new_run, RUN), (new_trigger, TRIGGER)]
HALF = "\ud800"  # as json.loads makes of what another language cut in two
WRONG = [(build, name, *case) for build, table in BUILDERS for name, cases in table.items() for case in cases]


@pytest.mark.parametrize(("build", "table"), BUILDERS)
def test_each_argument_is_tried(build: Any, table: dict[str, Any]) -> None:
    assert set(inspect.signature(build).parameters) - set(table) == set()


@pytest.mark.parametrize(("build", "name", "value", "field", "wanted"), WRONG)
def test_an_argument_of_another_kind_is_named(build: Any, name: str, value: Any, field: str, wanted: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build(**{new_run: {"workflow": "w"}, new_trigger: {"name": "d"}}.get(build, {}) | {name: value})
    (violation,) = caught.value.violations
    assert violation.field == field
    assert f"give {wanted}" in violation.description
    assert len(str(caught.value)) < 400
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("build", "arguments", "field"),
    [
        (new_task, {"input": {"n": HALF}}, "input.n"),
        (new_task, {"input": {"a": [1, {"b": f"x{HALF}"}]}}, "input.a[1].b"),
        (new_task, {"input": {HALF: 1}}, "input (a name)"),
        (new_task, {"params": {"p": HALF}}, "params.p"),
        (new_task, {"task_name": HALF}, "task_name"),
        (new_task, {"tags": [HALF]}, "tags[0]"),
        (new_task, {"placement": Placement(selector=HALF)}, "placement.selector"),
        (new_run, {"inputs": {"day": HALF}}, "inputs.day"),
        (new_trigger, {"input": {"n": HALF}}, "input.n"),
    ],
)
def test_half_a_character_is_told_with_its_place(build: Any, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match="half a character") as caught:
        build("x", **arguments)
    assert [each.field for each in caught.value.violations] == [field]


def test_an_argument_that_there_is_not_stays_pythons_matter() -> None:
    with pytest.raises(TypeError, match="nope"):
        new_task("x", nope=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_who_is_not_reachable_is_told_without_the_way_it_was_found(kind: Any) -> None:
    if kind is AsyncClient:
        async with AsyncClient("127.0.0.1:1", None, timeout=0.5) as client:
            with pytest.raises(Unavailable) as caught:
                await asyncio.gather(*(client.submit("x") for _ in range(3)), client.cluster_status())
    else:
        with Client("127.0.0.1:1", None, timeout=0.5) as blocking, pytest.raises(Unavailable) as caught:
            await asyncio.to_thread(blocking.cluster_status)
    told = "".join(traceback.format_exception(caught.value))
    assert "AioRpcError" not in told
    assert "During handling" not in told
    assert "direct cause" not in told
