"""What a handler gives out is seen as it comes: by the client, over HTTP, and on the terminal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest

from e2e.site import Site
from taskyard_client import InvalidInput
from taskyard_service.identity import Role

TEXT = "One two.\nThree"


async def run_command(site: Site, *arguments: str) -> asyncio.subprocess.Process:
    """Starts `taskyard` as a person does."""
    environ = site.environ(TASKYARD_ADDRESS=site.address, TASKYARD_TOKEN=site.token())
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskyard_cli", *arguments, env=environ, stdout=asyncio.subprocess.PIPE
    )


async def test_the_client_sees_it_while_the_task_runs(shared_site: Site, tmp_path: Path) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    handle = await shared_site.client().submit("recite", {"gate": str(gate)})
    seen = ""
    async for line in handle.logs(follow=True, streams=["output"]):
        assert (line.content.stream, line.content.level) == ("output", "")
        seen += line.content.text + ("" if line.content.partial else "\n")
        if seen == "One ":
            gate.write_text("go")
    assert seen == TEXT
    everything = [(line.content.stream, line.content.text) async for line in handle.logs()]
    assert everything[:2] == [("output", "One "), ("log", "a note")]
    assert [line.content.text async for line in handle.logs(streams="log")] == ["a note"]
    with pytest.raises(InvalidInput, match="'stdin' is no stream"):
        await anext(handle.logs(streams=["stdin"]))


async def test_the_command_prints_it_as_it_comes(shared_site: Site, tmp_path: Path) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    handle = await shared_site.client().submit("recite", {"gate": str(gate)})
    command = await run_command(shared_site, "logs", "-f", handle.id, "--stream", "output")
    assert command.stdout is not None
    async with asyncio.timeout(60):
        assert await command.stdout.readexactly(4) == b"One "  # the line has no end yet
        gate.write_text("go")
        rest, _ = await command.communicate()
    assert (command.returncode, rest.decode()) == (0, TEXT.removeprefix("One "))


async def test_it_comes_as_events_over_http(shared_site: Site, tmp_path: Path) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    handle = await shared_site.client().submit("recite", {"gate": str(gate)})
    seen = ""
    headers = {"authorization": f"Bearer {shared_site.token(Role.VIEWER)}"}
    base = f"http://127.0.0.1:{shared_site.http_port}/api/v1/tasks/{handle.id}"
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as client,
        client.stream("GET", f"{base}/logs:stream", params={"selection.streams": "output"}) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and "lines" in (data := json.loads(line[6:])):
                for each in data["lines"]:
                    seen += each["content"]["text"] + ("" if each["content"].get("partial") else "\n")
                if seen == "One ":
                    gate.write_text("go")
    assert seen == TEXT
