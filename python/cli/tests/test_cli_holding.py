"""`mark`, `complete`, `broadcast`, `pause`, `resume`, `pauses`: what they send, what they say, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_furniture import time_at, workflow
from cli_served import Cli, Served
from google.protobuf.json_format import Parse

from taskyard.v1 import fleet_pb2, tasks_pb2, workflows_pb2
from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard.v1.tasks_pb2 import BulkTaskOutcome, TaskStatus
from taskyard_cli.exits import Exit


def workers(served: Served, **states: str) -> None:
    for worker_id, word in states.items():
        value = fleet_pb2.WorkerState.Value(f"WORKER_STATE_{word}")
        served.model.workers.append(fleet_pb2.Worker(worker_id=worker_id, state=value))


def a_run(at: Cli, served: Served) -> str:
    served.model.workflows["two"] = workflow()
    return at("run", "two").stdout.strip()


# --- marks -----------------------------------------------------------------------------------------


def test_tasks_are_marked_with_an_output_or_passed_over(at: Cli, served: Served, tmp_path: Path) -> None:
    for _ in range(4):
        at("submit", "x")
    value = tmp_path / "value.json"
    value.write_text("[1]")
    assert at("mark", "success", "task-1", "--result", f"@{value}", "--reason", "by phone").stdout == "task-1 SUCCESS\n"
    sent = served.wire.named("MarkTask")[-1]
    assert (sent.output_json, sent.reason, sent.marked_as) == ("[1]", "by phone", tasks_pb2.MARKED_AS_SUCCESS)
    assert at("mark", "skipped", "task-2", "task-3").stdout == "task-2 SKIPPED\ntask-3 SKIPPED\n"
    told = at("mark", "success", "task-4", "-o", "json").stdout
    assert Parse(told, BulkTaskOutcome()).status == TaskStatus.TASK_STATUS_SUCCESS
    again = at("mark", "skipped", "task-1", "nothing")
    assert (again.exit_code, again.stdout) == (Exit.NOT_FOUND, "")
    assert "the task has succeeded" in again.stderr


def test_a_step_is_marked_also_one_that_has_not_begun(at: Cli, served: Served) -> None:
    run = a_run(at, served)
    shown = at("mark", "success", run, "--step", "fetch", "--result", '{"rows": 2}')
    assert (shown.exit_code, shown.stdout) == (0, f"{run} step fetch SUCCESS, its run is RUNNING\n")
    told = at("mark", "skipped", run, "--step", "join", "-o", "json").stdout
    assert Parse(told, workflows_pb2.MarkStepResponse()).status == TaskStatus.TASK_STATUS_SKIPPED
    assert at("mark", "skipped", run, "--step", "c").exit_code == Exit.NOT_FOUND
    task = at("submit", "x").stdout.strip()
    assert f"{task} is a task and no run" in at("mark", "skipped", task, "--step", "a").stderr
    assert f"{run} is a run and no task" in at("mark", "skipped", run).stderr


def test_what_a_worker_has_is_said_to_be_stopped_first(at: Cli, served: Served) -> None:
    served.model.first_status = TaskStatus.TASK_STATUS_RUNNING
    at("submit", "x")
    shown = at("mark", "skipped", "task-1")
    assert shown.stdout == "task-1 CANCELLING until its worker has stopped it, then SKIPPED\n"


def test_all_that_match_are_marked_after_a_question(at: Cli, served: Served) -> None:
    for _ in range(3):
        at("submit", "x")
    asked = at("mark", "skipped", "--filter", 'task_type == "x"')
    assert asked.exit_code == Exit.USAGE
    assert asked.stderr == (
        "error: 3 tasks match, and there is no terminal to ask on: add --yes to mark them as SKIPPED\n"
    )
    shown = at("mark", "skipped", "--filter", 'task_type == "x"', "--yes", "--reason", "old")
    assert shown.stdout == "mark as SKIPPED: 3 tasks done, 0 refused\n"
    sent = served.wire.named("BulkTasks")[-1]
    assert (sent.action, sent.reason) == (tasks_pb2.BULK_ACTION_MARK_SKIPPED, "old")
    at("submit", "x")
    at("mark", "success", "--filter", "x", "-y")
    assert served.wire.named("BulkTasks")[-1].action == tasks_pb2.BULK_ACTION_MARK_SUCCESS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("success",), "nothing is named"),
        (("success", "a", "b", "--step", "s"), "--step is of one run, and 2 ids are given"),
        (("success", "--filter", "x", "--step", "s"), "--filter and --step do not go together"),
        (("success", "--filter", "x", "--result", "1"), "--filter and --result do not go together"),
        (("success", "--filter", "x", "-o", "json"), "--filter and --output json do not go together"),
        (("success", "a", "--yes"), "--yes means nothing without --filter"),
        (("skipped", "a", "--result", "1"), "No such option"),
        (("success", "a", "--result", ""), "--result is empty"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(arguments: tuple[str, ...], said: str, at: Cli, served: Served) -> None:
    shown = at("mark", *arguments)
    assert shown.exit_code == Exit.USAGE
    assert said in shown.stderr
    assert not served.wire.calls


def test_an_output_that_is_no_json_is_refused(at: Cli, served: Served) -> None:
    shown = at("mark", "success", "a", "--result", "yes")
    assert (shown.exit_code, shown.stderr.startswith("error: --result is no JSON")) == (Exit.REFUSED, True)
    assert not served.wire.calls


# --- results from outside --------------------------------------------------------------------------


def test_a_result_comes_from_outside(at: Cli, served: Served) -> None:
    served.model.first_status = TaskStatus.TASK_STATUS_DEFERRED
    for _ in range(3):
        at("submit", "x")
    shown = at("complete", "task-1.good", "--result", '{"approved": true}', "--request-id", "once")
    assert (shown.exit_code, shown.stdout) == (0, "task-1 SUCCESS\n")
    sent = served.wire.named("CompleteTask")[-1]
    assert (sent.output_json, sent.request_id) == ('{"approved":true}', "once")
    failed = at("complete", "task-2.good", "--failed", "nobody agreed", "--kind", "NON_RETRYABLE", "-o", "json")
    assert json.loads(failed.stdout) == {"taskId": "task-2", "status": "TASK_STATUS_FAILED"}
    sent = served.wire.named("CompleteTask")[-1]
    assert (sent.error_message, sent.error_kind) == ("nobody agreed", "NON_RETRYABLE")
    stale = at("complete", "task-3.stale")
    assert (stale.exit_code, stale.stderr) == (Exit.REFUSED, "error: the token's attempt is over\n")
    assert at("complete", "task-9.good").exit_code == Exit.NOT_FOUND


def test_a_failure_that_another_attempt_follows_is_said_so(at: Cli) -> None:
    at("submit", "x")
    shown = at("complete", "task-1.again", "--failed", "the line is down")
    assert shown.stdout == "task-1 PENDING again: another attempt follows, with a token of its own\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("task-1",), "'task-1' is no token: one is the task's id, a dot and"),
        (("task-1.good", "--kind", "X"), "--kind means nothing without --failed"),
        (("task-1.good", "--failed", "no", "--result", "1"), "--failed and --result do not go together"),
        (("task-1.good", "--failed", ""), "--failed is empty"),
    ],
)
def test_a_result_that_means_nothing_is_refused(arguments: tuple[str, ...], said: str, at: Cli, served: Served) -> None:
    shown = at("complete", *arguments)
    assert shown.exit_code == Exit.USAGE
    assert said in shown.stderr
    assert not served.wire.calls


# --- broadcast -------------------------------------------------------------------------------------


def test_a_task_for_each_worker(at: Cli, served: Served) -> None:
    workers(served, w1="HEALTHY", w2="DRAINING", w3="HEALTHY")
    shown = at("broadcast", "shell", "-p", "command=df", "--selector", "zone=a", "--priority", "1")
    assert shown.exit_code == 0
    assert [line.split() for line in shown.stdout.splitlines()[:3]] == [
        ["WORKER", "TASK", "ID"], ["w1", "task-1"], ["w3", "task-2"],
    ]  # fmt: skip
    assert shown.stdout.splitlines()[3] == "left out, since they take no tasks now: w2"
    task = served.wire.named("BroadcastTask")[-1].task
    assert (task.task_type, task.params["command"], task.placement.selector, task.priority) == (
        "shell", "df", "zone=a", 1,
    )  # fmt: skip
    told = at("broadcast", "shell", "-o", "json").stdout
    assert [copy.worker_id for copy in Parse(told, tasks_pb2.BroadcastTaskResponse()).copies] == ["w1", "w3"]
    served.model.workers.clear()
    none = at("broadcast", "shell")
    assert (none.exit_code, none.stderr) == (Exit.REFUSED, "error: no worker takes it now\n")


def test_their_ends_are_waited_for(at: Cli, served: Served) -> None:
    workers(served, w1="HEALTHY", w2="DRAINING")
    served.model.first_status = TaskStatus.TASK_STATUS_SUCCESS
    shown = at("broadcast", "shell", "--wait")
    assert shown.exit_code == 0
    assert shown.stderr == "task task-1 is submitted for worker w1\n"
    assert shown.stdout.splitlines()[1].split() == ["w1", "SUCCESS", "{}", "task-1"]
    assert "left out" in shown.stdout
    served.model.first_status = TaskStatus.TASK_STATUS_FAILED
    bad = at("broadcast", "shell", "--wait", "-o", "json")
    assert bad.exit_code == Exit.FAILED
    assert [task["taskId"] for task in json.loads(bad.stdout)["tasks"]] == ["task-2"]
    assert bad.stderr.endswith("error: 1 of 1 did not succeed\n")
    served.model.first_status = TaskStatus.TASK_STATUS_QUEUED
    late = at("broadcast", "shell", "--wait", "--timeout", "0.01s")
    assert late.exit_code == Exit.TIMED_OUT


@pytest.mark.parametrize("arguments", [("--key", "k"), ("--worker", "w"), ("--check",)], ids=["key", "worker", "check"])
def test_a_broadcast_has_no_option_that_makes_no_sense_for_it(arguments: tuple[str, ...], at: Cli) -> None:
    shown = at("broadcast", "shell", *arguments)
    assert (shown.exit_code, "No such option" in shown.stderr) == (Exit.USAGE, True)


def test_a_broadcast_names_what_it_is_of(at: Cli, served: Served) -> None:
    assert at("broadcast").exit_code == Exit.USAGE
    assert "--timeout means nothing without --wait" in at("broadcast", "x", "--timeout", "1s").stderr
    assert not served.wire.calls


# --- pauses ----------------------------------------------------------------------------------------

SCOPES = [
    (("--type", "shell"), "TASK_TYPE", "shell", "task type shell"),
    (("--queue", "shell-1f"), "QUEUE", "shell-1f", "queue shell-1f"),
    (("--workflow", "two"), "WORKFLOW", "two", "workflow two"),
    (("--run", "run-1"), "RUN", "run-1", "run run-1"),
    (("--tenant",), "TENANT", "", "the whole tenant"),
    (("--all",), "ALL", "", "everything"),
]


@pytest.mark.parametrize(("options", "scope", "name", "words"), SCOPES, ids=[each[1] for each in SCOPES])
def test_each_scope_is_paused_and_goes_on(
    options: tuple[str, ...], scope: str, name: str, words: str, at: Cli, served: Served
) -> None:
    a_run(at, served)
    asked = ("--yes",) if not name else ()
    shown = at("pause", *options, *asked, "--reason", "new disk")
    way = " ".join(("taskyard resume", *options))
    assert (shown.exit_code, shown.stdout) == (0, f"{words} is paused; `{way}` lets it go on\n")
    sent = served.wire.named("PauseWork")[-1]
    assert (PauseScope.Name(sent.scope), sent.name, sent.reason) == (f"PAUSE_SCOPE_{scope}", name, "new disk")
    listed = at("pauses").stdout.splitlines()
    assert listed[0].split() == ["PAUSED", "SINCE", "BY", "REASON"]
    assert listed[1].split("  ")[0] == words
    assert listed[1].endswith("ann  new disk")
    assert Parse(at("pauses", "-o", "json").stdout, fleet_pb2.ListPausesResponse()).pauses[0].name == name
    gone = at("resume", *options)
    assert (gone.exit_code, gone.stdout) == (0, f"{words} goes on; it was paused since 2023-11-14 22:13:20\n")
    assert at("pauses").stdout == "nothing is paused\n"
    again = at("resume", *options, "-o", "json")
    assert (again.exit_code, "is not paused by itself" in again.stderr) == (Exit.REFUSED, True)


@pytest.mark.parametrize(
    ("option", "said"), [("--tenant", "all tasks of your tenant"), ("--all", "all tasks of all tenants")]
)
def test_what_is_wide_is_paused_after_a_question(option: str, said: str, at: Cli, served: Served) -> None:
    shown = at("pause", option)
    assert shown.exit_code == Exit.USAGE
    assert shown.stderr == (f"error: {said} would wait, and there is no terminal to ask on: add --yes to pause them\n")
    assert not served.wire.calls


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what; --type, --queue, --workflow, --run, --tenant, --all are the choices"),
        (("--type", "a", "--run", "b"), "--type and --run are given: name one thing at a time"),
        (("--type", ""), "--type is empty"),
    ],
)
def test_one_thing_is_paused_at_a_time(command: str, arguments: tuple[str, ...], said: str, at: Cli) -> None:
    shown = at(command, *arguments)
    assert shown.exit_code == Exit.USAGE
    assert said in shown.stderr


def test_a_task_is_no_run_to_be_paused(at: Cli, served: Served) -> None:
    task = at("submit", "x").stdout.strip()
    shown = at("pause", "--run", task)
    assert (shown.exit_code, f"{task} is a task and no run" in shown.stderr) == (Exit.NOT_FOUND, True)
    assert "--yes means nothing without --tenant or --all" in at("pause", "--type", "x", "--yes").stderr
    assert not served.model.held.pauses


# --- how it looks ----------------------------------------------------------------------------------


def test_queues_say_what_holds_them(at: Cli, served: Served) -> None:
    held = Pause(scope=PauseScope.PAUSE_SCOPE_TENANT, reason="stocktaking")
    served.model.queues.append(
        fleet_pb2.Queue(name="x-1", task_type="x", waiting=7, held=2, pause=held, worker_id="w-1")
    )
    head, row = at("queues").stdout.splitlines()
    assert head.split()[:6] == ["QUEUE", "TYPE", "WAITING", "HELD", "PAUSED", "SINCE"]
    assert row.split("  ")[0] == "x-1"
    assert "the whole tenant: stocktaking" in row
    assert "w-1" in row
    by = [Pause(scope=PauseScope.PAUSE_SCOPE_WORKFLOW, name="nightly", reason="month end"),
          Pause(scope=PauseScope.PAUSE_SCOPE_RUN, name="r-1")]  # fmt: skip
    served.model.queues[0].held_by.extend(by)
    assert "the whole tenant: stocktaking; workflow nightly: month end; run r-1 " in at("queues").stdout


def test_a_paused_run_says_so(at: Cli, served: Served) -> None:
    run = a_run(at, served)
    held = Pause(scope=PauseScope.PAUSE_SCOPE_WORKFLOW, name="two", reason="month end", paused_by="ann")
    held.create_time.CopyFrom(time_at(0))
    served.model.runs[run].pause.CopyFrom(held)
    assert "RUNNING, paused" in at("runs").stdout
    assert "paused    workflow two, since 2026-11-29 19:43:07 by ann: month end" in at("runs", "show", run).stdout


def test_what_was_marked_is_no_error(at: Cli, served: Served) -> None:
    run = a_run(at, served)
    error = tasks_pb2.TaskError(kind="MARKED", message="seen by hand")
    served.thread.run(served.model.set_step(run, "fetch", TaskStatus.TASK_STATUS_SUCCESS, error=error))
    assert "marked by hand: seen by hand" in at("runs", "show", run).stdout
    at("submit", "x")
    task = served.model.tasks["task-2"]
    task.status = TaskStatus.TASK_STATUS_SKIPPED
    task.error.CopyFrom(error)
    shown = at("task", "show", "task-2").stdout
    assert "marked by hand  seen by hand" in shown
    assert "error" not in shown
    task.error.message = ""
    assert "marked by hand  no reason given" in at("task", "show", "task-2").stdout


def test_a_deferred_task_says_until_when_it_waits(at: Cli, served: Served) -> None:
    at("submit", "x")
    task = served.model.tasks["task-1"]
    task.status = TaskStatus.TASK_STATUS_DEFERRED
    task.schedule_time.CopyFrom(time_at(0))
    shown = at("task", "show", "task-1").stdout
    assert "DEFERRED" in shown
    assert "waits until  2026-11-29 19:43:07" in shown


def test_a_name_that_nobody_knows_is_paused_with_a_note(at: Cli, served: Served) -> None:
    workers(served, one="HEALTHY")
    served.model.workers[0].capabilities.append("fetch")
    slip = at("pause", "--type", "fetchh")
    assert (slip.exit_code, slip.stderr) == (
        0,
        "note: no live worker offers the type fetchh. Did you mean fetch?\n",
    )
    assert at("pause", "--type", "fetch").stderr == ""
    served.model.queues.append(fleet_pb2.Queue(name="fetch", task_type="fetch", waiting=2))
    assert at("pause", "--queue", "fetch").stderr == ""
    empty = at("pause", "--queue", "nope")
    assert "note: nothing waits in a queue of the name nope; `taskyard queues` lists" in empty.stderr
    served.model.workers[0].capabilities.append("*")
    assert at("pause", "--type", "whatever").stderr == ""
