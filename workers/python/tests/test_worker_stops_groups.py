"""How processes are stopped: the whole group is asked, gets its grace to the last process, and is killed after it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from isolated_tasks import CLEANER
from process_watch import alive, gone, number_in, read_number
from test_worker_processes import cancel, real_worker
from worker_fakes import Bench, FakeStream, assignment, status

from taskyard_worker import processes

PYTHON = """
import os, signal, sys, time
def clean(*_):
    time.sleep(0.3)
    open(sys.argv[1] + ".clean", "w").write("1\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, clean)
open(sys.argv[1], "w").write(f"{os.getpid()}\\n")
time.sleep(600)
"""

FORMS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "a program in the shell": lambda file, bash: {"command": f"bash {bash}"},
    "another behind it": lambda file, bash: {"command": f"bash {bash}; echo after"},
    "a change of directory": lambda file, bash: {"command": f"cd /tmp && bash {bash}"},
    "a pipe": lambda file, bash: {"command": f"bash {bash} | cat"},
    "in the background": lambda file, bash: {"command": f"bash {bash} & wait"},
    "another shell": lambda file, bash: {"command": f"sh -c 'bash {bash}; true'"},
    "python": lambda file, bash: {"command": f"python3 -c {shlex.quote(PYTHON)} {file}"},
    "a list": lambda file, bash: {"command": ["bash", bash]},
    "a script": lambda file, bash: {"script": CLEANER.format(file)},
    "a script of bash": lambda file, bash: {"script": f"#!/bin/bash\n{CLEANER.format(file)}"},
    "a script that runs another": lambda file, bash: {"script": f"bash {bash}\necho after\n"},
}


def cleaner(tmp_path: Path, task_type: str, form: str = "") -> tuple[Path, str, dict[str, Any]]:
    """Returns the file for the process id, and the task that writes it and tidies up on SIGTERM."""
    file, bash = tmp_path / "pid", tmp_path / "clean.sh"
    bash.write_text(CLEANER.format(file))
    values = FORMS[form](str(file), str(bash)) if form else {"pid_file": str(file)}
    return file, task_type, values


async def clean(stream: FakeStream, file: Path, wanted: str) -> None:
    """Checks that the attempt ended as ordered, that its program had tidied up by then, and that nothing lives."""
    began = time.monotonic()
    result = await stream.result("a")
    assert status(result) == wanted
    assert read_number(file.with_suffix(".clean")) == 1
    assert not alive(read_number(file) or 0)
    assert time.monotonic() - began < 9, "it waited for the end of the grace although nothing was left"


KINDS = [*(("shell", form) for form in FORMS), ("parent", ""), ("async_parent", "")]


@pytest.mark.parametrize(("task_type", "form"), KINDS, ids=[form or kind for kind, form in KINDS])
async def test_what_is_cancelled_may_tidy_up(tmp_path: Path, task_type: str, form: str) -> None:
    file, task_type, values = cleaner(tmp_path, task_type, form)
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(assignment("a", task_type, input_json=json.dumps(values)))
        await number_in(file)
        stream.push(cancels=[cancel("a", grace_ms=10_000)])
        await clean(stream, file, "CANCELLED")


STOPPED = [("shell", "another behind it"), ("parent", ""), ("async_parent", "")]


@pytest.mark.parametrize(("task_type", "form"), STOPPED)
async def test_what_runs_out_of_time_may_tidy_up(tmp_path: Path, task_type: str, form: str) -> None:
    file, task_type, values = cleaner(tmp_path, task_type, form)
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(assignment("a", task_type, input_json=json.dumps(values), timeout_ms=1500))
        await number_in(file)
        await clean(stream, file, "TIMEOUT")


@pytest.mark.parametrize(("task_type", "form"), STOPPED)
async def test_what_a_worker_hands_back_may_tidy_up(tmp_path: Path, task_type: str, form: str) -> None:
    file, task_type, values = cleaner(tmp_path, task_type, form)
    async with real_worker() as (bench, _):
        stream = await drained(bench, file, task_type, values)
        await clean(stream, file, "INTERRUPTED")


async def drained(bench: Bench, file: Path, task_type: str, values: dict[str, Any]) -> FakeStream:
    stream = await bench.link.stream()
    stream.assign(assignment("a", task_type, input_json=json.dumps(values)))
    await number_in(file)
    bench.runtime.work.interrupt(10.0)
    return stream


async def test_what_outlasts_the_grace_below_an_ended_shell_is_killed(tmp_path: Path) -> None:
    line = f"bash -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done'; echo after"
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(assignment("a", "shell", input_json=json.dumps({"command": line})))
        pid = await number_in(tmp_path / "pid")
        began = time.monotonic()
        stream.push(cancels=[cancel("a", grace_ms=500)])
        assert status(await stream.result("a")) == "CANCELLED"
        await gone(pid, 2)
        assert 0.5 <= time.monotonic() - began < 5
        assert not any(part.cancel_unconfirmed for part in stream.progress)


async def test_what_is_frozen_is_asked_too(tmp_path: Path) -> None:
    file, task_type, values = cleaner(tmp_path, "shell", "a list")
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        stream.assign(assignment("a", task_type, input_json=json.dumps(values)))
        os.kill(await number_in(file), signal.SIGSTOP)
        stream.push(cancels=[cancel("a", grace_ms=10_000)])
        await clean(stream, file, "CANCELLED")


def test_a_dead_process_that_nobody_has_buried_keeps_no_group_alive() -> None:
    leader = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.group_lives(leader.pid)
    leader.wait()
    assert not processes.group_lives(leader.pid)


async def test_a_group_lives_as_long_as_one_of_it(tmp_path: Path) -> None:
    line = f"sleep 600 & echo $! > {tmp_path}/pid"
    leader = await asyncio.create_subprocess_exec("/bin/sh", "-c", line, start_new_session=True)
    await leader.wait()
    assert processes.group_lives(leader.pid)
    os.killpg(leader.pid, signal.SIGKILL)
    await gone(await number_in(tmp_path / "pid"), 5)
    assert not processes.group_lives(leader.pid)
