"""What the kit says of workers, arguments and scenarios that cannot work; stopped, it leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from e2e.process import alive, until

from conformance.kit.playing import Outcome, play
from conformance.kit.scenario import read, read_all

ROOT = Path(__file__).parents[2]
KIT = [sys.executable, "-m", "conformance.kit"]
SCENARIOS = {scenario.name: scenario for scenario in read_all()}
HANGS = ["sh", "-c", "exec sleep 1000"]
HASTE_S = 0.3


def environ(folder: Path) -> dict[str, str]:
    """Returns an environment in which scenarios have their folders in this one."""
    return os.environ | {"PYTHONPATH": str(ROOT / "tests"), "TMPDIR": str(folder)}


def kit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Plays to the end; a traceback is never what a person gets."""
    done = subprocess.run(
        [*KIT, *arguments], env=environ(folder), cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


# --- arguments -------------------------------------------------------------------------------------


def script(folder: Path) -> str:
    (folder / "worker.sh").write_text("exec true\n")
    return str(folder / "worker.sh")


def beside(folder: Path) -> str:
    (folder / "my-worker").write_text("#!/bin/sh\n")
    (folder / "my-worker").chmod(0o755)
    return "my-worker"


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (str, "is a folder; name the program in it"),
        (script, "is not executable; `chmod +x` it, or name its interpreter first"),
        (beside, "'my-worker' is not on PATH; write ./my-worker"),
        (lambda folder: "no-such", "there is no program 'no-such'; is its path right, seen from "),
    ],
)
def test_a_command_that_cannot_start_is_refused_with_the_way_out(
    tmp_path: Path, program: Callable[[Path], str], sentence: str
) -> None:
    done = kit(tmp_path, "--only", "success", "--", program(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-j", "0"], "argument -j: '0' is no whole number of at least 1"),
        (["-j", "two"], "argument -j: 'two' is no whole number of at least 1"),
        (["--patience", "nan"], "argument --patience: 'nan' is no number of seconds above 0"),
        (["--patience", "-1"], "argument --patience: '-1' is no number of seconds above 0"),
        (["--core", "--only", "capabilities"], "'capabilities' is not of the core; leave --core out"),
    ],
)
def test_an_option_that_plays_nothing_is_refused(tmp_path: Path, arguments: Sequence[str], sentence: str) -> None:
    done = kit(tmp_path, *arguments, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.parametrize("told", [{"a": 1}, [7], [{"scenario": "success"}], [{"scenario": "success", "history": 5}]])
def test_histories_of_another_shape_are_refused(tmp_path: Path, told: object) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(told))
    done = kit(tmp_path, "--only", "success", "--compare", str(other), "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--compare {other}: it is not what --json printed" in done.stderr


# --- workers ---------------------------------------------------------------------------------------


def outcome_of(name: str, command: Sequence[str], patience_s: float = 30) -> Outcome:
    return asyncio.run(play(SCENARIOS[name], command, patience_s))


@pytest.mark.parametrize("name", ["success", "real-golden-path"])
def test_a_worker_that_ends_at_once_is_not_waited_for(name: str) -> None:
    outcome = outcome_of(name, ["sh", "-c", "echo no config >&2; exit 7"])
    assert "(the worker has ended with exit code 7)" in outcome.unmet
    assert "no config" in outcome.output
    assert outcome.seconds < 20


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("exit 3", "(the worker has ended with exit code 3)"),
        ("kill -TERM $$", "by SIGTERM, which it did not catch (a script has to become the worker with `exec`))"),
        ("kill -SEGV $$", "(the worker has ended by SIGSEGV)"),
    ],
)
def test_how_a_worker_ended_is_told_in_words(does: str, told: str) -> None:
    assert told in outcome_of("success", ["sh", "-c", does]).unmet


def test_a_worker_that_wrote_nothing_is_said_to(tmp_path: Path) -> None:
    done = kit(tmp_path, "--only", "success", "--", "true")
    assert done.returncode == 1
    assert "the worker did not register (the worker has ended with exit code 0)" in done.stdout
    assert "--- the worker's last lines\n(it wrote nothing)" in done.stdout


def test_a_worker_that_hangs_is_given_up_and_killed_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    outcome = outcome_of("success", ["sh", "-c", f"sleep 1000 & echo $! $$ > {pids}; wait"], HASTE_S)
    assert "the worker did not register (waited 0.3 s)" in outcome.unmet
    assert [pid for pid in pids.read_text().split() if alive(int(pid))] == []


def test_a_worker_that_writes_without_end_is_shown_by_its_last_lines() -> None:
    outcome = outcome_of("success", ["sh", "-c", "yes 'not yet'"], HASTE_S)
    assert outcome.output.splitlines()[-2:-1] == ["not yet"]
    assert len(outcome.output) < 64 * 1024


def test_a_program_that_nothing_can_run_is_told_as_a_failure(tmp_path: Path) -> None:
    program = tmp_path / "worker"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    outcome = outcome_of("success", [str(program)])
    assert "could not be started" in outcome.unmet or "exit code 127" in outcome.unmet
    assert "No such file" in outcome.unmet + outcome.output


# --- scenarios -------------------------------------------------------------------------------------

HEAD = "about: Something is lost.\ncore: true\nscheduler: scripted\nsteps:\n"


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ("  - exited: 0\n", "the scenario has not started the worker [line 5: exited]"),
        ("  - started: a\n", "the scenario has assigned no task `a` [line 5: started]"),
        ("  - start:\n  - wire: bend\n", "the wire cannot 'bend'; write one of carry, cut, refuse, swallow"),
        ("  - never: {what: sense}\n", "nobody counts 'sense'; write one of deregistration, more heartbeats"),
        (
            "  - name: [a]\n  - ack: {task: a, outcome: LOST}\n",
            "there is no outcome 'LOST'; write one of RECORDED, STALE_ATTEMPT, UNKNOWN_TASK, UNSPECIFIED [line 6: ack]",
        ),
        ("  - refuse: {call: Register, code: XYZ}\n", "there is no code 'XYZ'; write one of ABORTED, ALREADY_EXISTS, "),
        ("  - refuse: {call: Regster, code: ABORTED}\n", "there is no call 'Regster'; did you mean `Register`?"),
        (
            "  - name: [a]\n  - checkpointed: {task: a, value: '{'}\n",
            "the kit could not play this: JSONDecodeError: ",
        ),
    ],
)
def test_a_step_that_nobody_can_play_is_told_with_its_line(tmp_path: Path, steps: str, sentence: str) -> None:
    path = tmp_path / "01-some.yaml"
    path.write_text(HEAD + steps)
    outcome = asyncio.run(play(read(path), HANGS, HASTE_S))
    assert sentence in outcome.unmet


def test_a_task_that_no_step_submitted_is_told(tmp_path: Path) -> None:
    path = tmp_path / "01-some.yaml"
    path.write_text(HEAD.replace("scripted", "real") + "  - running: a\n")
    assert "the scenario has submitted no task `a`" in asyncio.run(play(read(path), HANGS, HASTE_S)).unmet


# --- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ended_by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("name", ["success", "real-golden-path"])
async def test_a_kit_that_is_stopped_leaves_nothing_behind(
    tmp_path: Path, name: str, ended_by: signal.Signals, code: int
) -> None:
    pids = tmp_path / "pids"
    folders = tmp_path / "folders"
    folders.mkdir()
    worker = ["sh", "-c", f"sleep 1000 & echo $! $$ > {pids}; wait"]
    process = await asyncio.create_subprocess_exec(
        *KIT, "--only", name, "--", *worker, env=environ(folders),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    await until(lambda: pids.exists() and pids.read_text().endswith("\n"), what="the worker runs")
    assert any(folders.iterdir())
    process.send_signal(ended_by)
    _, said = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, said.decode()) == (
        code,
        "conformance: stopped; every worker that it had started is killed\n",
    )
    started = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(alive, started)), what="all of it is gone")  # somebody else buries the orphan
    assert list(folders.iterdir()) == []


def test_nobody_who_reads_is_no_error(tmp_path: Path) -> None:
    command = f"{' '.join(KIT)} --only success -v -- true | {shutil.which('true')}"
    done = subprocess.run(
        ["sh", "-c", command], env=environ(tmp_path), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_a_make_that_is_stopped_stops_the_kit(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\necho $$ > {pids}\nexec sleep 1000\n")
    worker.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        "make", "conformance", f"WORKER={worker}", "KIT=--only success", cwd=ROOT, env=environ(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    await until(lambda: pids.exists() and pids.read_text().endswith("\n"), what="the worker runs")
    process.terminate()
    _, said = await asyncio.wait_for(process.communicate(), 30)  # until the last of them has closed its output
    assert b"conformance: stopped; every worker that it had started is killed" in said
    await until(lambda: not alive(int(pids.read_text())), what="the worker is gone")
