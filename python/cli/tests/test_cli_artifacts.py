"""`taskyard artifacts` against a scripted server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from cli_served import Cli, Served

from taskyard_cli.exits import Exit


def stored(at: Cli, folder: Path, name: str, data: bytes) -> str:
    """Uploads a file; returns its URI."""
    path = folder / name
    path.write_bytes(data)
    shown = at("artifacts", "put", str(path))
    assert shown.exit_code == Exit.OK, shown.stderr
    return shown.stdout.strip()


def test_put_prints_the_uri_and_show_what_is_known(at: Cli, served: Served, tmp_path: Path) -> None:
    uri = stored(at, tmp_path, "a.csv", b"1,2\n")
    assert uri.startswith("artifact://")
    shown = at("artifacts", "show", uri)
    assert shown.exit_code == Exit.OK, shown.stderr
    for word in ("a.csv", "text/csv", "4 bytes", hashlib.sha256(b"1,2\n").hexdigest()):
        assert word in shown.stdout
    told = json.loads(at("artifacts", "show", uri.removeprefix("artifact://"), "-o", "json").stdout)
    assert (told["uri"], told["size"]) == (uri, "4")


def test_put_takes_stdin_a_name_and_a_type(at: Cli, served: Served) -> None:
    shown = at("artifacts", "put", "-", "--name", "n", "--media-type", "text/x", "-o", "json", input="from stdin")
    assert shown.exit_code == Exit.OK, shown.stderr
    told = json.loads(shown.stdout)
    assert (told["name"], told["mediaType"], told["size"]) == ("n", "text/x", "10")


def test_get_writes_where_it_is_told(at: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    uri = stored(at, tmp_path / "in", "a.csv", b"1,2\n")
    assert at("artifacts", "get", uri, "-o", "-").stdout == "1,2\n"
    assert at("artifacts", "get", uri, "-o", "copy").exit_code == Exit.OK
    assert (tmp_path / "copy").read_bytes() == b"1,2\n"
    told = at("artifacts", "get", uri)
    assert (told.exit_code, (tmp_path / "a.csv").read_bytes()) == (Exit.OK, b"1,2\n")
    assert "4 bytes written to a.csv" in told.stderr
    again = at("artifacts", "get", uri)
    assert again.exit_code == Exit.REFUSED
    assert "a.csv exists: give a place with -o FILE" in again.stderr
    nowhere = at("artifacts", "get", uri, "-o", "no/such/folder")
    assert nowhere.exit_code == Exit.NOT_WRITTEN
    assert "cannot be written" in nowhere.stderr


VALUE = {"ends": [0, {"é/": "half \ud83d"}], "n": None}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", VALUE), ("/ends/1", VALUE["ends"][1]), ("/ends/1/%C3%A9~1", "half \ud83d"), ("/n", None)],  # type: ignore[index]
)
def test_get_prints_a_value_in_an_artifact(pointer: str, found: object, at: Cli, tmp_path: Path) -> None:
    uri = stored(at, tmp_path, "a.json", json.dumps(VALUE).encode())
    shown = at("artifacts", "get", f"{uri}#{pointer}")
    assert (shown.exit_code, shown.stderr) == (Exit.OK, "")
    assert json.loads(shown.stdout) == found
    assert shown.stdout.count("\n") == 1
    assert at("artifacts", "get", f"{uri}#{pointer}", "-o", str(tmp_path / "value")).exit_code == Exit.OK
    assert (tmp_path / "value").read_bytes() == shown.stdout_bytes


@pytest.mark.parametrize(
    ("data", "pointer", "words"),
    [
        (b'{"a": [1]}', "/b", "there is no key 'b' where the pointer goes"),
        (b'{"a": [1]}', "/a/1", "a list of 1 where the pointer goes, which has no '1'"),
        (b'{"a": [1]}', "a", "a pointer is empty or begins with /"),
        (b"1,2", "/a", "bytes are no JSON; refer to the artifact itself"),
        (b"\xff\xfe\xfa", "", "bytes are no JSON; refer to the artifact itself"),
    ],
)
def test_what_is_no_value_is_said(data: bytes, pointer: str, words: str, at: Cli, tmp_path: Path) -> None:
    uri = stored(at, tmp_path, "a.json", data)
    shown = at("artifacts", "get", f"{uri}#{pointer}")
    assert shown.exit_code == Exit.NOT_FOUND
    assert words in shown.stderr
    assert shown.stdout == ""


def test_a_value_is_written_only_where_that_can_be(at: Cli, tmp_path: Path) -> None:
    uri = stored(at, tmp_path, "a.json", b"1")
    shown = at("artifacts", "get", f"{uri}#", "-o", str(tmp_path / "no" / "such"))
    assert shown.exit_code == Exit.NOT_WRITTEN
    assert "cannot be written" in shown.stderr


def test_a_value_in_too_many_bytes_is_not_looked_for(at: Cli, served: Served, tmp_path: Path) -> None:
    uri = stored(at, tmp_path, "a.json", b"1")
    for known, _ in served.model.artifacts.values():
        known.size = 300 * 1024 * 1024
    shown = at("artifacts", "get", f"{uri}#")
    assert shown.exit_code == Exit.REFUSED
    assert "too many to look for a value in; fetch its bytes: taskyard artifacts get" in shown.stderr


def test_a_name_leads_out_of_no_folder(at: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(b"data")
    uri = at("artifacts", "put", "x", "--name", "../../etc/passwd").stdout.strip()
    assert at("artifacts", "get", uri).exit_code == Exit.OK
    assert (tmp_path / "passwd").read_bytes() == b"data"


def test_list_and_delete(at: Cli, served: Served, tmp_path: Path) -> None:
    assert "no artifacts" in at("artifacts", "list").stdout
    uris = [stored(at, tmp_path, name, b"x" * 2000) for name in ("one", "two")]
    shown = at("artifacts", "list").stdout
    assert all(word in shown for word in ("one", "two", "2.0 kB"))
    assert len(json.loads(at("artifacts", "list", "-o", "json").stdout)["artifacts"]) == 2
    gone = at("artifacts", "delete", *uris)
    assert gone.exit_code == Exit.OK
    assert gone.stdout == "".join(f"{uri} deleted\n" for uri in uris)
    assert at("artifacts", "show", uris[0]).exit_code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["put", "no-such-file"], Exit.REFUSED, "there is no file no-such-file"),
        (["put", "."], Exit.REFUSED, "cannot be read"),
        (["show", "nonsense"], Exit.REFUSED, "is no artifact's URI"),
        (["show", "artifact://018f3b5e-7c1a-7abc-9def-0123456789ab#"], Exit.REFUSED, "without #"),
        (["get", "artifact://018f3b5e-7c1a-7abc-9def-0123456789ab#/a"], Exit.NOT_FOUND, "there is no artifact"),
        (["get", "018f3b5e-7c1a-7abc-9def-0123456789ab"], Exit.NOT_FOUND, "there is no artifact"),
        (["get", ""], Exit.USAGE, ""),
    ],
)
def test_what_cannot_be_done_is_said(at: Cli, arguments: list[str], code: Exit, words: str) -> None:
    shown = at("artifacts", *arguments)
    assert shown.exit_code == code
    assert words in shown.stderr
