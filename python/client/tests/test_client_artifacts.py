"""The sync client's calls about artifacts, against a scripted server; the async ones are tested on real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import ScriptedServer

from taskyard_client import Client, InvalidInput, NotFound, ServerError

MIB = 1024 * 1024


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Client]:
    with Client(server.address, None) as made:
        yield made


def test_bytes_text_files_and_pieces_are_uploaded(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    told: list[int] = []
    stored = [
        client.artifacts.upload(b"x" * (2 * MIB + 1), progress=told.append),
        client.artifacts.upload("汉字", "t"),
        client.artifacts.upload(path),
        client.artifacts.upload([b"x" * (MIB + 1), b"y"], "p.csv"),
    ]
    assert [(each.name, each.media_type, each.size) for each in stored] == [
        ("", "", 2 * MIB + 1), ("t", "text/plain; charset=utf-8", 6), ("a.json", "application/json", 2),
        ("p.csv", "text/csv", MIB + 2),
    ]  # fmt: skip
    assert told == [MIB, 2 * MIB, 2 * MIB + 1]
    assert client.artifacts.read(stored[3].uri) == b"x" * (MIB + 1) + b"y"
    client.artifacts.download(stored[2].uri, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"{}"
    assert (tmp_path / "copy").stat().st_mode & 0o777 == path.stat().st_mode & 0o777
    assert [each.name for each in client.artifacts.list()] == ["", "t", "a.json", "p.csv"]
    client.artifacts.delete(stored[0].artifact_id)
    with pytest.raises(NotFound):
        client.artifacts.get(stored[0].uri)


def test_a_file_that_is_not_there_is_an_invalid_input(client: Client, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidInput, match="cannot be read"):
            client.artifacts.upload(path)


def test_values_in_artifacts_are_found(client: Client) -> None:
    uri = client.artifacts.upload(json.dumps({"a": [1, {"b": "c"}]})).uri
    assert client.artifacts.resolve({"x": f"{uri}#/a/1/b", "y": [uri, f"{uri}#/a/0"]}) == {"x": "c", "y": [uri, 1]}
    with pytest.raises(NotFound, match=r"x: 'artifact://.*#/z' stands for nothing: there is no key 'z'"):
        client.artifacts.resolve({"x": f"{uri}#/z"})


def test_damaged_bytes_take_no_place(client: Client, server: ScriptedServer, tmp_path: Path) -> None:
    stored = client.artifacts.upload(b"data")
    artifact, _ = server.model.artifacts[stored.artifact_id]
    server.model.artifacts[stored.artifact_id] = (artifact, b"dato")
    with pytest.raises(ServerError, match="damaged"):
        client.artifacts.download(stored.uri, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
