"""Plays scenarios with a worker: one after the other, or several side by side, since they mostly wait."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.kit.history import history_of
from conformance.kit.scenario import Scenario, Step
from conformance.kit.stage import PATIENCE_S, Stage
from conformance.kit.unmet import Unmet

SCENARIO_LIMIT_S = 90.0
"""How long a whole scenario may take: longer than any of its steps waits."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario went. `unmet`: the first expectation that was not met, as a sentence; empty: it passed.

    `story`: everything in the order in which it came; `output`: the last that the worker wrote.
    """

    scenario: Scenario
    unmet: str
    seconds: float
    history: list[str]
    story: list[str]
    output: str

    @property
    def passed(self) -> bool:
        """Whether every expectation was met."""
        return not self.unmet


async def play_all(
    scenarios: Sequence[Scenario],
    command: Sequence[str],
    side_by_side: int,
    tell: Callable[[Outcome], None],
    patience_s: float = PATIENCE_S,
) -> list[Outcome]:
    """Plays scenarios; returns their outcomes in the same order. `tell` hears of each as it ends."""
    places = asyncio.Semaphore(side_by_side)

    async def one(scenario: Scenario) -> Outcome:
        async with places:
            outcome = await play(scenario, command, patience_s)
        tell(outcome)
        return outcome

    async with asyncio.TaskGroup() as group:
        playing = [group.create_task(one(scenario), name=scenario.name) for scenario in scenarios]
    return [each.result() for each in playing]


async def play(scenario: Scenario, command: Sequence[str], patience_s: float = PATIENCE_S) -> Outcome:
    """Plays one scenario in a folder of its own, which is removed afterwards."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        stage = Stage(scenario.name, scenario.scheduler, command, Path(folder), patience_s)
        try:
            unmet = await play_steps(stage, scenario.steps)
            history = history_of(stage)
        finally:
            await stage.close()
        seconds = time.monotonic() - began
        return Outcome(scenario, unmet, seconds, history, stage.scripted.story, output_of(stage))


async def play_steps(stage: Stage, steps: Sequence[Step]) -> str:
    """Plays steps until one is not met; returns its sentence with its line."""
    step = steps[0]
    limit = SCENARIO_LIMIT_S * max(1, stage.patience_s / PATIENCE_S)
    try:
        async with asyncio.timeout(limit):
            await stage.open()
            for step in steps:
                stage.no_breach()
                await step.verb.play(stage, **step.fields)
            stage.no_breach()
    except Unmet as error:
        return f"{error} [line {step.line}: {step.verb.name}]"
    except TimeoutError:
        return f"the scenario took longer than {limit:g} s [line {step.line}: {step.verb.name}]"
    except Exception as error:  # of a step that nobody can play, or of the kit: the other scenarios go on
        return f"the kit could not play this: {type(error).__name__}: {error} [line {step.line}: {step.verb.name}]"
    return ""


def output_of(stage: Stage) -> str:
    """Returns the last that worker and real scheduler wrote."""
    return stage.worker.tail() if stage.site is None else f"{stage.worker.tail()}\n{stage.site.logs()}"
