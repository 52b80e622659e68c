"""The command: `python -m conformance.kit [options] -- COMMAND…`.

Exit codes: 0 passed, 1 failed, 2 wrong arguments, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from conformance.kit import report
from conformance.kit.playing import Outcome, play_all
from conformance.kit.scenario import Scenario, ScenarioError, read_all
from conformance.kit.stage import PATIENCE_S
from conformance.kit.unmet import one_of

PASSED, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
SIDE_BY_SIDE = 4
PATIENCE = "how long the worker may take where a scenario does not say (default: 15)"


class Wrong(Exception):
    """The arguments are wrong; the text says how."""


def parser() -> argparse.ArgumentParser:
    """Returns the arguments' parser."""
    found = argparse.ArgumentParser(
        prog="python -m conformance.kit", description="Plays the conformance scenarios with a worker.",
        usage="%(prog)s [options] -- COMMAND…",
    )  # fmt: skip
    found.add_argument("--core", action="store_true", help="only what every worker must pass, however small")
    found.add_argument("--only", action="append", metavar="NAME", help="only this scenario; may be repeated")
    found.add_argument("--list", action="store_true", help="list the scenarios and play none")
    found.add_argument("--json", action="store_true", help="print everything as JSON instead of the table")
    found.add_argument("--compare", type=Path, metavar="FILE", help="compare with --json of another worker")
    found.add_argument("-j", type=count, default=SIDE_BY_SIDE, metavar="N", help="how many side by side (default: 4)")
    found.add_argument("--patience", type=duration, default=PATIENCE_S, metavar="SECONDS", help=PATIENCE)
    found.add_argument("-v", action="store_true", help="print what came, in order, and the history of each")
    found.add_argument("command", nargs="*", metavar="COMMAND", help="the worker's command line")
    return found


def count(text: str) -> int:
    """Reads how many side by side."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def duration(text: str) -> float:
    """Reads seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def main(argv: Sequence[str]) -> int:
    """Plays; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        scenarios = chosen(read_all(), arguments)
        if arguments.list:
            print(report.listing(scenarios))
            return PASSED
        command = runnable(arguments.command)
        others = histories(arguments.compare)
    except (Wrong, ScenarioError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return USAGE
    try:
        return told(scenarios, command, arguments, others)
    except KeyboardInterrupt:
        return stopped(INTERRUPTED)
    except asyncio.CancelledError:
        return stopped(TERMINATED)


def stopped(code: int) -> int:
    """Says that not everything was played; returns the code."""
    print("conformance: stopped; every worker that it had started is killed", file=sys.stderr)
    return code


def told(
    scenarios: list[Scenario], command: list[str], arguments: argparse.Namespace, others: dict[str, list[str]] | None
) -> int:
    """Plays, prints, and returns the exit code."""

    def tell(outcome: Outcome) -> None:
        if not arguments.json:
            print(report.row(outcome), flush=True)
            if arguments.v or not outcome.passed:
                print(report.details(outcome), flush=True)

    if not arguments.json:
        print(report.heading(), flush=True)
    outcomes = asyncio.run(stoppable(play_all(scenarios, command, arguments.j, tell, arguments.patience)))
    print(report.as_json(outcomes) if arguments.json else report.summary(outcomes))
    unlike = report.differences(outcomes, others) if others is not None else []
    for sentence in unlike:
        print(sentence, file=sys.stderr)
    return PASSED if all(each.passed for each in outcomes) and not unlike else FAILED


async def stoppable(playing: Coroutine[None, None, list[Outcome]]) -> list[Outcome]:
    """Plays until SIGTERM cancels it, as Ctrl-C does by itself: what was started is ended."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await playing


def chosen(scenarios: list[Scenario], arguments: argparse.Namespace) -> list[Scenario]:
    """Returns what is to be played. Raises Wrong."""
    names = [each.name for each in scenarios]
    for name in arguments.only or ():
        if name not in names:
            raise Wrong(f"there is no scenario {name!r}; {one_of(name, names)}")
        if arguments.core and not next(each for each in scenarios if each.name == name).core:
            raise Wrong(f"{name!r} is not of the core; leave --core out")
    return [
        each
        for each in scenarios
        if (each.core or not arguments.core) and (not arguments.only or each.name in arguments.only)
    ]


def runnable(command: list[str]) -> list[str]:
    """Returns the command with the path of its program. Raises Wrong."""
    if not command:
        raise Wrong('no worker is given; write its command line as WORKER="…" of `make conformance`, or after `--`')
    program = shutil.which(command[0])
    if program is None:
        raise Wrong(f"cannot start the worker: {why_not(Path(command[0]))}")
    return [str(Path(program).absolute()), *command[1:]]


def why_not(program: Path) -> str:
    """Returns why a program cannot be started, with the way out."""
    if program.is_dir():
        return f"{str(program)!r} is a folder; name the program in it"
    if program.is_file() and len(program.parts) > 1:
        return f"{str(program)!r} is not executable; `chmod +x` it, or name its interpreter first"
    if program.is_file():
        return f"{str(program)!r} is not on PATH; write ./{program}"
    return f"there is no program {str(program)!r}; is its path right, seen from {Path.cwd()}?"


def histories(path: Path | None) -> dict[str, list[str]] | None:
    """Reads the other worker's histories; None when nothing is to be compared. Raises Wrong."""
    if path is None:
        return None
    try:
        return {each["scenario"]: lines(each["history"]) for each in json.loads(path.read_text())}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Wrong(f"--compare {path}: it is not what --json printed ({error})") from error


def lines(history: object) -> list[str]:
    """Returns a history that is one. Raises TypeError."""
    if not isinstance(history, list):
        raise TypeError(f"a history is {history!r}, but must be a list of lines")
    return list(map(str, history))


def without_reader(argv: Sequence[str]) -> int:
    """Plays; ends without a word when nobody reads any more what it prints (`| head`)."""
    readerless = False
    code = FAILED
    try:
        code = main(argv)
        sys.stdout.flush()
    except* BrokenPipeError:
        readerless = True
    if readerless:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(without_reader(sys.argv[1:]))
