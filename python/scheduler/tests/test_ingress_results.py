"""What workers report at the door: nothing that they say is lost, whatever it looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
import store_rows
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.events import Progress, Result, WorkerFrame
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.records import CANCELLED, FAILED, SUCCESS, TIMEOUT
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.egress.assignments import assignment
from taskyard_scheduler.ingress.results import read_frame, read_results
from taskyard_scheduler.ingress.workflows import read_workflow

TASK, TOKEN = "018f3b5e-7c1a-7abc-9def-0123456789ab", "token"


def read_one(**given: Any) -> Result:
    told = pb.TaskResult(task_id=TASK, attempt_token=TOKEN, **given)
    [result] = read_frame("w", 1, pb.AssignTaskRequest(results=[told]), None).results
    return result


@pytest.mark.parametrize(
    "output", ["", "null", "true", "0", "{}", '{"a": [1, "ü"]}', ' {"a": 1} ', '"\\u0000"', '"\\ud800"']
)
def test_a_success_keeps_its_output_as_it_was_written(output: str) -> None:
    assert read_one(status=SUCCESS, output_json=output, duration_ms=7) == Result(
        TASK, TOKEN, SUCCESS, output_json=output, duration_ms=7
    )


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("nope", "not JSON"),
        ("NaN", "NaN is no JSON number"),
        ('{"a": 1e999}', "floating-point"),
        ("[" * 50_000, "nested deeper"),
        ('"\0"', "control character"),
    ],
)
def test_output_that_cannot_be_kept_is_a_failure_that_says_so(output: str, said: str) -> None:
    result = read_one(status=SUCCESS, output_json=output)
    assert (result.status, result.error_kind, result.output_json) == (FAILED, "RESULT_NOT_STORABLE", "")
    assert said in result.error_message
    assert "\0" not in result.error_message


ODD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", "\0", "${x}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ODD_OUTPUTS = (
    st.builds(json.dumps, ODD_VALUES)
    | st.text(alphabet='[]{}:,"\\u0d8-+.eENaInfity \n\ufeff\0', max_size=30)
    | st.text(max_size=10)
)
READING = read_workflow(
    "default",
    workflows_pb2.Workflow(
        name="flow",
        steps=[
            workflows_pb2.WorkflowStep(id="a", task_type="t"),
            workflows_pb2.WorkflowStep(
                id="b", task_type="t", needs=["a"], params={"x": "<${steps.a.output}>"},
                input_json='{"y": "${steps.a.output}"}',
            ),
        ],
    ),
    {},
)  # fmt: skip


def check_a_run_can_read(output_json: str) -> None:
    """Has a run keep an output and make the next step's input of it, as the engine does, and that input travel."""
    run = LiveRun("default", "r", READING)
    run.open_scope()
    run.keep_output(READING.graph.index["a"], output_json)
    after = READING.steps[READING.graph.index["b"]]
    assert after.input is not None
    params = json.dumps({name: template.render(run.scope) for name, template in after.params})
    given_input = json.dumps(after.input.render(run.scope))
    task = instance_from_row(store_rows.instance(params_json=params, input_json=given_input))
    sent = assignment(task, "token", 1)
    assert json.loads(sent.input_json) == {"y": json.loads(output_json) if output_json else None}
    assert sent.params["x"].startswith("<")


@settings(max_examples=400)
@given(output=ODD_OUTPUTS)
@example("")
@example(" null ")
@example('"\\ud800"')
@example('{"\\ud800": "\\udc00"}')
@example("[" * 100 + "]" * 100)
@example("[" * 101 + "]" * 101)
@example("[" * 100_000)
@example("9" * 4_300)
@example("9" * 4_301)
@example("-" + "9" * 4_300)
@example("1e308")
@example("1e309")
@example("\ufeff{}")
@example("{} {}")
@example('{"a": 1, "a": NaN}')
def test_every_output_that_is_kept_is_one_that_a_run_can_read(output: str) -> None:
    result = read_one(status=SUCCESS, output_json=output)
    if result.status == SUCCESS:
        check_a_run_can_read(result.output_json)
    else:
        assert (result.error_kind, result.output_json) == ("RESULT_NOT_STORABLE", "")


def test_output_is_at_most_256_kib_in_bytes() -> None:
    fits = json.dumps("x" * (262_144 - 2))
    assert read_one(status=SUCCESS, output_json=fits).status == SUCCESS
    for large in (json.dumps("x" * 262_143), json.dumps("日" * 90_000, ensure_ascii=False)):
        result = read_one(status=SUCCESS, output_json=large)
        assert (result.status, result.error_kind) == (FAILED, "OUTPUT_TOO_LARGE")
        assert "262,144" in result.error_message


def test_a_failure_keeps_kind_and_message() -> None:
    result = read_one(status=FAILED, error_kind="NON_RETRYABLE", error_message="no such file", output_json="ignored")
    assert result == Result(TASK, TOKEN, FAILED, error_kind="NON_RETRYABLE", error_message="no such file")
    for status in (TIMEOUT, CANCELLED, 11, 12):
        assert read_one(status=status).status == status


@pytest.mark.parametrize("status", [0, 1, 5, 10, 99])
def test_a_status_that_ends_nothing_is_a_failure_that_says_so(status: int) -> None:
    result = read_one(status=status, error_message="why")
    assert (result.status, result.error_kind) == (FAILED, "HANDLER_ERROR")
    assert f"status {status}" in result.error_message
    assert "why" in result.error_message


@pytest.mark.parametrize(("told", "kept"), [(0, 0), (-5, 0), (90_000, 90_000)])
def test_a_deferred_result_says_how_long_it_is_waited_for(told: int, kept: int) -> None:
    result = read_one(status=tasks_pb2.TASK_STATUS_DEFERRED, defer_timeout_ms=told, output_json="1")
    assert (result.status, result.defer_ms, result.output_json) == (tasks_pb2.TASK_STATUS_DEFERRED, kept, "")


def test_odd_texts_are_kept_with_a_mark() -> None:
    result = read_one(status=FAILED, error_message="a\0b" + "日" * 40_000)
    assert result.error_message.startswith("a␀b日")
    assert result.error_message.endswith("… (cut)")
    assert 65_500 < len(result.error_message.encode()) <= 65_536


def test_metadata_is_kept_bounded() -> None:
    assert read_one(status=SUCCESS).metadata_json == ""
    assert read_one(status=SUCCESS, metadata={"tokens": "3"}).metadata_json == '{"tokens":"3"}'
    many = {f"k{n:03}": "v\0" for n in range(100)} | {"k000": "x" * 20_000}
    kept = json.loads(read_one(status=SUCCESS, metadata=many).metadata_json)
    assert list(kept) == [f"k{n:03}" for n in range(64)]
    assert kept["k001"] == "v␀"
    assert len(kept["k000"]) <= 10_000


def test_a_negative_duration_is_none() -> None:
    assert read_one(status=SUCCESS, duration_ms=-5).duration_ms == 0


def test_a_frame_arrives_whole() -> None:
    stream = object()
    given = pb.AssignTaskRequest(
        acknowledgements=[pb.StartAcknowledgement(task_id=TASK, attempt_token=TOKEN)], credits=12, draining=True
    )
    assert read_frame("w", 3, given, stream) == WorkerFrame(
        "w", 3, (), [(TASK, TOKEN)], (), 12, draining=True, stream=stream
    )
    assert read_frame("w", 3, pb.AssignTaskRequest(credits=-1), stream).credits == 0


def progress(**given: Any) -> Progress:
    told = pb.TaskProgress(task_id=TASK, attempt_token=TOKEN, **given)
    [read] = read_frame("w", 1, pb.AssignTaskRequest(progress=[told]), None).progress
    return read


@pytest.mark.parametrize(
    ("told", "kept"),
    [(0.0, 0.0), (50.5, 50.5), (-3.0, 0.0), (101.0, 100.0), (float("inf"), 100.0), (float("nan"), None)],
)
def test_percent_is_clamped(told: float, kept: float | None) -> None:
    assert progress(percent=told).percent == kept


def test_progress_that_says_nothing_of_percent_has_none() -> None:
    assert progress(message="a\0", cancel_unconfirmed=True) == Progress(
        TASK, TOKEN, None, "a␀", cancel_unconfirmed=True
    )
    assert len(progress(message="x" * 5_000).message) <= 1_000


def test_a_checkpoint_is_kept_byte_for_byte() -> None:
    read = progress(checkpoint="a\0é", checkpoint_number=3)
    assert (read.checkpoint, read.checkpoint_number) == ("a\0é", 3)
    assert progress(checkpoint="").checkpoint == ""


def test_a_checkpoint_that_is_too_large_is_not_kept_and_says_so() -> None:
    read = progress(checkpoint="é" * 131_073, checkpoint_number=3, percent=5)
    assert (read.checkpoint, read.checkpoint_number, read.percent) == (None, 0, 5)
    assert "checkpoint 3 was not kept" in read.message
    assert progress(checkpoint="x" * 262_144).checkpoint == "x" * 262_144


def test_results_outside_the_stream() -> None:
    told = pb.TaskResult(task_id=TASK, attempt_token=TOKEN, status=tasks_pb2.TASK_STATUS_SUCCESS)
    reply = object()
    given = pb.ReportResultsRequest(worker_id="w", session_epoch=2, results=[told])
    assert read_results(given, reply) == WorkerFrame("w", 2, [Result(TASK, TOKEN, SUCCESS)], reply=reply)


@pytest.mark.parametrize("count", [0, 513])
def test_a_report_without_results_or_with_too_many_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput):
        read_results(pb.ReportResultsRequest(results=[pb.TaskResult()] * count), None)
