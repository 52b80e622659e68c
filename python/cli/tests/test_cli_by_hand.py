"""`terminate`, `requeue`, `prioritize`, `runs retry`: what they send and what they say."""

from __future__ import annotations

from cli_served import Cli, Served
from test_cli_commands import workflow

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
