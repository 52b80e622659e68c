"""The command: `python -m conformance.kit [options] -- COMMAND…`. Exit codes: 0 passed, 1 failed, 2 wrong arguments."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.kit import report
from conformance.kit.playing import Outcome, play_all
from conformance.kit.scenario import Scenario, ScenarioError, one_of, read_all
from conformance.kit.stage import PATIENCE_S

PASSED, FAILED, USAGE = 0, 1, 2
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
    found.add_argument("-j", type=int, default=SIDE_BY_SIDE, metavar="N", help="how many side by side (default: 4)")
    found.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS", help=PATIENCE)
    found.add_argument("-v", action="store_true", help="print what came, in order, and the history of each")
    found.add_argument("command", nargs="*", metavar="COMMAND", help="the worker's command line")
    return found


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
    return told(scenarios, command, arguments, others)


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
    outcomes = asyncio.run(play_all(scenarios, command, max(1, arguments.j), tell, arguments.patience))
    print(report.as_json(outcomes) if arguments.json else report.summary(outcomes))
    unlike = report.differences(outcomes, others) if others is not None else []
    for sentence in unlike:
        print(sentence, file=sys.stderr)
    return PASSED if all(each.passed for each in outcomes) and not unlike else FAILED


def chosen(scenarios: list[Scenario], arguments: argparse.Namespace) -> list[Scenario]:
    """Returns what is to be played. Raises Wrong."""
    names = [each.name for each in scenarios]
    for name in arguments.only or ():
        if name not in names:
            raise Wrong(f"there is no scenario {name!r}; {one_of(name, names)}")
    return [
        each
        for each in scenarios
        if (each.core or not arguments.core) and (not arguments.only or each.name in arguments.only)
    ]


def runnable(command: list[str]) -> list[str]:
    """Returns the command with the path of its program. Raises Wrong."""
    if not command:
        raise Wrong("no worker is given; write its command line after `--`, such as `-- ./my-worker`")
    program = shutil.which(command[0])
    if program is None:
        raise Wrong(f"there is no program {command[0]!r} to start the worker with; is its path right?")
    return [str(Path(program).absolute()), *command[1:]]


def histories(path: Path | None) -> dict[str, list[str]] | None:
    """Reads the other worker's histories; None when nothing is to be compared. Raises Wrong."""
    if path is None:
        return None
    try:
        return {each["scenario"]: each["history"] for each in json.loads(path.read_text())}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Wrong(f"--compare {path}: it is not what --json printed ({error})") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
