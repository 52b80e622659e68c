"""The demo's judgement of its own run: where the time went, and that it reports what it did not show."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.tasks_pb2 import TaskAttempt, TaskError, TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import GetRunResponse, Run, RunState
from taskyard_cli.demo.account import answers_line, appendix, events, excerpt, shortfalls
from taskyard_cli.demo.history import History, Phases, Step
from taskyard_cli.demo.questions import QUESTIONS, SOURCES
from taskyard_cli.demo.report import Answer, Index, Source, report_text

GOOD, BAD = TaskStatus.TASK_STATUS_SUCCESS, TaskStatus.TASK_STATUS_FAILED


def at(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=round(seconds % 1 * 1e9))


def attempt(number: int, worker: str, sent: float, end: float, kind: str = "") -> TaskAttempt:
    return TaskAttempt(
        attempt=number, worker_id=worker, status=BAD if kind else GOOD, assign_time=at(sent), start_time=at(sent + 0.5),
        end_time=at(end), error=TaskError(kind=kind, message="why") if kind else None,
    )  # fmt: skip


def step(name: str, made: float, queued: float, *attempts: TaskAttempt, needs: tuple[str, ...] = ()) -> Step:
    task = TaskInstance(
        status=GOOD, create_time=at(made), queue_time=at(queued), end_time=attempts[-1].end_time
    )  # fmt: skip
    return Step(name, task, attempts, needs)


def history() -> History:
    steps = [
        step("failing", 10, 13, attempt(1, "w1", 11, 12, "HANDLER_ERROR"), attempt(2, "w1", 14, 16)),
        step("killed", 10, 21, attempt(1, "w2", 12, 20, "WORKER_LOST"), attempt(2, "w1", 22, 23)),
        step("join", 24, 24, attempt(1, "w1", 25, 27), needs=("failing", "killed")),
    ]
    run = Run(run_id="r", workflow="w", state=RunState.RUN_STATE_SUCCEEDED, create_time=at(10), end_time=at(27),
              steps_total=3, steps_ended=3,
              output_json=json.dumps({"questions": 10, "found": 9, "model": "m"}))  # fmt: skip
    return History(GetRunResponse(run=run), steps)


def report(found: int = len(QUESTIONS)) -> str:
    """Returns a report in which so many questions have found what they ask for."""
    sources = [Source("with", 'The "with" statement', 0.5, asked_for=False)] * (SOURCES - 1)
    answers = [
        Answer(each.text, "An *answer*.", "", [Source("__a__", "T|", 0.75, asked_for=place < found), *sources])
        for place, each in enumerate(QUESTIONS)
    ]
    return report_text(Index(441, "m"), answers)


def test_every_moment_of_a_task_is_in_one_phase() -> None:
    found = history()
    assert found.phases == Phases(scheduling=1.0 + 5 * 0.5, queued=6.0, running=3.5, lost=8.0, retrying=2.0)
    # From the moment when each could have been made to its end: 6 s, 13 s, and 4 s after the last of its upstreams.
    assert found.phases.total == 6 + 13 + 4
    assert found.seconds == 17


def test_it_tells_each_attempt_that_came_to_nothing_in_order() -> None:
    assert events(history(), "w2") == [
        "failing failed at attempt 1 on w1 (why); attempt 2 ran on w1",
        "w2 was killed (kill -9) while it ran killed; attempt 2 ran on w1",
    ]
    text = appendix(history(), "w2")
    assert "| killed | 1 | w2 | WORKER_LOST | 8.0 s |" in text
    assert "w1 (3 of 4 attempts ended well), w2 (0 of 1 attempts ended well)" in text


def test_what_was_shown_is_not_reported() -> None:
    assert shortfalls(history(), "w2", report()) == []


def not_succeeded(found: History) -> None:
    found.run.run.state = RunState.RUN_STATE_FAILED


def never_lost(found: History) -> None:
    found.steps[1].attempts[0].error.kind = "NEVER_STARTED"


def same_worker(found: History) -> None:
    found.steps[1].attempts[1].worker_id = "w2"


def one_worker(found: History) -> None:
    for each in found.steps:
        for one in each.attempts:
            one.worker_id = "w2"


def step_missing(found: History) -> None:
    found.run.run.steps_total = 4


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (not_succeeded, "the run is FAILED"),
        (never_lost, "lost nothing"),
        (same_worker, "the work of killed did not go to another worker"),
        (one_worker, "ran anything"),
        (step_missing, "not every step succeeded"),
    ],
)
def test_what_was_not_shown_is_reported(spoil: Callable[[History], None], complaint: str) -> None:
    found = history()
    spoil(found)
    assert any(complaint in each for each in shortfalls(found, "w2", report()))


def test_why_a_run_failed_is_told_once_and_the_report_that_is_not_there_is_not_searched() -> None:
    found = history()
    not_succeeded(found)
    found.run.run.error_message = "step 'failing' failed, and 1 more"
    for each in found.steps[:2]:
        each.task.status, each.task.error.message = BAD, "no connection"
    assert shortfalls(found, "w2", None) == [
        "the run is FAILED: step 'failing' failed, and 1 more", "it said: no connection", "not every step succeeded",
        "no step failed at first and succeeded later", "the work of killed did not go to another worker",
        "there is no report",
    ]  # fmt: skip


def test_a_run_without_the_failure_is_reported() -> None:
    found = history()
    found.steps[0].attempts[0].error.kind = "INTERRUPTED"
    assert shortfalls(found, "w2", report()) == ["no step failed at first and succeeded later"]


def test_a_run_without_the_kill_is_reported() -> None:
    assert shortfalls(history(), "", report())[0] == "no worker was killed"


FIRST = QUESTIONS[0].text
ROW = '| `with` | The "with" statement | 0.500 |  |\n'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (f"### {FIRST}\n", "### Another?\n", f"no answer to: {FIRST}"),
        (f"### {FIRST}\n", "### Another?\n", f"0 sources and not 5 for: {FIRST}"),
        (f"### {FIRST}\n\nAn \\*answer\\*.", f"### {FIRST}", f"no answer to: {FIRST}"),
        (ROW, "", f"4 sources and not 5 for: {FIRST}"),
    ],
)
def test_a_report_that_is_not_complete_is_reported(old: str, new: str, complaint: str) -> None:
    assert old in report()
    assert any(complaint in each for each in shortfalls(history(), "w2", report().replace(old, new, 1)))


@pytest.mark.parametrize(("found", "good"), [(10, True), (6, True), (5, False), (0, False)])
def test_searches_that_find_less_than_most_are_reported(found: int, good: bool) -> None:
    complaints = shortfalls(history(), "w2", report(found))
    assert complaints == ([] if good else [f"for only {found} of 10 questions a passage that answers it was found"])


def test_how_much_was_found_is_told() -> None:
    assert answers_line(history()) == (
        "10 questions, vectors by m; for 9 of them a section with the answer is among the 5 passages found"
    )


def test_an_excerpt_is_plain_text() -> None:
    assert excerpt(report(), FIRST).splitlines() == [
        "An *answer*.", "  __a__, T|, 0.750", *["  with, The \"with\" statement, 0.500"] * 4
    ]  # fmt: skip
    assert excerpt("", FIRST) == ""
