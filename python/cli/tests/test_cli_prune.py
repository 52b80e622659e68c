"""`workflow delete` and `--prune`: what would go is told, asked about, and never more than a set."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from cli_served import Cli, Served
from terminals import Terminal
from test_cli_plan import ONE, written

from taskyard.v1 import fleet_pb2
from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.exits import Exit

RUNNING = pb.RunState.RUN_STATE_RUNNING


@pytest.fixture
def folder(at: Cli, served: Served, tmp_path: Path) -> Path:
    """A folder of which two workflows were applied into the set `team`, and now has only one; another set has one."""
    served.model.workers.append(fleet_pb2.Worker(worker_id="w", capabilities=["*"]))
    found = tmp_path / "workflows"
    for name in ("kept", "left"):
        written(found, f"{name}.yaml", ONE.format(name=name))
    assert at("workflow", "apply", str(found), "--source", "team").exit_code == Exit.OK
    x = written(tmp_path / "others", "x.yaml", ONE.format(name="x"))
    assert at("workflow", "apply", x, "--source", "us").exit_code == Exit.OK
    y = written(tmp_path / "none", "y.yaml", ONE.format(name="y"))
    assert at("workflow", "apply", y).exit_code == Exit.OK
    (found / "left.yaml").unlink()
    return found


def test_what_no_file_of_the_set_has_is_deleted(at: Cli, served: Served, folder: Path) -> None:
    shown = at("workflow", "apply", str(folder), "--source", "team", "--prune", "--yes")
    assert (shown.exit_code, shown.stderr) == (Exit.OK, "1 workflow of the set team that no file has: left\n")
    assert shown.stdout == "kept unchanged, version 1, 1 step\nleft deleted; its newest version was 1\n"
    assert sorted(served.model.workflows) == ["kept", "x", "y"]


@pytest.mark.parametrize(
    ("key", "code", "left"), [(b"y\n", Exit.OK, ["kept", "new"]), (b"n\n", Exit.REFUSED, ["kept", "left"])]
)
def test_a_person_is_asked_before_anything_is_done(
    key: bytes, code: Exit, left: list[str], served: Served, folder: Path
) -> None:
    written(folder, "new.yaml", ONE.format(name="new"))
    place = ("--address", served.server.address, "--token", "t")
    with closing(Terminal("workflow", "apply", str(folder), "--source", "team", "--prune", *place)) as terminal:
        terminal.read_until(b"delete 1 workflow?")
        assert "new" not in served.model.workflows
        terminal.press(key)
        assert terminal.ended() == code
    assert b"of the set team that no file has: left" in terminal.text
    assert sorted(served.model.workflows) == [*left, "x", "y"]


def test_a_program_must_say_yes_and_a_set_must_be_named(at: Cli, served: Served, folder: Path) -> None:
    written(folder, "new.yaml", ONE.format(name="new"))
    unasked = at("workflow", "apply", str(folder), "--source", "team", "--prune")
    assert unasked.exit_code == Exit.USAGE
    assert "there is no terminal to ask on: add --yes" in unasked.stderr
    for command in ("apply", "plan"):
        all_of_it = at("workflow", command, str(folder), "--prune")
        assert all_of_it.exit_code == Exit.USAGE
        assert "deletes within a set only" in all_of_it.stderr
    alone = at("workflow", "apply", str(folder), "--yes")
    assert (alone.exit_code, "--yes means nothing without --prune" in alone.stderr) == (Exit.USAGE, True)
    assert sorted(served.model.workflows) == ["kept", "left", "x", "y"], "nothing was done at all"


def test_one_that_is_in_use_stays_and_the_code_says_so(at: Cli, served: Served, folder: Path) -> None:
    served.model.runs["a"] = pb.Run(run_id="a", workflow="left", version=1, state=RUNNING)
    shown = at("workflow", "apply", str(folder), "--source", "team", "--prune", "--yes")
    assert shown.exit_code == Exit.REFUSED
    assert "1 runs of left have not ended" in shown.stderr
    assert "left" in served.model.workflows


def test_a_file_that_is_wrong_keeps_everything(at: Cli, served: Served, folder: Path) -> None:
    written(folder, "bad.yaml", "name: bad\nsteps: []\n")
    assert at("workflow", "apply", str(folder), "--source", "team", "--prune", "--yes").exit_code == Exit.REFUSED
    assert sorted(served.model.workflows) == ["kept", "left", "x", "y"]


def test_a_plan_tells_what_would_go_and_which_set_changes(at: Cli, served: Served, folder: Path) -> None:
    shown = at("workflow", "plan", str(folder), "--source", "team", "--prune")
    assert shown.stdout == (
        "kept stays as it is, version 1\nleft would be deleted; its newest version is 1\n"
    )  # fmt: skip
    served.model.runs["a"] = pb.Run(run_id="a", workflow="left", version=1, state=RUNNING)
    shown = at("workflow", "plan", str(folder), "--source", "team", "--prune")
    assert "left could not be deleted now: 1 run of it has not ended" in shown.stdout
    assert "  leaves the set team for other\n" in at("workflow", "plan", str(folder), "--source", "other").stdout
    y = written(folder.parent / "none", "y.yaml", ONE.format(name="y"))
    assert "  joins the set team\n" in at("workflow", "plan", y, "--source", "team").stdout
    assert not served.wire.named("DeleteWorkflow")


def test_programs_get_a_message_for_each(at: Cli, folder: Path) -> None:
    shown = at("workflow", "apply", str(folder), "--source", "team", "--prune", "--yes", "-o", "json")
    stored, deleted = shown.stdout.splitlines()
    assert '"changed"' in stored or '"workflow"' in stored
    assert deleted == '{"name": "left", "version": 1}'


def test_workflows_are_deleted_by_name(at: Cli, served: Served, folder: Path) -> None:
    shown = at("workflow", "delete", "x", "nothing", "y")
    assert shown.exit_code == Exit.NOT_FOUND
    assert shown.stdout == "x deleted; its newest version was 1\ny deleted; its newest version was 1\n"
    assert "nothing" in shown.stderr
    assert sorted(served.model.workflows) == ["kept", "left"]
    assert at("workflow", "delete").exit_code == Exit.USAGE
