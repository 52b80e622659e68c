"""What the kit prints: a line for each scenario as it ends, what failed, and the same for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from conformance.kit.playing import Outcome
from conformance.kit.scenario import Scenario

WIDTH = 34


def listing(scenarios: Iterable[Scenario]) -> str:
    """Returns the scenarios with what they are about."""
    return "\n".join(f"{each.name:{WIDTH}} {'core' if each.core else '    '}  {each.about}" for each in scenarios)


def heading() -> str:
    """Returns the first line of the table."""
    return f"{'scenario':{WIDTH}} {'core':4}  {'':6}  seconds"


def row(outcome: Outcome) -> str:
    """Returns the line of one scenario, and below it what was not met."""
    scenario = outcome.scenario
    verdict = "passed" if outcome.passed else "FAILED"
    line = f"{scenario.name:{WIDTH}} {'core' if scenario.core else '':4}  {verdict}  {outcome.seconds:7.1f}"
    return line if outcome.passed else f"{line}\n    {outcome.unmet}\n    lost with it: {scenario.about}"


def details(outcome: Outcome) -> str:
    """Returns the story, the history and the worker's last lines."""
    parts = [f"--- {outcome.scenario.name}: what came", *outcome.story, "--- its history", *outcome.history]
    if not outcome.passed:
        parts += ["--- the worker's last lines", outcome.output.strip() or "(it wrote nothing)"]
    return "\n".join(parts)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Returns the last line."""
    failed = [each.scenario.name for each in outcomes if not each.passed]
    told = f"{len(outcomes) - len(failed)} of {len(outcomes)} scenarios passed"
    return f"{told}; failed: {', '.join(failed)}" if failed else told


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Returns everything for programs."""
    return json.dumps([
        {
            "scenario": each.scenario.name, "core": each.scenario.core, "passed": each.passed, "unmet": each.unmet,
            "seconds": round(each.seconds, 2), "history": each.history,
        }
        for each in outcomes
    ], indent=2, ensure_ascii=False)  # fmt: skip


def differences(outcomes: Sequence[Outcome], others: dict[str, list[str]]) -> list[str]:
    """Returns a sentence for each scenario whose history is not that of the other worker."""
    told = []
    for outcome in outcomes:
        name, mine, theirs = outcome.scenario.name, outcome.history, others.get(outcome.scenario.name)
        if theirs is None:
            told.append(f"{name}: the other worker did not play it")
        elif mine != theirs:
            only = [f"  this worker:  {line}" for line in mine if line not in theirs]
            only += [f"  other worker: {line}" for line in theirs if line not in mine]
            told.append("\n".join([f"{name}: the histories differ", *(only or ["  in the order of their lines"])]))
    return told
