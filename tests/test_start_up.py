"""What a start loads: only what it needs. Modules are counted, not milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from taskyard_cli.main import build

SERVER = {"alembic", "sqlalchemy", "pymysql", "taskyard_core", "taskyard_scheduler", "taskyard_service"}
SERVER_PARTS_OF_GRPC = {"grpc_health.v1", "grpc_reflection.v1alpha"}
REMOTE = {"grpc", "google.protobuf", "taskyard.v1", "taskyard_client"}
DATABASES = {"alembic", "pymysql"}

OPENED = """
import asyncio, sys
from taskyard_scheduler.main import open_store
async def opened():
    store = open_store(sys.argv[1])
    await store.open()
    await store.close()
asyncio.run(opened())
"""
COMMAND = "from taskyard_cli.main import build\nbuild({name!r})"


def loaded(code: str, *arguments: str) -> set[str]:
    """Returns the modules that a fresh process has after running `code`."""
    told = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "needless"),
    [
        ("import taskyard_cli.main", SERVER | SERVER_PARTS_OF_GRPC | REMOTE | {"taskyard_worker", "yaml", "jwt"}),
        (COMMAND.format(name="scheduler"), SERVER | SERVER_PARTS_OF_GRPC | REMOTE | {"taskyard_worker", "yaml"}),
        (COMMAND.format(name="token"), SERVER | SERVER_PARTS_OF_GRPC | REMOTE | {"taskyard_worker", "yaml"}),
        (COMMAND.format(name="submit"), SERVER | SERVER_PARTS_OF_GRPC | {"taskyard_worker", "taskyard_cli.demo"}),
        ("import taskyard_cli.dev.launcher", SERVER | SERVER_PARTS_OF_GRPC | REMOTE | {"taskyard_worker", "typer"}),
        ("import taskyard_worker.main", SERVER | SERVER_PARTS_OF_GRPC | {"taskyard_cli", "typer"}),
        ("import taskyard_scheduler.main", DATABASES | {"taskyard_cli", "taskyard_client", "typer"}),
    ],
    ids=["command", "scheduler", "token", "submit", "child of dev", "worker", "scheduler's process"],
)  # fmt: skip
def test_an_entry_loads_nothing_that_it_does_not_need(code: str, needless: set[str]) -> None:
    assert loaded(code) & needless == set()


def test_a_database_without_a_due_migration_needs_no_alembic(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'taskyard.db'}"
    for _ in ("empty", "at the newest revision"):
        modules = loaded(OPENED, address)
        assert "sqlalchemy" in modules  # the look itself sees what is loaded
        assert modules & DATABASES == set()


@pytest.mark.parametrize("command", [["submit"], ["workflow"], ["task", "show"], ["runs"], ["token"]])
def test_a_command_loaded_alone_is_the_same(command: list[str]) -> None:
    asked = [*command, "--help"]
    alone = CliRunner().invoke(build(command[0]), asked)
    assert alone.exit_code == 0
    assert alone.output == CliRunner().invoke(build(), asked).output
