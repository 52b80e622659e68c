"""What storing a workflow would change: the difference between two versions as files, and its consequences in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff

from taskyard.v1.workflows_pb2 import InputType, Workflow, WorkflowInput, WorkflowStep
from taskyard_cli.workflows.shape import words_of
from taskyard_cli.workflows.yaml_writer import workflow_yaml


def difference(before: Workflow, after: Workflow) -> list[str]:
    """Returns the lines of a unified diff between the files of two versions; an empty `before` is none."""
    return list(
        unified_diff(
            workflow_yaml(before).splitlines() if before.name else [],
            workflow_yaml(after).splitlines(),
            f"version {before.version}" if before.name else "none",
            f"version {after.version}",
            lineterm="",
        )
    )


def consequences(before: Workflow, after: Workflow, in_flight: int) -> Iterator[str]:
    """Yields a sentence for each thing that a new version means to who starts it or has started it.

    Args:
        before: The newest version.
        after: What follows it.
        in_flight: How many runs of earlier versions have not ended.
    """
    steps = _changed({each.id: each for each in before.steps}, {each.id: each for each in after.steps})
    for verb, ids in zip(("adds", "removes", "changes"), steps, strict=True):
        if ids:
            yield f"{verb} {'step' if len(ids) == 1 else f'{len(ids)} steps:'} {_some(ids)}"
    yield from _inputs({each.name: each for each in before.inputs}, {each.name: each for each in after.inputs})
    if in_flight == 1:
        yield "1 run in flight keeps the version that it started with"
    elif in_flight:
        yield f"{in_flight} runs in flight keep the versions that they started with"


def _changed(before: dict[str, WorkflowStep], after: dict[str, WorkflowStep]) -> tuple[list[str], list[str], list[str]]:
    """Returns the names that are added, removed, and there with another content."""
    return (
        [name for name in after if name not in before],
        [name for name in before if name not in after],
        [name for name in after if name in before and after[name] != before[name]],
    )


def _inputs(before: dict[str, WorkflowInput], after: dict[str, WorkflowInput]) -> Iterator[str]:
    for name in after:
        required = not after[name].default_json
        if required and (name not in before or before[name].default_json):
            yield f"who starts it must give the input {name} from now on"
        if name in before and after[name].type not in (before[name].type, InputType.INPUT_TYPE_UNSPECIFIED):
            yield f"who gives the input {name} must give {input_type(after[name])} from now on"
    for name in before:
        if name not in after:
            yield f"who gives the input {name} is refused from now on"


def input_type(one: WorkflowInput) -> str:
    """Returns what an input takes, in a file's word; empty for anything."""
    return {number: word for word, number in words_of(InputType.DESCRIPTOR).items()}.get(one.type, "")


def _some(names: Iterable[str], most: int = 10) -> str:
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
