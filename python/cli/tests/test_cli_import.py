"""`taskyard import wfformat`: what it stores, what it writes, and what it refuses before it does either."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from cli_served import Cli, Served
from google.protobuf import json_format
from scripted_faults import Fault
from wfformat_documents import Graph, document, encoded

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.exits import Exit
from taskyard_cli.importing import folder

DIAMOND: Graph = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def recorded(where: Path, name: str, graph: Graph = DIAMOND, file: str = "") -> Path:
    """Writes a document and returns its file."""
    path = where / (file or f"{name}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encoded(document(graph, name=name)))
    return path


def test_files_are_stored_and_what_changed_is_said(at: Cli, served: Served, tmp_path: Path) -> None:
    diamond, one = recorded(tmp_path, "diamond"), recorded(tmp_path, "one", {"only": []})
    shown = at("import", "wfformat", str(diamond), str(one))
    assert shown.exit_code == Exit.OK, shown.stderr
    assert shown.stdout == (
        "diamond stored, version 1, 4 steps, 4 edges, depth 3\none stored, version 1, 1 step, 0 edges, depth 1\n"
    )
    assert [step.task_type for step in served.model.workflows["diamond"].steps] == ["sleep"] * 4
    again = at("import", "wfformat", str(diamond))
    assert again.stdout == "diamond unchanged, version 1, 4 steps, 4 edges, depth 3\n"
    scaled = at("import", "wfformat", str(diamond), "--time-scale", "0")
    assert scaled.stdout == "diamond stored, version 2, 4 steps, 4 edges, depth 3\n"
    assert {step.input_json for step in served.model.workflows["diamond"].steps} == {'{"seconds":0}'}


def test_a_folder_stdin_and_a_name(at: Cli, served: Served, tmp_path: Path) -> None:
    for name in ("b", "a"):
        recorded(tmp_path / "in", name)
    (tmp_path / "in" / "notes.txt").write_text("not meant")
    shown = at("import", "wfformat", str(tmp_path / "in"))
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["a", "b"]
    text = (tmp_path / "in" / "a.json").read_text()
    assert at("import", "wfformat", "-", "--name", "mine", input=text).stdout.startswith("mine stored, version 1")
    assert set(served.model.workflows) == {"a", "b", "mine"}


def test_programs_get_the_contract_s_messages(at: Cli, tmp_path: Path) -> None:
    file = recorded(tmp_path, "diamond")
    stored = json_format.Parse(at("import", "wfformat", str(file), "-o", "json").stdout, pb.ApplyWorkflowResponse())
    assert (stored.workflow.name, stored.workflow.version, len(stored.workflow.steps)) == ("diamond", 1, 4)
    shown = at("import", "wfformat", str(file), "--output", str(tmp_path / "out"), "-o", "json")
    assert json_format.Parse(shown.stdout, pb.Workflow()).name == "diamond"


def test_files_are_written_that_apply_takes(at: Cli, cli: Cli, served: Served, tmp_path: Path) -> None:
    source, out = recorded(tmp_path, "diamond", file="from elsewhere.json"), tmp_path / "new" / "out"
    arguments = ("import", "wfformat", str(source), "--time-scale", "0", "--output", str(out))
    written = out / "from elsewhere.yaml"
    figures = f"{written}, 4 steps, 4 edges, depth 3\n"
    assert at(*arguments).stdout == f"diamond written to {figures}"
    assert at(*arguments).stdout == f"diamond unchanged in {figures}"
    written.write_text("edited")
    assert at(*arguments).stdout == f"diamond replaced in {figures}"
    assert sorted(out.iterdir()) == [written]
    printed = at(*arguments[:-1], "-").stdout
    assert printed == written.read_text()
    assert served.wire.calls == []
    assert at("workflow", "apply", str(written)).stdout == "diamond stored, version 1, 4 steps\n"
    imported = at("import", "wfformat", str(source), "--time-scale", "0")
    assert imported.stdout.startswith("diamond unchanged, version 1")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("a.json", "b.json", "--name", "x"), 2, "--name is for one file, and here are 2: leave it out"),
        ((".", "--name", "x"), 2, "--name is for one file, and here are 4: leave it out"),
        (("a.json", "--name", " x"), 2, '--name: " x" begins or ends with white space; a workflow\'s name does not'),
        (("a.json", "--time-scale", "-1"), 2, "Invalid value for '--time-scale'"),
        (("a.json", "--time-scale", "nan"), 2, "Invalid value for '--time-scale'"),
        (("a.json", "--time-scale", "inf"), 2, "--time-scale inf is no number that times can be multiplied with"),
        (("a.json", "--output", "json"), 2, "--output names a folder here: write `-o json`, or --output ./json"),
        (("a.json", "--output", "a.json"), 2, "--output a.json is a file: name a folder, or - for stdout"),
        (("a.json", "--output", "a.json/x"), 3, "a.json/x/a.yaml cannot be written: Not a directory"),
        (("a.json", "b.json", "--output", "-"), 2, "--output - is for one file, and here are 2: name a folder"),
        (("a.json", "--output", "-", "-o", "json"), 2, "-o json means nothing with --output -, which prints YAML"),
        (("a.json", "--output", "o", "--address", "h:1"), 2, "--address means nothing with --output, which asks no"),
        (("a.json", "--output", "o", "--token", "t"), 2, "--token means nothing with --output, which asks no"),
        (("a.json", "sub/a.json", "--output", "o"), 3, "sub/a.json: is called as a.json is, and both would be a.yaml"),
        (("a.json", "c.json"), 3, 'c.json: name: "a" is the name in a.json too; import one of them alone, with --name'),
        (("a.json", "a.json"), 3, 'a.json: name: "a" is the name in a.json too'),
        (("long.json",), 3, "has 300 characters; a workflow's name has 1 to 200; give one with --name"),
        (("nowhere.json",), 3, "nowhere.json: cannot be read: No such file or directory"),
        (("empty",), 3, "empty: is a folder without a .json file; name one that has some"),
        (
            ("a.json", "slow.txt"),
            3,
            "specification.tasks[0]: 10,000,000 s x 1 is longer than a step may sleep",
        ),
        (("a.json", "broken.txt"), 3, "broken.txt:1:1: is no JSON: Expecting value"),
    ],
)
def test_nothing_is_sent_or_written_when_something_is_wrong(
    arguments: tuple[str, ...], code: int, says: str, at: Cli, served: Served, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, file in (("a", ""), ("b", ""), ("a", "c.json"), ("other", "sub/a.json"), ("x" * 300, "long.json")):
        recorded(tmp_path, name, file=file)
    slow = document(DIAMOND, name="slow", runtimes={"a": 1e7})
    (tmp_path / "slow.txt").write_bytes(encoded(slow))
    (tmp_path / "broken.txt").write_text("name: no")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    shown = at("import", "wfformat", *arguments)
    assert (shown.exit_code, shown.stdout) == (code, "")
    assert says in " ".join(shown.stderr.split())
    assert "Traceback" not in shown.stderr
    assert served.wire.calls == []
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("where", ["-", "out"])
def test_a_file_that_apply_would_not_take_is_not_written(
    where: str, at: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder, "MAX_BYTES", 200)
    recorded(tmp_path, "a", {"only": []})
    recorded(tmp_path, "diamond")
    shown = at("import", "wfformat", *(["a.json"] if where == "out" else []), "diamond.json", "--output", where)
    assert (shown.exit_code, shown.stdout) == (Exit.REFUSED, "")
    assert "diamond.json: makes a workflow file of " in shown.stderr
    assert "at most 200 are read; import it without --output" in shown.stderr
    assert not (tmp_path / "out").exists()


def test_a_name_given_stands_for_one_that_no_workflow_can_have(at: Cli, tmp_path: Path) -> None:
    file = recorded(tmp_path, "x" * 300, file="long.json")
    assert at("import", "wfformat", str(file), "--name", "short").stdout.startswith("short stored, version 1")


def test_what_the_scheduler_refuses_is_shown_in_the_recording(at: Cli, served: Served, tmp_path: Path) -> None:
    file = recorded(tmp_path, "diamond")
    fault = Fault(
        grpc.StatusCode.INVALID_ARGUMENT, "2 fields", "INVALID_INPUT",
        violations={"workflow.steps[3].needs": "is strange", "workflow.name": "is odd"},
    )  # fmt: skip
    served.server.script("ApplyWorkflow", fault)
    shown = at("import", "wfformat", str(file))
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr == (f"error: {file}: workflow.specification.tasks[3]: is strange\n{file}: name: is odd\n")


def test_a_name_cannot_drive_the_terminal(at: Cli, tmp_path: Path) -> None:
    made = document({"only": []}, name="a\u202eb")
    file = tmp_path / "w.json"
    file.write_text(json.dumps(made))
    assert at("import", "wfformat", str(file)).stdout.startswith("a\\u202eb stored")
