"""`taskyard demo` on real processes: what it prints, the report that it leaves, and that it leaves nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from wire_server import Talk, answer, says, streams, wire_server

from docs.test_demo_workflow import FOUND
from taskyard_cli.demo.questions import QUESTIONS, SOURCES
from taskyard_cli.demo.workflow import workflow
from taskyard_cli.dev.supervisor import STOP_S
from taskyard_worker.embeddings.hashing import embed

STEPS = len(workflow(llm=False).steps)
COMMAND = [sys.executable, "-m", "taskyard_cli", "demo"]


def environment(folder: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
    return kept | {"TMPDIR": str(folder)}


@pytest.mark.timeout(300)
def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND, env=environment(tmp_path), capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    victim = re.search(r"kill -9 of (demo-worker-\d), which runs (\w+)", done.stderr)
    assert victim
    other = ({"demo-worker-1", "demo-worker-2"} - {victim[1]}).pop()
    report = Path(re.findall(r"^report\s+(\S+)", done.stdout, re.MULTILINE)[0]).read_text()
    told = [f"{victim[1]} was killed (kill -9) while it ran {victim[2]}; attempt 2 ran on {other}",
            "shard_1 failed at attempt 1", "queued for a free slot", "scheduling", "running"]  # fmt: skip
    for sentence in told:
        assert sentence in done.stdout
        assert sentence in report
    for line in (rf"steps +{STEPS} of {STEPS}", "workers +demo-worker-1 .* demo-worker-2", "wall time +"):
        assert re.search(line, done.stdout), line
    assert re.findall(r"^### (.*)$", report, re.MULTILINE) == [each.text for each in QUESTIONS]
    assert "The answers are summaries" in report
    assert found_in(report) >= FOUND
    assert f"for {found_in(report)} of them a section with the answer is among the 5 passages" in flat(done.stdout)
    assert [path.name for path in tmp_path.glob("taskyard-demo-*/*")] == ["report.md"]


def found_in(report: str) -> int:
    """Returns for how many questions a source has the answer."""
    return sum("| yes |" in section for section in report.split("\n### ")[1:])


def flat(text: str) -> str:
    """Returns a text without its line ends."""
    return " ".join(text.split())


@pytest.mark.timeout(300)
async def test_with_an_endpoint_a_model_answers_and_one_model_embeds(tmp_path: Path) -> None:
    async def speak(talk: Talk) -> None:
        if talk.request.path.endswith("/embeddings"):
            vectors = [{"index": place, "embedding": embed(text, 64)} for place, text in asked(talk)]
            await answer(200, {"data": vectors})(talk)
        else:
            await streams(says("As ", "[1] ", "says."))(talk)

    async with wire_server() as server:
        server.will(speak)
        endpoint = {
            "TASKYARD_LLM_BASE_URL": f"{server.address}/v1", "TASKYARD_EMBEDDING_MODEL": "small",
        }  # fmt: skip
        report = tmp_path / "report.md"
        running = await asyncio.create_subprocess_exec(
            *COMMAND, "--report", str(report), env={**environment(tmp_path), **endpoint},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        printed, _ = await asyncio.wait_for(running.communicate(), 280)
    assert running.returncode == 0, printed.decode()
    text = report.read_text()
    assert text.count("As \\[1\\] says.") == len(QUESTIONS)
    assert "written by `tiny-1`" in text
    assert "`small` made the vectors" in text
    embedded = [each.json() for each in server.requests if each.path == "/v1/embeddings"]
    assert {each["model"] for each in embedded} == {"small"}
    texts = {text for each in embedded for text in each["input"]}
    prompts = [each.json()["messages"][-1]["content"] for each in server.requests if each.path.endswith("/completions")]
    for question in QUESTIONS:
        assert question.text in texts
        passages = [prompt for prompt in prompts if prompt.endswith(f"Question: {question.text}")]
        assert passages
        assert all(f"\n\n[{number}] " in f"\n\n{prompt}" for prompt in passages for number in range(1, SOURCES + 1))


def asked(talk: Talk) -> list[tuple[int, str]]:
    """Returns the texts of which vectors are asked for, with their places."""
    return list(enumerate(talk.request.json()["input"]))


@pytest.mark.timeout(300)
def test_kept_it_can_be_looked_at_until_it_is_stopped(tmp_path: Path) -> None:
    report = tmp_path / "index.md"
    with subprocess.Popen(
        [*COMMAND, "--keep", "--report", str(report)], env=environment(tmp_path), text=True, stdout=subprocess.PIPE
    ) as kept:
        try:
            assert kept.stdout is not None
            told = ""
            for line in kept.stdout:
                told += line
                if "Ctrl-C stops everything" in line:
                    break
            looks = re.findall(r"^  taskyard (.*)$", told, re.MULTILINE)
            data = re.findall(r"TASKYARD_DATA=(\S+)", told)[0]
            assert len(looks) == 4
            seen = [
                subprocess.run(
                    [*COMMAND[:-1], *look.split()], env={**environment(tmp_path), "TASKYARD_DATA": data},
                    capture_output=True, text=True, timeout=60, check=True,
                ).stdout
                for look in looks
            ]  # fmt: skip
            assert "SUCCEEDED" in seen[0]
            assert seen[1].count("SUCCESS") == STEPS
            assert "reference_passages" in seen[2]
            assert seen[3].count("HEALTHY") == 2
            kept.send_signal(signal.SIGINT)
            assert kept.wait(60) == 0
        finally:
            kept.kill()
    assert report.read_text().startswith("# Questions on the Python language")
    assert list(tmp_path.glob("taskyard-demo-*")) == []


@pytest.mark.timeout(300)
def test_stopped_while_the_worker_that_it_kills_is_frozen(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, env=environment(tmp_path), stdout=subprocess.DEVNULL) as running:
        try:
            demo = psutil.Process(running.pid)
            deadline = time.monotonic() + 120
            while not any(child.status() == psutil.STATUS_STOPPED for child in demo.children()):
                assert time.monotonic() < deadline
                assert running.poll() is None
            children = demo.children(recursive=True)
            interrupted = time.monotonic()
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 130
            assert time.monotonic() - interrupted < STOP_S - 5
            assert psutil.wait_procs(children, 10)[1] == []
        finally:
            running.kill()


def test_a_report_that_has_no_place_is_refused_at_once(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "report.md"
    done = subprocess.run(
        [*COMMAND, "--report", str(nowhere)], env=environment(tmp_path), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr == f"error: there is no directory {nowhere.parent} for the report\n"
    assert list(tmp_path.iterdir()) == []
