"""Which artifacts the rows of a commit refer to: derived here, so that no writer of rows has to think of it.

Each row costs a search for one word; only rows that have it cost more. A holder's old references go when it is deleted
or written anew as a whole. An update leaves them: what an instance has referred to is kept as long as the instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from taskyard_core import records
from taskyard_core.artifacts import MARK, MARK_BYTES, artifacts_in
from taskyard_core.records import Changes, Row

INSTANCE: Final = "task"
CHECKPOINT: Final = "checkpoint"
RUN: Final = "run"
DEFINITION: Final = "task definition"
WORKFLOW: Final = "workflow"
VARIABLE: Final = "variable"
ARTIFACT: Final = "artifact"


@dataclass(frozen=True, slots=True)
class _Source:
    """One list of rows that may refer to artifacts.

    Attributes:
        rows: The list's name.
        kind: What its rows are.
        texts: Positions of the columns that are searched.
        name: Position of the column that names the row.
        version: Position of the column that tells rows of one name apart; None: the name does.
        anew: Whether a row replaces all that its holder referred to.
    """

    rows: str
    kind: str
    texts: tuple[int, ...]
    name: int
    version: int | None = None
    anew: bool = False

    def holder(self, row: Row) -> str:
        return row[self.name] if self.version is None else f"{row[self.name]} {row[self.version]}"


def _source(
    rows: str, kind: str, columns: Sequence[str], texts: str, name: str = "id", version: str = "", *, anew: bool = False
) -> _Source:
    at = columns.index
    return _Source(
        rows, kind, tuple(map(at, texts.split())), at(name), at(version) if version else None, anew=anew
    )  # fmt: skip


_SOURCES: Final = (
    _source("instance_inserts", INSTANCE, records.INSTANCE_COLUMNS, "params_json input_json output_json"),
    _source("instance_updates", INSTANCE, records.INSTANCE_UPDATE, "output_json metadata_json"),
    _source(
        "instance_rewrites", INSTANCE, records.INSTANCE_COLUMNS, "params_json input_json output_json metadata_json",
        anew=True,
    ),
    _source("run_inserts", RUN, records.RUN_COLUMNS, "inputs_json variables_json output_json"),
    _source("run_updates", RUN, records.RUN_UPDATE, "output_json"),
    _source("checkpoint_upserts", CHECKPOINT, records.CHECKPOINT_COLUMNS, "data", anew=True),
    _source(
        "task_definition_upserts", DEFINITION, records.TASK_DEFINITION_COLUMNS, "definition", "name", anew=True
    ),
    _source("variable_upserts", VARIABLE, records.VARIABLE_COLUMNS, "variable", "name", anew=True),
    _source("workflow_inserts", WORKFLOW, records.WORKFLOW_COLUMNS, "definition", "name", "version"),
)  # fmt: skip
_GONE: Final = (
    ("instance_deletes", (INSTANCE, CHECKPOINT)),
    ("task_definition_deletes", (DEFINITION,)),
    ("variable_deletes", (VARIABLE,)),
)

Key = tuple[str, str, str, str]
Holder = tuple[str, str, str]


def with_references(changes: Changes) -> Changes:
    """Returns the changes with the references that their rows make and end; the same object when there are none."""
    made: dict[Key, Row] = {row[:4]: (*row[:4], changes.revision) for row in changes.reference_upserts}
    ended: dict[Holder, None] = dict.fromkeys(_deleted(changes))
    for source in _SOURCES:
        rows: list[Row] = getattr(changes, source.rows)
        if not rows:
            continue
        if source.anew:
            ended.update(((row[0], source.kind, source.holder(row)), None) for row in rows)
        for row in _referring(rows, source.texts):
            holder = source.holder(row)
            for artifact in sorted(artifacts_in([row[at] for at in source.texts])):
                made[row[0], artifact, source.kind, holder] = (
                    row[0], artifact, source.kind, holder, changes.revision,
                )  # fmt: skip
    if not made and not ended and not changes.artifact_deletes:
        return changes
    return replace(
        changes,
        reference_upserts=list(made.values()),
        reference_deletes=list(ended),
        reference_ends=[(tenant, ARTIFACT, id) for tenant, id in changes.artifact_deletes],
    )


def _deleted(changes: Changes) -> Iterator[Holder]:
    for rows, kinds in _GONE:
        for tenant, name in getattr(changes, rows):
            for kind in kinds:
                yield tenant, kind, name


def _referring(rows: Sequence[Row], texts: tuple[int, ...]) -> Sequence[Row]:
    """Returns the rows that have the word in one of their texts. Hot path: all texts of most commits are strings."""
    try:
        if not any([MARK in row[at] for at in texts for row in rows]):  # noqa: C419 - three times as quick
            return ()
    except TypeError:  # bytes, NULL, or what the database will refuse
        pass
    return [row for row in rows if any(_has(row[at]) for at in texts)]


def _has(text: object) -> bool:
    if isinstance(text, str):
        return MARK in text
    return isinstance(text, bytes) and MARK_BYTES in text
