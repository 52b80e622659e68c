"""`--wait`: what people are told while they wait for a task or a run, and how it ends."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from cli_furniture import time_at, workflow
from cli_served import Cli, Served

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_cli.exits import Exit
from taskyard_cli.failed_attempts import FailedAttempts
from taskyard_cli.run_view import RunView

Status = tasks_pb2.TaskStatus


def test_submit_and_wait(at: Cli, served: Served) -> None:
    served.model.first_status = Status.TASK_STATUS_SUCCESS
    shown = at("submit", "x", "--wait")
    assert (shown.exit_code, shown.stdout) == (0, "{}\n")
    assert json.loads(at("submit", "x", "--wait", "-o", "json").stdout)["status"] == "TASK_STATUS_SUCCESS"
    served.model.first_status = Status.TASK_STATUS_FAILED
    failed = at("submit", "x", "--wait")
    assert failed.exit_code == Exit.FAILED
    assert failed.stderr == "task task-3 is submitted\nerror: task task-3 ended FAILED; it never ran\n"
    told = at("submit", "x", "--wait", "-o", "json")
    assert (told.exit_code, json.loads(told.stdout)["status"]) == (Exit.FAILED, "TASK_STATUS_FAILED")
    served.model.first_status = Status.TASK_STATUS_TIMEOUT
    late = at("submit", "x", "--wait").stderr
    assert "ended TIMEOUT; it never ran; `taskyard workers` shows who is there and what they run\n" in late


def test_submit_and_wait_tells_why_an_attempt_failed_that_another_follows(
    at: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def changed(_seen: int) -> None:
        (task,) = served.model.tasks.values()
        if task.attempt:
            await served.model.end(task.task_id)
            return
        task.attempt, task.status = 1, Status.TASK_STATUS_PENDING
        task.error.kind, task.error.message = "HANDLER_ERROR", "KeyError: 'amout'"
        await served.model.touch(task)

    monkeypatch.setattr(served.model, "changed", changed)
    shown = at("submit", "x", "--wait")
    assert shown.exit_code == 0
    assert shown.stderr.splitlines()[1:] == [
        "task task-1: attempt 1 failed (HANDLER_ERROR: KeyError: 'amout'), the next follows"
    ]


def test_each_failed_attempt_is_told_once() -> None:
    failed, error = FailedAttempts(), tasks_pb2.TaskError(kind="TIMEOUT", message="too long")

    def at_last(status: Any, attempt: int) -> str:
        return failed.take(tasks_pb2.TaskInstance(task_id="t", status=status, attempt=attempt, error=error))

    said = "attempt {} failed (TIMEOUT: too long), the next follows"
    assert at_last(Status.TASK_STATUS_PENDING, 1) == said.format(1)
    assert at_last(Status.TASK_STATUS_QUEUED, 1) == ""
    assert at_last(Status.TASK_STATUS_QUEUED, 2) == said.format(2)
    assert at_last(Status.TASK_STATUS_TIMEOUT, 3) == ""
    assert failed.take(tasks_pb2.TaskInstance(task_id="u", status=Status.TASK_STATUS_PENDING)) == ""


@pytest.mark.parametrize("kind", ["REQUEUED", "INTERRUPTED", "REJECTED", "NEVER_STARTED"])
def test_what_was_given_back_has_not_failed(kind: str) -> None:
    given_back = tasks_pb2.TaskInstance(
        task_id="t", status=Status.TASK_STATUS_QUEUED, attempt=1,
        error=tasks_pb2.TaskError(kind=kind, message="somebody wanted it"),
    )  # fmt: skip
    assert FailedAttempts().take(given_back) == (
        f"attempt 1 was given back ({kind}: somebody wanted it), the next follows"
    )


def test_waiting_no_longer_than_asked(at: Cli) -> None:
    shown = at("submit", "x", "--wait", "--timeout", "100ms")
    assert shown.exit_code == Exit.TIMED_OUT
    assert "task task-1 is QUEUED after 0.1 s and goes on; `taskyard explain task-1` says why" in shown.stderr


def test_a_state_that_is_not_known_yet_is_not_told(at: Cli) -> None:
    shown = at("submit", "x", "--wait", "--timeout", "0s")
    assert shown.exit_code == Exit.TIMED_OUT
    assert "task task-1 has not ended after 0 s and goes on" in shown.stderr


def steps_go(served: Served, state: str, error: str = "") -> Any:
    """Lets the first run's steps end one after the other once it is watched."""

    async def go() -> None:
        await served.wire.reached(lambda: bool(served.wire.named("WatchRun")))
        run = next(iter(served.model.runs))
        for at, step in enumerate(("fetch", "join")):
            await served.model.set_step(run, step, Status.TASK_STATUS_RUNNING, worker_id=f"w-{at}", attempt=1)
            await served.model.set_step(
                run, step, Status.TASK_STATUS_SUCCESS, start_time=time_at(at), end_time=time_at(at + 1.5)
            )
        word = workflows_pb2.RunState.Value(f"RUN_STATE_{state}")
        said = error or ("step `join` failed" if state == "FAILED" else "")
        output = "" if error else '{"pages":3}'
        await served.model.set_run(run, word, output_json=output, error_message=said)

    return served.thread.spawn(go())


def test_run_and_wait_tells_each_step(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    going = steps_go(served, "SUCCEEDED")
    shown = at("run", "two", "--wait")
    going.result(10)
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, {"pages": 3})
    lines = shown.stderr.splitlines()
    assert lines[-1] == "step join SUCCESS, on w-1, in 1.5 s"
    assert "step fetch SUCCESS, on w-0, in 1.5 s" in lines


@pytest.mark.parametrize("form", [(), ("-o", "json")])
def test_run_and_wait_fails_where_there_is_no_output_to_wait_for(
    at: Cli, served: Served, form: tuple[str, ...]
) -> None:
    served.model.workflows["two"] = workflow()
    going = steps_go(served, "SUCCEEDED", "the run's output could not be made: output.pages: no such member")
    shown = at("run", "two", "--wait", *form)
    going.result(10)
    assert shown.exit_code == Exit.FAILED
    assert "SUCCEEDED, and the run's output could not be made: output.pages: no such member" in shown.stderr


def test_run_and_wait_tells_why_an_attempt_failed_that_another_follows(
    at: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.model.workflows["two"] = workflow()

    async def changed(_seen: int) -> None:
        model, (run,) = served.model, served.model.runs
        fetch = next(each for each in model.steps[run] if each.step_id == "fetch")
        if not fetch.attempt:
            error = tasks_pb2.TaskError(kind="HANDLER_ERROR", message="KeyError: 'amout'\x1b[2J")
            await model.set_step(run, "fetch", Status.TASK_STATUS_PENDING, task_id="t", attempt=1, error=error)
        elif fetch.status == Status.TASK_STATUS_PENDING:
            await model.set_step(run, "fetch", Status.TASK_STATUS_QUEUED)
        else:
            await model.set_run(run, workflows_pb2.RunState.RUN_STATE_SUCCEEDED, output_json="{}")

    monkeypatch.setattr(served.model, "changed", changed)
    shown = at("run", "two", "--wait")
    said = "attempt 1 failed (HANDLER_ERROR: KeyError: 'amout'␛[2J), the next follows"
    assert shown.stderr.splitlines().count(f"step fetch: {said}") == 1
    assert "\x1b[2J" not in shown.stderr


def test_what_ends_together_is_told_with_causes_before_effects() -> None:
    def step(step_id: str, status: Any, ended: float | None, *needs: str) -> workflows_pb2.RunStep:
        end = None if ended is None else time_at(ended)
        return workflows_pb2.RunStep(step_id=step_id, status=status, end_time=end, needs=needs)

    failed, skipped, queued = Status.TASK_STATUS_FAILED, Status.TASK_STATUS_SKIPPED, Status.TASK_STATUS_QUEUED
    steps = [
        step("after", queued, None, "good"), step("z", skipped, 2, "y"), step("y", skipped, 2, "bad"),
        step("bad", failed, 2), step("good", Status.TASK_STATUS_SUCCESS, 1), step("a", skipped, 2, "z", "y"),
    ]  # fmt: skip
    for frame in itertools.permutations(steps):
        told = [each.step_id for each in RunView().take(workflows_pb2.WatchRunResponse(steps=frame))]
        assert told == ["good", "bad", "y", "z", "a", "after"]
    view = RunView()
    view.take(workflows_pb2.WatchRunResponse(steps=[step(each.step_id, queued, None, *each.needs) for each in steps]))
    told = [each.step_id for each in view.take(workflows_pb2.WatchRunResponse(steps=steps[1:4]))]
    assert told == ["bad", "y", "z"]


def test_run_and_wait_for_one_that_fails(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    going = steps_go(served, "FAILED")
    shown = at("run", "two", "--wait", "-o", "json")
    going.result(10)
    assert (shown.exit_code, json.loads(shown.stdout)["state"]) == (Exit.FAILED, "RUN_STATE_FAILED")
    assert shown.stderr.splitlines()[-1] == (
        "error: run run-1 of `two` ended FAILED: step `join` failed; `taskyard runs show run-1` shows its steps"
    )


def test_run_waits_no_longer_than_asked(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    shown = at("run", "two", "--wait", "--timeout", "200ms")
    assert shown.exit_code == Exit.TIMED_OUT
    assert "run run-1 is RUNNING after 0.2 s and goes on; 0 of 2 steps have ended" in shown.stderr


def test_a_state_of_a_run_that_is_not_known_yet_is_not_told(at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    shown = at("run", "two", "--wait", "--timeout", "0s")
    assert shown.exit_code == Exit.TIMED_OUT
    assert "run run-1 has not ended after 0 s and goes on" in shown.stderr
