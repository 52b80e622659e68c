"""Says which types of a workflow's steps no live worker offers. A note, no refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from rich.text import Text

from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.offers import ANY, meant, offered_types
from taskyard_cli.show import err, harmless
from taskyard_client import AsyncClient, TaskyardError

SHOWN = 5
"""Most steps of a type that are named."""


async def tell_unoffered(client: AsyncClient, workflows: Sequence[Workflow]) -> None:
    """Says it on stderr. Who may not see workers, or finds nobody to ask, is told nothing: what was asked is done."""
    with suppress(TaskyardError):
        if workflows and (offered := await offered_types(client)) is not None:
            for line in unoffered(workflows, offered):
                err().print(Text(harmless(f"note: {line}")))


def unoffered(workflows: Iterable[Workflow], offered: set[str]) -> Iterator[str]:
    """Yields a sentence for each type of each workflow that nobody offers."""
    if ANY in offered:
        return
    for workflow in workflows:
        steps: dict[str, list[str]] = {}
        for step in workflow.steps:
            if step.task_type and step.task_type not in offered:
                steps.setdefault(step.task_type, []).append(step.id)
        for task_type, ids in steps.items():
            yield (
                f"{workflow.name}: no live worker offers the type {task_type} of step{'' if len(ids) == 1 else 's'} "
                f"{', '.join(ids[:SHOWN])}{', …' if len(ids) > SHOWN else ''}; until one does, they wait."
                f"{meant(task_type, offered)}"
            )
