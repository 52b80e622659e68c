"""Each command against a scripted server: what it sends, what people see, what programs get."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from cli_furniture import time_at, workflow
from cli_served import Cli, Served
from google.protobuf.json_format import Parse
from rich.console import Console
from scripted_faults import Fault

from taskyard.v1 import fleet_pb2, policies_pb2, tasks_pb2, workflows_pb2
from taskyard_cli.counting import counted
from taskyard_cli.exits import Exit
from taskyard_cli.show import table
from taskyard_cli.task_commands import explanation

Golden = Callable[[str, str], None]
Status = tasks_pb2.TaskStatus


@pytest.fixture
def furnished(served: Served) -> Served:
    """A server with some of everything."""
    model = served.model
    model.tasks["task-a"] = tasks_pb2.TaskInstance(
        task_id="task-a", task_type="shell", status=Status.TASK_STATUS_SUCCESS, priority=5, attempt=2,
        params={"command": "echo hi"}, input_json='{"a":1}', output_json='{"exit_code":0}', worker_id="w-1",
        create_time=time_at(0), start_time=time_at(1), end_time=time_at(3.25), run_id="run-a", step_id="fetch",
        idempotency_key="key", resources=policies_pb2.Resources(cpu_millis=500, memory_mb=2_048, gpus=1),
    )  # fmt: skip
    model.tasks["task-b"] = tasks_pb2.TaskInstance(
        task_id="task-b", task_type="evil\x1b[31m\r\n", status=Status.TASK_STATUS_RUNNING, priority=1, attempt=1,
        create_time=time_at(60), start_time=time_at(61), percent=40.3333, progress_message="page 4 of 10",
    )  # fmt: skip
    model.attempts["task-a"] = [
        tasks_pb2.TaskAttempt(
            attempt=1, status=Status.TASK_STATUS_FAILED, worker_id="w-2", start_time=time_at(0.2),
            end_time=time_at(0.5), error=tasks_pb2.TaskError(kind="HANDLER_ERROR", message="exit code 1"),
        ),
        tasks_pb2.TaskAttempt(
            attempt=2, status=Status.TASK_STATUS_SUCCESS, worker_id="w-1", start_time=time_at(1),
            end_time=time_at(3.25),
        ),
    ]  # fmt: skip
    model.logs["task-a"] = [
        tasks_pb2.StoredLogLine(attempt=1, line=0, content=tasks_pb2.LogLine(text="first try", stream="stdout")),
        tasks_pb2.StoredLogLine(
            attempt=2, line=0, content=tasks_pb2.LogLine(text="again", stream="log", level="WARNING")
        ),
        tasks_pb2.StoredLogLine(attempt=2, line=1, content=tasks_pb2.LogLine(text="\x1b[1mhi", stream="stdout")),
    ]
    model.workflows["two"] = workflow()
    model.runs["run-a"] = workflows_pb2.Run(
        run_id="run-a", workflow="two", version=3, state=workflows_pb2.RunState.RUN_STATE_FAILED,
        inputs_json='{"day":"2026-11-29"}', error_message="step `join` failed", steps_total=2, steps_ended=2,
        create_time=time_at(0), end_time=time_at(190),
    )  # fmt: skip
    model.steps["run-a"] = [
        workflows_pb2.RunStep(
            step_id="fetch", task_id="task-a", status=Status.TASK_STATUS_SUCCESS, task_type="shell", attempt=2,
            worker_id="w-1", start_time=time_at(1), end_time=time_at(3.25),
        ),
        workflows_pb2.RunStep(
            step_id="join", task_id="task-c", status=Status.TASK_STATUS_FAILED, task_type="join", attempt=3,
            worker_id="w-2", start_time=time_at(4), end_time=time_at(190), needs=["fetch"],
            error=tasks_pb2.TaskError(kind="HANDLER_ERROR", message="no such page"),
        ),
    ]  # fmt: skip
    model.workers += [
        fleet_pb2.Worker(
            worker_id="w-1", host="alpha", port=8080, capabilities=["shell", "sleep"], max_concurrency=10,
            labels={"zone": "a", "lang": "python"}, state=fleet_pb2.WorkerState.WORKER_STATE_HEALTHY,
            active_tasks=3, last_seen_time=time_at(5),
            resources=policies_pb2.Resources(cpu_millis=4_000, memory_mb=8_192),
            resources_in_use=policies_pb2.Resources(cpu_millis=1_500, gpus=1),
        ),
        fleet_pb2.Worker(
            worker_id="w-2", capabilities=["*"], state=fleet_pb2.WorkerState.WORKER_STATE_UNHEALTHY, max_concurrency=1,
        ),
    ]  # fmt: skip
    model.queues.append(
        fleet_pb2.Queue(
            name="train-0a1b", task_type="train", waiting=12_345, selector="gpu", head_time=time_at(0),
            resources=policies_pb2.Resources(cpu_millis=500, gpus=1), deadlines=True,
        )
    )  # fmt: skip
    model.status.MergeFrom(
        fleet_pb2.GetClusterStatusResponse(
            scheduler_id="s-1", version="0.1.0", term=3, database="sqlite", leader_since_time=time_at(0),
            tasks_live=1_200, tasks_queued=1_000, tasks_in_flight=200, tasks_ended={"SUCCESS": 5_000, "FAILED": 2},
            runs_live=4, runs_ended={"SUCCEEDED": 10}, workers_healthy=1, workers_known=2,
        )
    )  # fmt: skip
    return served


PAGES: dict[str, tuple[tuple[str, ...], type[Any]]] = {
    "tasks": (("tasks",), tasks_pb2.ListTasksResponse),
    "task-show": (("task", "show", "task-a"), tasks_pb2.GetTaskResponse),
    "task-show-running": (("task", "show", "task-b"), tasks_pb2.GetTaskResponse),
    "explain": (("explain", "task-b"), tasks_pb2.ExplainTaskResponse),
    "runs": (("runs",), workflows_pb2.ListRunsResponse),
    "runs-show": (("runs", "show", "run-a"), workflows_pb2.GetRunResponse),
    "workflow-list": (("workflow", "list"), workflows_pb2.ListWorkflowsResponse),
    "workflow-show": (("workflow", "show", "two"), workflows_pb2.Workflow),
    "workers": (("workers",), fleet_pb2.ListWorkersResponse),
    "queues": (("queues",), fleet_pb2.ListQueuesResponse),
    "status": (("status",), fleet_pb2.GetClusterStatusResponse),
}


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize("name", PAGES)
def test_pages_for_people_and_for_programs(name: str, at: Cli, golden: Golden) -> None:
    arguments, kind = PAGES[name]
    shown = at(*arguments)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    golden(f"{name}.txt", shown.stdout)
    told = at(*arguments, "-o", "json")
    assert Parse(told.stdout, kind()).ByteSize() > 0


@pytest.mark.parametrize("command", [("tasks",), ("runs",), ("workflow", "list"), ("workers",), ("queues",)])
def test_nothing_is_said_in_words(command: tuple[str, ...], at: Cli) -> None:
    shown = at(*command)
    assert shown.exit_code == 0
    assert shown.stdout.startswith(("no ", "nothing "))


@pytest.mark.usefixtures("furnished")
def test_logs(at: Cli) -> None:
    assert at("logs", "task-a").stdout == "first try\nWARNING again\n\x1b[1mhi\n"
    assert at("logs", "task-a", "--search", "TRY").stdout == "first try\n"
    assert at("logs", "-f", "task-a", "--search", "again").stdout == "--- attempt 2 ---\nWARNING again\n"
    assert at("logs", "task-a", "--since", "2999-01-01").stdout == ""
    assert at("logs", "task-a", "--since", "1970-01-01T00:00Z").stdout.startswith("first try\n")
    refused = at("logs", "task-a", "--since", "lately")
    assert (refused.exit_code, "or a duration such as 10m" in refused.stderr) == (Exit.USAGE, True)
    followed = at("logs", "-f", "task-a")
    assert followed.stdout == "first try\n--- attempt 2 ---\nWARNING again\n\x1b[1mhi\n"
    assert followed.stderr == ""


def spoken(attempt: int, number: int, text: str, stream: str = "output", **more: Any) -> tasks_pb2.StoredLogLine:
    content = tasks_pb2.LogLine(text=text, stream=stream, **more)
    return tasks_pb2.StoredLogLine(attempt=attempt, line=number, content=content)


def test_what_a_task_gives_out_is_joined_as_it_came(at: Cli, served: Served) -> None:
    model = served.model
    model.tasks["task-t"] = tasks_pb2.TaskInstance(task_id="task-t", status=Status.TASK_STATUS_SUCCESS)
    model.logs["task-t"] = [
        spoken(1, 0, "lost", partial=True),
        spoken(2, 0, "One ", partial=True),
        spoken(2, 1, "noted", "log", level="INFO"),
        spoken(2, 2, "two."),
        spoken(2, 3, "Three", partial=True),
        spoken(2, 4, "", partial=False),
        spoken(2, 5, "four", partial=True),
    ]
    alone = at("logs", "-f", "task-t", "--stream", "output")
    assert alone.stdout == "lost\n--- attempt 2 ---\nOne two.\nThree\nfour"
    both = at("logs", "-f", "task-t", "--stream", "output", "--stream", "log")
    assert both.stdout == "lost\n--- attempt 2 ---\nOne \nINFO noted\ntwo.\nThree\nfour\n"
    assert at("logs", "task-t", "--stream", "stderr").stdout == ""
    refused = at("logs", "task-t", "--stream", "stdin")
    assert (refused.exit_code, "'output'" in refused.stderr) == (Exit.USAGE, True)


@pytest.mark.usefixtures("furnished")
def test_of_several_messages_each_is_on_one_line(at: Cli, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in at("logs", "-f", "task-a", "-o", "json").stdout.splitlines()]
    assert [(line["attempt"], line["content"]["text"]) for line in lines] == [
        (1, "first try"), (2, "again"), (2, "\x1b[1mhi"),
    ]  # fmt: skip
    files = [tmp_path / f"{name}.yaml" for name in "ab"]
    for file in files:
        file.write_text(f"name: {file.stem}\nsteps: [{{id: x, type: sleep}}]\n")
    stored = [json.loads(line) for line in at("workflow", "apply", *map(str, files), "-o", "json").stdout.splitlines()]
    assert [each["workflow"]["name"] for each in stored] == ["a", "b"]
    assert at("workflow", "apply", str(files[0]), "-o", "json").stdout.count("\n") > 3
    assert at("tasks", "-o", "json").stdout.count("\n") > 3


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ([], ["QUEUED  The task is QUEUED: why."]),
        ([("A", "why")], ["QUEUED  The task is QUEUED: why.  (A)"]),
        ([("A", "why"), ("B", "so")], ["QUEUED  The task is QUEUED: why.  (A)", "  B  so"]),
        ([("A", "other")], ["QUEUED  The task is QUEUED: why.  (A)", "  A  other"]),
    ],
)
def test_explain_says_everything_once(reasons: list[tuple[str, str]], lines: list[str]) -> None:
    found = tasks_pb2.ExplainTaskResponse(
        status=Status.TASK_STATUS_QUEUED,
        summary="The task is QUEUED: why.",
        reasons=[tasks_pb2.WaitReason(code=code, message=message) for code, message in reasons],
    )
    console = Console(file=io.StringIO(), width=200)
    console.print(explanation(found))
    assert isinstance(console.file, io.StringIO)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == lines


def failed_tasks(served: Served) -> None:
    for number, kind in enumerate(["TIMEOUT", "X" * 60, "TIMEOUT", "evil\x1b[31m"]):
        served.model.tasks[f"failed-{number}"] = tasks_pb2.TaskInstance(
            task_id=f"failed-{number}", task_type="x", status=Status.TASK_STATUS_FAILED,
            error=tasks_pb2.TaskError(kind=kind, message="it took too long"),
        )  # fmt: skip


def test_what_failed_says_of_what(at: Cli, served: Served) -> None:
    failed_tasks(served)
    lines = at("tasks").stdout.splitlines()
    assert [line.split()[3:] for line in lines[1:]] == [["0", f"evil{chr(0x241B)}[31m"], ["0", "TIMEOUT"],
                                                        ["0", "X" * 31 + "…"], ["0", "TIMEOUT"]]  # fmt: skip
    assert "it took too long" in at("tasks", "-o", "json").stdout


def test_tasks_are_counted_in_all_and_by_a_field(at: Cli, served: Served) -> None:
    failed_tasks(served)
    served.model.tasks["well"] = tasks_pb2.TaskInstance(task_id="well", status=Status.TASK_STATUS_SUCCESS)
    assert at("tasks", "--count", "--status", "failed").stdout == "4\n"
    assert served.wire.named("CountTasks")[0] == tasks_pb2.CountTasksRequest(filter='status == "FAILED"')
    shown = at("tasks", "--by", "error.kind")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["ERROR.KIND", "COUNT"], ["TIMEOUT", "2"], ["X" * 60, "1"], [f"evil{chr(0x241B)}[31m", "1"], ["(none)", "1"],
        ["5", "in", "all"],
    ]  # fmt: skip
    told = Parse(at("tasks", "--by", "error.kind", "-o", "json").stdout, tasks_pb2.CountTasksResponse())
    assert (told.count, told.groups[0].value) == (5, "TIMEOUT")
    assert served.wire.named("ListTasks") == []


def test_what_found_no_place_among_the_groups_is_shown_too() -> None:
    found = tasks_pb2.CountTasksResponse(count=7, groups=[tasks_pb2.CountGroup(value="a", count=5)], other=2)
    console = Console(file=io.StringIO(), width=200)
    console.print(counted(found, "run_id"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().split() == ["RUN_ID", "COUNT", "a", "5", "(all", "others)", "2", "7", "in", "all"]


@pytest.mark.parametrize("option", [("--count",), ("--by", "status")])
@pytest.mark.parametrize("command", ["tasks", "runs"])
def test_a_count_is_not_cut(command: str, option: tuple[str, ...], at: Cli) -> None:
    refused = at(command, *option, "--limit", "50")
    assert refused.exit_code == Exit.USAGE
    assert refused.stderr.startswith(f"error: {option[0]} counts all that match, and --limit cuts a list")


def test_filters_are_expressions(at: Cli, served: Served) -> None:
    at("tasks", "--status", "failed", "--type", 'a"b', "--run", "r", "-n", "7")
    (asked,) = served.wire.named("ListTasks")
    assert asked.filter == 'status == "FAILED" && task_type == "a\\"b" && run_id == "r"'
    assert asked.page_size == 7
    at("tasks", "--filter", "priority < 3 || attempt > 1", "--type", "x")
    assert served.wire.named("ListTasks")[1].filter == '(priority < 3 || attempt > 1) && task_type == "x"'
    at("runs", "--workflow", "w", "--status", "failed")
    assert served.wire.named("ListRuns")[0].filter == 'workflow == "w" && state == "FAILED"'
    at("workers", "--filter", 'state == "HEALTHY"')
    assert served.wire.named("ListWorkers")[0].filter == 'state == "HEALTHY"'


def test_submit_prints_the_id_alone(at: Cli, served: Served) -> None:
    shown = at(
        "submit", "shell", "--param", "command=echo a=b", "-p", "n=1", "--input", '{"deep": [1]}', "--priority", "2",
        "--attempts", "4", "--run-timeout", "1m30s", "--selector", "lang=python", "--exclusive", "--key", "k",
    )  # fmt: skip
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "task-1\n", "")
    (sent,) = served.wire.named("SubmitTasks")[0].tasks
    assert dict(sent.params) == {"command": "echo a=b", "n": "1"}
    assert (sent.task_type, sent.input_json, sent.priority) == ("shell", '{"deep":[1]}', 2)
    assert (sent.retry.max_attempts, sent.timeouts.run_timeout.seconds) == (4, 90)
    assert (sent.placement.selector, sent.exclusive, sent.idempotency_key) == ("lang=python", True, "k")
    assert json.loads(at("submit", "x", "-o", "json").stdout) == {"taskId": "task-2"}


def test_input_from_a_file_and_from_stdin(at: Cli, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"from": "file"}')
    assert at("submit", "x", "--input", f"@{file}").exit_code == 0
    assert at("submit", "x", "--input", "@-", input='{"from": "stdin"}').exit_code == 0
    sent = [request.tasks[0].input_json for request in served.wire.named("SubmitTasks")]
    assert sent == ['{"from":"file"}', '{"from":"stdin"}']


def test_cancel_finds_out_what_an_id_is(at: Cli, furnished: Served) -> None:
    furnished.model.runs["run-b"] = workflows_pb2.Run(run_id="run-b", state=workflows_pb2.RunState.RUN_STATE_RUNNING)
    shown = at("cancel", "task-b", "run-b", "--reason", "enough")
    assert (shown.exit_code, shown.stdout) == (0, "task-b CANCELLED\nrun-b CANCELLED\n")
    assert furnished.wire.named("CancelTask")[0].reason == "enough"
    assert at("cancel", "task-b").exit_code == Exit.REFUSED
    unknown = at("cancel", "nobody")
    assert (unknown.exit_code, unknown.stderr) == (
        Exit.NOT_FOUND,
        "error: there is no task and no run nobody; `taskyard tasks` lists tasks\n",
    )


@pytest.mark.parametrize("command", [("explain",), ("logs",), ("logs", "-f"), ("task", "show")])
def test_a_run_where_a_task_was_meant_is_called_one(command: tuple[str, ...], at: Cli, furnished: Served) -> None:
    shown = at(*command, "run-a")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (
        Exit.NOT_FOUND, "", "error: run-a is a run and no task: `taskyard runs show run-a` has its tasks' ids\n"
    )  # fmt: skip
    assert at(*command, "nobody").stderr == "error: there is no task nobody\n"
    asked = len(furnished.wire.named("GetRun"))
    at(*command, "task-a")
    assert len(furnished.wire.named("GetRun")) == asked == 2


def test_a_run_that_is_retried_as_a_task_is_told_how_runs_are(at: Cli, furnished: Served) -> None:
    shown = at("retry", "run-a")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (
        Exit.NOT_FOUND,
        "",
        (
            "error: run-a is a run and no task: `taskyard runs show run-a` has its tasks' ids, "
            "and `taskyard runs retry run-a` does it with the run\n"
        ),
    )
    assert at("retry", "nobody").stderr == "error: there is no task nobody\n"


def test_a_task_where_a_run_was_meant_is_called_one(at: Cli, furnished: Served) -> None:
    shown = at("runs", "show", "task-a")
    assert shown.exit_code == Exit.NOT_FOUND
    assert shown.stderr == (
        "error: task-a is a task and no run: `taskyard task show task-a` shows it, "
        "and `taskyard runs show run-a` the run that it is a step of\n"
    )
    alone = "error: task-b is a task and no run: `taskyard task show task-b` shows it\n"
    assert at("runs", "show", "task-b").stderr == alone
    assert at("runs", "show", "nobody").stderr == "error: there is no run nobody\n"


def test_what_an_id_is_else_is_no_worse_told_when_nobody_answers(at: Cli, furnished: Served) -> None:
    furnished.server.script("GetRun", Fault(grpc.StatusCode.PERMISSION_DENIED, "may not", "ROLE"))
    shown = at("explain", "run-a")
    assert (shown.exit_code, shown.stderr) == (Exit.NOT_FOUND, "error: there is no task run-a\n")


@pytest.mark.usefixtures("furnished")
def test_from_a_failed_step_one_comes_to_its_task(at: Cli) -> None:
    lines = at("runs", "show", "run-a").stdout.splitlines()
    heads, *rows = lines[lines.index("") + 1 :]
    assert heads.endswith("TASK ID")
    assert [row.split()[-1] for row in rows] == ["task-a", "task-c"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_an_id_is_never_cut_into_lines(width: int) -> None:
    some_id = "01890a5d-ac96-774b-bcce-b302099a8057"
    console = Console(width=width, file=io.StringIO(), record=True)
    for head in ("ID", "TASK ID"):
        console.print(table(("STEP", head, "ERROR"), [("a" * 30, some_id, "long words " * 9)], empty=""))
    assert console.export_text().count(some_id) == 2


@pytest.mark.parametrize(
    ("command", "done"), [("cancel", "task-b CANCELLED"), ("retry", "task-a QUEUED")], ids=["cancel", "retry"]
)
@pytest.mark.parametrize("first", [True, False], ids=["the bad one first", "the bad one last"])
def test_one_bad_id_keeps_no_other_from_it(at: Cli, furnished: Served, command: str, done: str, first: bool) -> None:
    good = done.split()[0]
    wrong = "task-a" if command == "cancel" else "task-b"  # in a state that does not allow it
    ids = ["nobody", wrong, good] if first else [good, wrong, "nobody"]
    shown = at(command, *ids)
    assert shown.stdout == f"{done}\n"
    assert len(shown.stderr.splitlines()) == 2
    assert all(line.startswith("error: ") for line in shown.stderr.splitlines())
    for each in ("nobody", wrong):
        assert each in shown.stderr
    assert shown.exit_code == Exit.NOT_FOUND
    assert at(command, good, wrong).exit_code == Exit.REFUSED


def test_what_is_so_for_all_is_not_tried_with_each(at: Cli, furnished: Served) -> None:
    furnished.server.script("CancelTask", Fault(grpc.StatusCode.PERMISSION_DENIED, "a viewer may not", "ROLE"))
    shown = at("cancel", "task-b", "b", "c")
    assert shown.stderr.splitlines() == ["error: task-b: a viewer may not", "not tried: b c"]
    assert shown.exit_code == Exit.NOT_ALLOWED
    assert shown.stdout == ""


def test_each_wrong_file_is_told_and_none_is_sent(at: Cli, furnished: Served, tmp_path: Path) -> None:
    texts = {"good": "name: good\nsteps: [{id: a, type: sleep}]\n", "bad": "name: bad\n", "none": ""}
    files = [tmp_path / f"{name}.yaml" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    shown = at("workflow", "apply", *map(str, reversed(files)))
    assert shown.exit_code == Exit.REFUSED
    for name in ("bad", "none"):
        assert f"error: {tmp_path / name}.yaml" in shown.stderr
    assert "good" not in furnished.model.workflows


def test_retry(at: Cli, furnished: Served) -> None:
    assert at("retry", "task-a").stdout == "task-a QUEUED\n"
    assert at("retry", "task-a").exit_code == Exit.REFUSED


def test_run_sends_typed_inputs(at: Cli, furnished: Served) -> None:
    shown = at(
        "run", "two", "--inputs", '{"a": 1, "b": 2}', "-i", "b=5", "-i", "c=true", "-i", 'd="5"', "-i", "e=no",
        "-i", "f=[1,2]", "-i", "g=a=b", "--key", "k", "--priority", "3", "--version", "2",
    )  # fmt: skip
    assert (shown.exit_code, shown.stdout) == (0, "run-1\n")
    (sent,) = furnished.wire.named("StartRuns")[0].runs
    assert json.loads(sent.inputs_json) == {
        "a": 1, "b": 5, "c": True, "d": "5", "e": "no", "f": [1, 2], "g": "a=b",
    }  # fmt: skip
    assert (sent.version, sent.priority, sent.idempotency_key) == (2, 3, "k")


def test_workflow_apply_show_apply_again(at: Cli, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("name: two\nsteps:\n  - {id: a, type: x}\n  - {id: b, type: x, needs: [a]}\n")
    assert at("workflow", "apply", str(file)).stdout == "two stored, version 1, 2 steps\n"
    assert at("workflow", "apply", str(file)).stdout == "two unchanged, version 1, 2 steps\n"
    one = "name: one\nsteps: [{id: a, type: x}]\n"
    assert at("workflow", "apply", "-", input=one).stdout == "one stored, version 1, 1 step\n"
    written = at("workflow", "show", "two", "-o", "yaml").stdout
    assert at("workflow", "apply", "-", input=written).stdout == "two unchanged, version 1, 2 steps\n"
    assert json.loads(at("workflow", "schema").stdout)["title"] == "Taskyard workflow"


def test_no_file_is_sent_when_one_is_bad(at: Cli, served: Served, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("name: w\nsteps: [{id: a, type: x}]\n")
    bad.write_text("name: w\nsteps:\n  - id: a\n    typ: x\n")
    shown = at("workflow", "apply", str(good), str(bad))
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr == f"error: {bad}:4:5: steps.a.typ: `typ` is not known here; did you mean `type`?\n"
    assert served.wire.calls == []


def test_what_the_scheduler_refuses_is_shown_in_the_file(at: Cli, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("name: w\nsteps:\n  - id: a\n    type: x\n    needs: [b]\n")
    fault = Fault(
        grpc.StatusCode.INVALID_ARGUMENT, "1 field", "INVALID_INPUT",
        violations={"steps.a.needs[0]": "there is no step `b`; did you mean `a`?"},
    )  # fmt: skip
    served.server.script("ApplyWorkflow", fault)
    shown = at("workflow", "apply", str(file))
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr == f"error: {file}:5:13: steps.a.needs[0]: there is no step `b`; did you mean `a`?\n"
