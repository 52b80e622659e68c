"""`terminate`, `requeue`, `prioritize`, `runs retry`: what they send and what they say."""

from __future__ import annotations

import pytest
from cli_furniture import workflow
from cli_served import Cli, Served

from taskyard.v1.fleet_pb2 import Worker
from taskyard.v1.tasks_pb2 import STOP_MODE_TERMINATE, STOP_MODE_UNSPECIFIED
from taskyard.v1.workflows_pb2 import RunState
from taskyard_cli.exits import Exit


def test_a_task_or_a_run_is_stopped_with_or_without_grace(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    first, run = at("submit", "x").stdout.strip(), at("run", "two").stdout.strip()
    at("cancel", first)
    assert served.wire.named("CancelTask")[-1].mode == STOP_MODE_UNSPECIFIED
    task = at("submit", "x").stdout.strip()
    shown = at("terminate", task, run, "--reason", "now")
    assert shown.stdout == f"{task} CANCELLED\n{run} CANCELLED\n"
    for name in ("CancelTask", "CancelRun"):
        assert (served.wire.named(name)[-1].mode, served.wire.named(name)[-1].reason) == (STOP_MODE_TERMINATE, "now")
    unknown = at("terminate", "nothing")
    assert (unknown.exit_code, unknown.stdout) == (Exit.NOT_FOUND, "")


def test_a_task_is_requeued_and_gets_another_priority(at: Cli, served: Served) -> None:
    at("submit", "x")
    assert at("requeue", "task-1").stdout == "task-1 QUEUED\n"
    assert at("prioritize", "task-1", "--priority", "2").stdout == "task-1 QUEUED priority 2\n"
    assert served.model.tasks["task-1"].priority == 2
    assert at("prioritize", "task-1").exit_code == Exit.USAGE
    assert at("prioritize", "task-1", "--priority", "11").exit_code == Exit.USAGE
    at("cancel", "task-1")
    ended = at("requeue", "task-1")
    assert (ended.exit_code, ended.stderr) == (Exit.REFUSED, "error: task task-1 has ended\n")


def test_a_run_is_taken_up_from_what_failed_or_from_a_step(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    at("run", "two")
    served.thread.run(served.model.set_run("run-1", RunState.RUN_STATE_FAILED))
    assert at("runs", "retry", "run-1").stdout == "run-1 RUNNING, again: failed\n"
    served.thread.run(served.model.set_run("run-1", RunState.RUN_STATE_FAILED))
    assert at("runs", "retry", "run-1", "--from", "a", "--from", "b").stdout == "run-1 RUNNING, again: a, b\n"
    running = at("runs", "retry", "run-1")
    assert (running.exit_code, running.stderr) == (Exit.REFUSED, "error: run run-1 has not ended\n")
    task = at("submit", "x").stdout.strip()
    assert "is a task and no run" in at("runs", "retry", task).stderr


def test_all_that_match_are_counted_asked_for_and_acted_on(at: Cli, served: Served) -> None:
    for _ in range(5):
        at("submit", "x")
    asked = at("cancel", "--filter", 'task_type == "x"')
    assert asked.exit_code == Exit.USAGE
    assert asked.stderr == ("error: 5 tasks match, and there is no terminal to ask on: add --yes to cancel them\n")
    assert not any(task.HasField("end_time") for task in served.model.tasks.values())
    shown = at("cancel", "--filter", 'task_type == "x"', "--yes", "--reason", "old")
    assert (shown.exit_code, shown.stdout) == (0, "cancel: 5 tasks done, 0 refused\n")
    pages = served.wire.named("BulkTasks")[-3:]
    assert [page.page_token for page in pages] == ["", "more", "more"]
    assert len({page.request_id for page in pages}) == 3
    assert {(page.action, page.reason, page.filter) for page in pages} == {(1, "old", 'task_type == "x"')}
    assert at("retry", "--filter", "a == b").stdout == "no task matches\n"


def test_what_was_refused_is_counted_by_reason(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    at("run", "two")
    shown = at("runs", "retry", "--filter", 'state == "FAILED"', "--yes")
    assert (shown.exit_code, shown.stdout) == (Exit.REFUSED, "retry: 0 runs done, 1 refused\n")
    assert shown.stderr == "error: 1 were left as they are: ALREADY_ENDED 1\n"
    assert at("terminate", "--runs", "--filter", "x", "-y").exit_code == Exit.REFUSED
    assert served.wire.named("BulkRuns")[-1].action == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cancel",), "nothing is named: name ids, or give --filter"),
        (("cancel", "task-1", "--filter", "x"), "ids and --filter are given: leave one of the two out"),
        (("cancel", "task-1", "--runs"), "--runs means nothing without --filter"),
        (("requeue", "task-1", "--yes"), "--yes means nothing without --filter"),
        (("prioritize", "--priority", "1"), "nothing is named"),
        (("runs", "retry"), "nothing is named"),
        (("runs", "retry", "--filter", "x", "--from", "a"), "--filter and --from do not go together"),
    ],
)
def test_ids_or_a_filter_and_not_both(arguments: tuple[str, ...], said: str, at: Cli) -> None:
    shown = at(*arguments)
    assert (shown.exit_code, said in shown.stderr) == (Exit.USAGE, True), shown.stderr


def test_workers_are_drained_and_forgotten(at: Cli, served: Served) -> None:
    served.model.workers.extend([Worker(worker_id="w1"), Worker(worker_id="w2")])
    assert at("workers", "drain", "w1").stdout == (
        "w1 drains, 2 tasks left: what outlasts the worker's grace runs again elsewhere\n"
    )
    assert at("workers", "forget", "w1", "w2").stdout == (
        "w1 is forgotten, 1 task taken from it\nw2 is forgotten, 1 task taken from it\n"
    )
    assert "no workers" in at("workers").stdout
    misplaced = at("workers", "--limit", "3", "drain", "w1")
    assert misplaced.exit_code == Exit.USAGE
    assert "options of `workers drain` stand behind `drain`" in misplaced.stderr
