"""A snapshot as rows, without a screen: their order, their marks, and how they fit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from top_snapshots import NOW, ago, queue, task, worker

from taskyard.v1.tasks_pb2 import TaskError
from taskyard_cli.show import cut
from taskyard_cli.top import rows
from taskyard_cli.top.rows import Row, age, widths


def column(listed: list[Row], columns: tuple[str, ...], head: str) -> list[str]:
    return [row.cells[columns.index(head)] for row in listed]


def test_queues_that_will_not_move_by_themselves_come_first_and_are_marked() -> None:
    listed = rows.queue_rows(
        [
            queue("busy", "WORKERS_BUSY", head_time=ago(seconds=5)),
            queue("older", "WORKERS_BUSY", head_time=ago(hours=2)),
            queue("never", "RESOURCES_NEVER_FIT"),
            queue("lost", "NO_WORKER_FOR_TYPE", waiting=1_234, head_time=ago(minutes=3)),
            queue("in sql", ""),
        ],
        NOW,
    )
    assert column(listed, rows.QUEUES, "QUEUE") == ["lost", "never", "older", "busy", "in sql"]
    assert column(listed, rows.QUEUES, "") == ["!", "!", "", "", ""]
    assert listed[0].cells[1:] == ("lost", "1,234", "3m00s", "NO_WORKER_FOR_TYPE: because of NO_WORKER_FOR_TYPE")
    assert listed[4].cells[-1] == "its first ones are in the database alone"
    assert listed[0].task_id == "head-of-lost"


def test_queues_of_one_type_have_names_of_their_own() -> None:
    first, second = queue("t", "WORKERS_BUSY", selector="gpu"), queue("t", "WORKERS_BUSY", deadlines=True)
    first.resources.gpus = 1
    assert [row.key for row in rows.queue_rows([first, second], NOW)] == ["t gpu 1 GPU", "t deadlines"]


def test_what_somebody_holds_back_is_marked() -> None:
    paused, partly, free = queue("a", "PAUSED"), queue("b", "WORKERS_BUSY", held=2), queue("c", "WORKERS_BUSY")
    paused.pause.reason = "maintenance"
    assert column(rows.queue_rows([paused, partly, free], NOW), rows.QUEUES, "") == ["~", "~", ""]


def test_workers_that_take_nothing_come_first_then_the_fullest() -> None:
    listed = rows.worker_rows(
        [
            worker("idle", last_seen_time=ago(seconds=1)),
            worker("full", active=10),
            worker("going", "DRAINING", active=2),
            worker("gone", "UNHEALTHY"),
        ],
        NOW,
    )
    assert column(listed, rows.WORKERS, "WORKER") == ["going", "gone", "full", "idle"]
    assert column(listed, rows.WORKERS, "") == ["~", "!", "", ""]
    assert listed[3].cells[2:] == ("HEALTHY", "0/10", "0.50", "120", "1s")
    assert listed[1].cells[-1] == "never"


def test_what_runs_longest_comes_first() -> None:
    listed = rows.running_rows(
        [
            task("0192-short", start_time=ago(seconds=2), worker_id="w"),
            task(
                "0192-step", start_time=ago(days=3, hours=4), run_id="0192-some-run", step_id="join", percent=40,
            ),
            task("0192-sent", "ASSIGNED"),
        ],
        NOW,
    )  # fmt: skip
    assert column(listed, rows.RUNNING, "FOR") == ["3d04h", "2s", "ASSIGNED"]
    assert column(listed, rows.RUNNING, "STEP/RUN") == ["join/…some-run", "", ""]
    assert column(listed, rows.RUNNING, "%") == ["40", "", ""]
    assert column(listed, rows.RUNNING, "") == ["", "", "~"]
    assert listed[0].task_id == "0192-step"


def test_a_failure_has_kind_and_message_and_cannot_drive_the_terminal() -> None:
    error = TaskError(kind="HANDLER_ERROR", message="no\x1b[31m such\nfile")
    [row] = rows.failed_rows([task("t", "FAILED", end_time=ago(minutes=61), error=error)], NOW)
    assert row.cells == ("!", "t", "shell", "1h01m", "HANDLER_ERROR", "no␛[31m such␊file")


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        ({"seconds": 0}, "0s"), ({"seconds": 59.9}, "59s"), ({"seconds": 60}, "1m00s"), ({"minutes": 59}, "59m00s"),
        ({"hours": 1}, "1h00m"), ({"hours": 23.99}, "23h59m"), ({"days": 1}, "1d00h"), ({"days": -1}, "0s"),
    ],
)  # fmt: skip
def test_ages(span: dict[str, float], shown: str) -> None:
    assert age(ago(**span), NOW) == shown


def test_nothing_has_no_age() -> None:
    assert age(ago(**{}).__class__(), NOW + timedelta(days=1)) == ""


TEXTS = st.text(alphabet="ab 世界", max_size=40)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5), st.integers(20, 120))
def test_columns_fit_whatever_is_in_them(cells: list[tuple[str, str, str]], room: int) -> None:
    listed = [Row(str(number), each) for number, each in enumerate(cells)]
    wide = widths(("A", "B", "C"), listed, room)
    assert sum(wide) <= room
    for row in listed:
        for cell, width in zip(row.cells, wide, strict=True):
            assert cell_len(cut(cell, width)) <= width
            assert cut(cell, 100) == cell


def test_the_widest_gives_way_first_and_what_is_cut_says_so() -> None:
    listed = [Row("a", ("id", "a message that is rather long"))]
    assert widths(("ID", "MESSAGE"), listed, 14) == [2, 12]
    assert cut("a message that is rather long", 12) == "a message t…"
    assert cut("short", 12) == "short"


def test_what_waits_for_its_result_from_outside_stands_below_what_runs() -> None:
    tasks = [task("late", "DEFERRED", start_time=ago(hours=9)), task("new", start_time=ago(seconds=1))]
    shown = rows.running_rows(tasks, NOW)
    assert [(row.cells[1], row.cells[5]) for row in shown] == [("new", "1s"), ("late", "DEFERRED")]
