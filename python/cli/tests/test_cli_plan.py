"""`workflow plan` and `workflow apply` of folders: changes are told, and nothing is stored before all is good."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from cli_served import Cli, Served
from scripted_faults import Fault

from taskyard.v1 import fleet_pb2
from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.exits import Exit
from taskyard_cli.workflows.plan import consequences, difference

ONE = "name: {name}\nsteps:\n  - id: fetch\n    type: sleep\n"
TWO = ONE + "  - id: keep\n    type: sleep\n    needs: [fetch]\n"


def written(folder: Path, file: str, text: str) -> str:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_what_is_new_changed_and_unchanged_is_told_and_nothing_is_stored(
    at: Cli, served: Served, tmp_path: Path
) -> None:
    file = written(tmp_path, "nightly.yaml", ONE.format(name="nightly"))
    assert at("workflow", "plan", file).stdout == "nightly is new: version 1, 1 step\n"
    assert not served.model.workflows
    at("workflow", "apply", file)
    assert at("workflow", "plan", file).stdout == "nightly stays as it is, version 1\n"
    written(tmp_path, "nightly.yaml", TWO.format(name="nightly"))
    told = at("workflow", "plan", file)
    assert told.exit_code == Exit.OK, told.stderr
    head, *lines = told.stdout.splitlines()
    assert (head, lines[0]) == ("nightly becomes version 2", "  adds step keep")
    assert [line for line in lines if line.startswith(("+", "-"))] == [
        "--- version 1", "+++ version 2", "+- id: keep", "+  type: sleep", "+  needs:", "+  - fetch",
    ]  # fmt: skip
    assert served.model.workflows["nightly"].version == 1


def test_runs_in_flight_are_counted(at: Cli, served: Served, tmp_path: Path) -> None:
    file = written(tmp_path, "nightly.yaml", ONE.format(name="nightly"))
    at("workflow", "apply", file)
    served.model.runs["a"] = pb.Run(run_id="a", workflow="nightly", version=1, state=pb.RunState.RUN_STATE_RUNNING)
    written(tmp_path, "nightly.yaml", TWO.format(name="nightly"))
    assert "  1 run in flight keeps the version that it started with\n" in at("workflow", "plan", file).stdout


def test_folders_are_taken_whole_or_not_at_all(at: Cli, served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    for file in ("b.yaml", "a.yml"):
        written(folder, file, ONE.format(name=file[0]))
    written(folder, "notes.txt", "not meant")
    assert [line.split()[0] for line in at("workflow", "plan", str(folder)).stdout.splitlines()] == ["a", "b"]
    broken = written(folder, "c.yaml", "name: c\nsteps: []\n")
    refused = at("workflow", "apply", str(folder))
    assert refused.exit_code == Exit.REFUSED
    assert broken in refused.stderr
    assert not served.model.workflows
    Path(broken).unlink()
    assert at("workflow", "apply", str(folder)).stdout.splitlines() == [
        "a stored, version 1, 1 step", "b stored, version 1, 1 step",
    ]  # fmt: skip


def test_two_files_of_one_name_are_refused(at: Cli, served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    for file in ("a.yaml", "b.yaml"):
        written(folder, file, ONE.format(name="same"))
    refused = at("workflow", "apply", str(folder))
    assert refused.exit_code == Exit.REFUSED
    assert f"{folder / 'b.yaml'}: name: same is the name in {folder / 'a.yaml'} too" in refused.stderr
    assert not served.model.workflows


def test_a_folder_without_workflows_is_refused(at: Cli, tmp_path: Path) -> None:
    refused = at("workflow", "plan", str(tmp_path))
    assert refused.exit_code == Exit.REFUSED
    assert "is a folder without a .yaml or .yml file" in refused.stderr


def workflow(version: int, steps: dict[str, str], inputs: dict[str, str]) -> pb.Workflow:
    return pb.Workflow(
        name="w",
        version=version,
        steps=[pb.WorkflowStep(id=id, task_type=type) for id, type in steps.items()],
        inputs=[pb.WorkflowInput(name=name, default_json=default) for name, default in inputs.items()],
    )


@pytest.mark.parametrize(
    ("steps", "inputs", "in_flight", "told"),
    [
        ({"a": "sleep", "b": "sleep"}, {"x": "1", "y": ""}, 0, []),
        ({"a": "shell"}, {"x": "1", "y": ""}, 0, ["removes step b", "changes step a"]),
        ({"a": "sleep", "b": "sleep", "c": "sleep", "d": "sleep"}, {"x": "1", "y": ""}, 0, ["adds 2 steps: c, d"]),
        ({"a": "sleep", "b": "sleep"}, {"x": "1"}, 0, ["who gives the input y is refused from now on"]),
        ({"a": "sleep", "b": "sleep"}, {"x": "", "y": ""}, 0, ["who starts it must give the input x from now on"]),
        ({"a": "sleep", "b": "sleep"}, {"x": "1", "y": "2", "z": ""}, 2,
         ["who starts it must give the input z from now on",
          "2 runs in flight keep the versions that they started with"]),
    ],
)  # fmt: skip
def test_consequences(steps: dict[str, str], inputs: dict[str, str], in_flight: int, told: list[str]) -> None:
    before = workflow(1, {"a": "sleep", "b": "sleep"}, {"x": "1", "y": ""})
    assert list(consequences(before, workflow(2, steps, inputs), in_flight)) == told


def test_a_difference_begins_with_the_versions() -> None:
    before, after = workflow(3, {"a": "sleep"}, {}), workflow(4, {"a": "shell"}, {})
    assert difference(before, after)[:2] == ["--- version 3", "+++ version 4"]
    assert difference(pb.Workflow(), after)[:2] == ["--- none", "+++ version 4"]
    assert difference(before, workflow(3, {"a": "sleep"}, {})) == []


def test_who_gives_an_input_is_told_of_its_new_type() -> None:
    before, after = workflow(1, {"a": "sleep"}, {"x": "1"}), workflow(2, {"a": "sleep"}, {"x": "1"})
    after.inputs[0].type = pb.INPUT_TYPE_INTEGER
    assert list(consequences(before, after, 0)) == ["who gives the input x must give integer from now on"]
    assert list(consequences(after, before, 0)) == []


def test_types_that_nobody_offers_are_told_on_stderr(at: Cli, served: Served, tmp_path: Path) -> None:
    steps = "".join(f"  - id: s{number}\n    type: shel\n" for number in range(7))
    file = tmp_path / "w.yaml"
    file.write_text(f"name: w\nsteps:\n{steps}  - id: z\n    type: sleep\n")
    served.model.workers.append(fleet_pb2.Worker(worker_id="w", capabilities=["shell", "sleep"]))
    said = (
        "note: w: no live worker offers the type shel of steps s0, s1, s2, s3, s4, …; until one does, they wait. "
        "Did you mean shell?\n"
    )
    for command in ("plan", "apply"):
        shown = at("workflow", command, str(file))
        assert (shown.exit_code, shown.stderr) == (0, said)
        assert "note" not in shown.stdout
    assert served.wire.named("ListWorkers")[0].filter == 'state in ["HEALTHY", "EXPECTED"]'
    served.model.workers.append(fleet_pb2.Worker(worker_id="any", capabilities=["*"]))
    assert at("workflow", "plan", str(file)).stderr == ""


def test_who_may_not_see_workers_is_told_nothing_of_them(at: Cli, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("name: w\nsteps:\n  - id: a\n    type: nobody-s\n")
    served.server.script("ListWorkers", Fault(grpc.StatusCode.PERMISSION_DENIED, "not you", "ROLE"))
    shown = at("workflow", "apply", str(file))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "w stored" in shown.stdout


def test_several_are_told_of_once_each_also_when_one_was_refused(at: Cli, served: Served, tmp_path: Path) -> None:
    for name in ("x", "y", "z"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nsteps:\n  - id: a\n    type: t-{name}\n")
    served.server.script("ApplyWorkflow", None, Fault(grpc.StatusCode.INVALID_ARGUMENT, "no", "INVALID_INPUT"))
    shown = at("workflow", "apply", str(tmp_path))
    assert shown.exit_code == Exit.REFUSED
    assert [line.partition(" of ")[0] for line in shown.stderr.splitlines() if line.startswith("note")] == [
        "note: x: no live worker offers the type t-x", "note: z: no live worker offers the type t-z",
    ]  # fmt: skip
    assert len(served.wire.named("ListWorkers")) == 1
