"""What `submit` and `run` send of what was asked for, and what they say when a key or a wait is not what it seems."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import grpc
import pytest
from cli_furniture import workflow
from cli_served import Cli, Served
from scripted_faults import Fault

from taskyard.v1.tasks_pb2 import TaskSubmission
from taskyard_cli.exits import Exit


def sent(at: Cli, served: Served, *arguments: str) -> TaskSubmission:
    shown = at("submit", "x", *arguments)
    assert (shown.exit_code, shown.stderr) == (0, "")
    (task,) = served.wire.named("SubmitTasks")[-1].tasks
    assert isinstance(task, TaskSubmission)
    return task


def test_everything_that_a_submission_may_ask_for_can_be_asked_for(at: Cli, served: Served) -> None:
    task = sent(
        at, served, "--task", "d", "-p", "a=1", "--input", '{"b":2}', "--priority", "2", "--key", "k",
        "--attempts", "4", "--retry-delay", "2s", "--retry-factor", "3", "--retry-max-delay", "5m",
        "--retry-jitter", "0",
        "--queued-timeout", "1m", "--start-timeout", "7s", "--run-timeout", "1h30m", "--total-timeout", "1d",
        "--selector", "lang=java", "--affinity", "zone=a", "--cpus", "0.5", "--memory-mb", "2048", "--gpus", "1",
        "--exclusive", "--worker", "w-1",
        "--at", "2027-01-01T00:00Z", "--delay", "90s", "--expires", "2028-01-01T00:00Z", "--tag", "a",
        "--tag", "b",
    )  # fmt: skip
    retry, timeouts, resources, placement = task.retry, task.timeouts, task.resources, task.placement
    assert (retry.max_attempts, retry.first_delay.seconds, retry.factor, retry.max_delay.seconds) == (4, 2, 3, 300)
    assert retry.HasField("jitter")
    assert (timeouts.queued_timeout.seconds, timeouts.start_timeout.seconds) == (60, 7)
    assert (timeouts.run_timeout.seconds, timeouts.total_timeout.seconds) == (5400, 86400)
    assert (placement.selector, placement.affinity, placement.worker_id) == ("lang=java", "zone=a", "w-1")
    assert (resources.cpu_millis, resources.memory_mb, resources.gpus) == (500, 2048, 1)
    times = [task.schedule_time.ToJsonString(), task.expire_time.ToJsonString()]
    assert times == ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]
    assert (task.start_delay.seconds, list(task.tags)) == (90, ["a", "b"])
    # A new field of the contract needs an option, or a place among those that the command has no use for.
    without = {field.name for field in TaskSubmission.DESCRIPTOR.fields} - {
        field.name for field, _ in task.ListFields()
    }
    assert without == {"traceparent"}


@pytest.mark.parametrize("option", ["--cpus", "--memory-mb", "--gpus"])
def test_nothing_of_a_resource_is_another_wish_than_no_word_of_it(option: str, at: Cli, served: Served) -> None:
    assert not sent(at, served).HasField("resources")
    assert sent(at, served, option, "0").HasField("resources")  # over a definition's


def test_the_cores_are_counted_to_a_thousandth(at: Cli, served: Served) -> None:
    assert sent(at, served, "--cpus", "0.001").resources.cpu_millis == 1
    assert sent(at, served, "--cpus", "1.005").resources.cpu_millis == 1005
    shown = at("submit", "x", "--cpus", "0.0004")
    assert shown.stderr == "error: --cpus is 0.0004: cores are counted to a thousandth; write 0.001\n"


@pytest.mark.parametrize(
    ("first", "then", "differences"),
    [
        (("a", "-p", "x=1"), ("a", "-p", "x=1"), ""),
        (("a", "--input", '{"x": 1}'), ("a", "--input", '{ "x":1 }'), ""),
        (("a",), ("b",), "type"),
        (("a", "-p", "x=1"), ("a", "-p", "x=2"), "param x"),
        (("a", "-p", "x=1"), ("a", "-p", "y=1"), "param x, param y"),
        (("a", "-p", "x=1"), ("a",), "param x"),
        (("a", "--input", '{"x": 1}'), ("a", "--input", '{"x": [1]}'), "input x"),
        (("a", "--priority", "1"), ("a", "--priority", "2"), "priority"),
        (("a", "--gpus", "1"), ("a", "--gpus", "1"), ""),
        (("a", "--gpus", "1"), ("a",), "resources"),
        (("a",), ("a", "--cpus", "2"), "resources"),
        (("a", "--task", "d", "--gpus", "1"), ("a", "--task", "d"), ""),  # as below
        (("a", "--task", "d"), ("a", "--task", "e"), "definition"),
        (("a", "--task", "d", "-p", "x=1"), ("a", "--task", "d"), ""),  # it may be the definition's own
        (("a", "-p", "a=1"), ("a", *(f"-p{name}=1" for name in "bcdefg")),
         "param a, param b, param c, param d, param e, …"),
    ],
)  # fmt: skip
def test_a_key_that_was_used_before_is_said(
    first: tuple[str, ...], then: tuple[str, ...], differences: str, at: Cli
) -> None:
    assert at("submit", *first, "--key", "k").stderr == ""
    again = at("submit", *then, "--key", "k")
    assert (again.exit_code, again.stdout) == (0, "task-1\n")
    said = "note: the key `k` is that of task task-1; this made no other task"
    if differences:
        said += f", although it asks for something else ({differences}): take another key for that; "
        said += "`taskyard task show task-1` shows the first"
    assert again.stderr == f"{said}\n"
    assert json.loads(at("submit", *then, "--key", "k", "-o", "json").stdout)["repeatedRequest"] is True


@pytest.mark.parametrize(
    ("then", "differences"),
    [
        (("two", "-i", "day=1"), ""),
        (("two",), ""),  # the rest may be defaults
        (("two", "-i", "day=2"), "input day"),
        (("other", "-i", "day=1"), "workflow"),
        (("two", "-i", "day=1", "--version", "9"), "version"),
    ],
)
def test_a_key_of_a_run_that_was_used_before_is_said(
    then: tuple[str, ...], differences: str, at: Cli, served: Served
) -> None:
    served.model.workflows |= {"two": workflow(), "other": workflow()}
    assert at("run", "two", "-i", "day=1", "--key", "k").stderr == ""
    again = at("run", *then, "--key", "k")
    assert (again.exit_code, again.stdout) == (0, "run-1\n")
    assert again.stderr.startswith("note: the key `k` is that of run run-1; this made no other run")
    assert (f"({differences})" in again.stderr) == bool(differences)


@pytest.mark.parametrize("what", ["task", "run"])
def test_a_wait_for_what_was_submitted_before_says_so(what: str, at: Cli, served: Served) -> None:
    served.model.workflows["two"] = workflow()
    command = ("submit" if what == "task" else "run", "two", "--key", "k", "--wait", "--timeout", "50ms")
    assert f"{what} {what}-1 is submitted\n" in at(*command).stderr
    again = at(*command).stderr
    assert f"{what} {what}-1 was submitted before\n" in again
    assert "is submitted" not in again


def test_the_id_is_told_when_the_earlier_task_cannot_be_read(at: Cli, served: Served) -> None:
    at("submit", "a", "--key", "k")
    served.server.script("GetTask", Fault(grpc.StatusCode.PERMISSION_DENIED, "no", "ROLE"))
    again = at("submit", "b", "--key", "k")
    assert (again.exit_code, again.stdout) == (0, "task-1\n")
    assert again.stderr == "note: the key `k` is that of task task-1; this made no other task\n"


def test_an_answer_that_was_lost_is_no_key_that_was_used_before(at: Cli, served: Served) -> None:
    served.server.script("SubmitTasks", Fault(late=True))
    shown = at("submit", "a")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "task-1\n", "")


@pytest.mark.parametrize(
    ("arguments", "watch", "goes_on"),
    [
        (("submit", "two"), "WatchTasks", "task task-1 goes on: `taskyard logs -f task-1` follows it, "),
        (("run", "two"), "WatchRun", "run run-1 goes on: `taskyard runs show run-1` shows it, "),
    ],
)
def test_a_wait_that_fails_says_what_goes_on(
    arguments: tuple[str, ...], watch: str, goes_on: str, at: Cli, served: Served
) -> None:
    served.model.workflows["two"] = workflow()
    served.server.script(watch, Fault(grpc.StatusCode.INTERNAL, "boom"))
    shown = at(*arguments, "--wait")
    assert shown.exit_code == Exit.UNEXPECTED
    first, second, error = shown.stderr.splitlines()
    assert first.endswith("is submitted")
    assert second.startswith(goes_on)
    assert error.startswith("error: ")


def test_a_wait_that_says_the_id_itself_says_it_once(at: Cli) -> None:
    shown = at("submit", "x", "--wait", "--timeout", "50ms")
    assert shown.exit_code == Exit.TIMED_OUT
    assert "goes on:" not in shown.stderr


def test_a_check_submits_nothing_and_says_where_it_would_go(at: Cli, served: Served) -> None:
    shown = at("submit", "x", "--check")
    assert (shown.exit_code, served.model.tasks) == (0, {})
    assert "would start at once. Nothing was submitted." in shown.stdout
    assert "w1" in shown.stdout
    refused = at("submit", "odd", "--check")
    assert (refused.exit_code, refused.stderr) == (Exit.REFUSED, "error: odd\n")
    both = at("submit", "x", "--check", "--wait")
    assert (both.exit_code, "leave one of the two out" in both.stderr) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--at", "tomorrow"), "error: --at: `tomorrow` is no time; write one such as 2026-12-01T08:00 (local time)"),
        (("--delay", "5"), "error: --delay: `5` is no duration"),
        (("--expires", "soon"), "or a duration such as 2h"),
        (("--tag", ""), "--tag is empty"),
    ],
)
def test_a_time_that_is_none_is_refused_with_one_that_is(arguments: tuple[str, ...], said: str, at: Cli) -> None:
    shown = at("submit", "x", *arguments)
    assert (shown.exit_code, said in shown.stderr) == (Exit.USAGE, True), shown.stderr


def test_a_time_without_a_zone_is_local_and_an_expiry_may_be_a_duration(at: Cli, served: Served) -> None:
    task = sent(at, served, "--at", "2027-06-01T12:00", "--expires", "2h")
    assert task.schedule_time.ToDatetime(UTC) == datetime(2027, 6, 1, 12).astimezone()
    assert 7_100 < task.expire_time.seconds - time.time() < 7_300


def test_variables_are_set_shown_listed_and_deleted(at: Cli, served: Served) -> None:
    assert at("variable", "set", "region", "eu", "--description", "where").stdout == 'region = "eu"\n'
    assert at("variable", "set", "rows", "[1,2]").stdout == "rows = [1,2]\n"
    assert 'value        "eu"' in at("variable", "get", "region").stdout
    assert [line.split()[0] for line in at("variable", "list").stdout.splitlines()] == ["NAME", "region", "rows"]
    assert at("variable", "delete", "region").stdout == "region deleted\n"
    gone = at("variable", "get", "region")
    assert (gone.exit_code, gone.stderr) == (Exit.NOT_FOUND, "error: there is no variable region\n")
