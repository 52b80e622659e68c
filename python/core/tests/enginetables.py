"""The database of the engine's tests, too simple to be wrong: dicts, and the store's rules as assertions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from taskyard_core.engine.instances import instance_from_row
from taskyard_core.pauses import NONE_HELD, HeldRuns
from taskyard_core.records import (
    ATTEMPT_COLUMNS,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    PHASES,
    RUN_COLUMNS,
    RUN_UPDATE,
    Changes,
    Instance,
    Phase,
    Row,
)

Fields = dict[str, Any]


def unique(keys: Iterable[object]) -> bool:
    seen = list(keys)
    return len(seen) == len(set(seen))


class Tables:
    """The committed rows. Refuses what the store's contract forbids."""

    def __init__(self) -> None:
        self.revision = 0
        self.instances: dict[str, Fields] = {}
        self.attempts: dict[tuple[str, int], Fields] = {}
        self.runs: dict[str, Fields] = {}
        self.checkpoints: dict[str, tuple[int, str]] = {}
        self.workers: dict[str, Row] = {}
        self.pauses: dict[Row, Row] = {}

    def commit(self, changes: Changes) -> None:
        """Writes a batch, having checked it against the rules of `Store.commit`."""
        assert changes.revision == self.revision + 1
        self._check_keys(changes)
        self.revision = changes.revision
        for _, id in changes.instance_deletes:
            del self.instances[id]
            self.attempts = {key: row for key, row in self.attempts.items() if key[0] != id}
            self.checkpoints.pop(id, None)
        for id in changes.worker_deletes:
            self.workers.pop(id, None)
        for held in changes.pause_deletes:
            self.pauses.pop(held, None)
        for row in changes.pause_upserts:
            self.pauses[row[:3]] = row
        self._put_all(changes)
        for row in changes.attempt_inserts:
            values: Fields = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
            key = (values["id"], values["attempt"])
            assert key not in self.attempts, f"attempt {key} is archived twice"
            assert values["id"] in self.instances, f"attempt {key} of an instance that is not stored"
            self.attempts[key] = values
        for _, id, number, data in changes.checkpoint_upserts:
            self.checkpoints[id] = (number, data)
        for row in changes.worker_upserts:
            self.workers[row[0]] = row

    def _put_all(self, changes: Changes) -> None:
        for row in changes.instance_inserts:
            self._put(self.instances, INSTANCE_COLUMNS, row, new=True)
        for row in changes.instance_updates:
            self._put(self.instances, INSTANCE_UPDATE, row, new=False)
        for row in changes.instance_rewrites:
            self._put(self.instances, INSTANCE_COLUMNS, row, new=False)
        for row in changes.run_inserts:
            self._put(self.runs, RUN_COLUMNS, row, new=True)
        for row in changes.run_updates:
            self._put(self.runs, RUN_UPDATE, row, new=False)

    def _check_keys(self, changes: Changes) -> None:
        assert unique(row[:2] for row in changes.instance_inserts)
        assert unique(row[:2] for row in changes.instance_updates + changes.instance_rewrites)
        assert unique(changes.instance_deletes)
        assert unique(row[:2] for row in changes.run_inserts + changes.run_updates)
        assert unique(row[:2] for row in changes.checkpoint_upserts)
        assert unique(row[0] for row in changes.worker_upserts)
        assert unique(changes.worker_deletes)
        assert unique(row[:3] for row in changes.pause_upserts)
        assert unique(changes.pause_deletes)
        assert unique(row[:3] for row in changes.attempt_inserts)
        self._check_taken(self.instances, INSTANCE_COLUMNS, changes.instance_inserts)
        self._check_taken(self.runs, RUN_COLUMNS, changes.run_inserts)

    def _check_taken(self, table: dict[str, Fields], columns: Sequence[str], rows: Sequence[Row]) -> None:
        for name in ("request_id", "idempotency_key"):
            at = columns.index(name)
            new = [(row[0], row[at]) for row in rows if row[at] is not None]
            assert unique(new), f"a {name} is used twice"
            assert not new or not {(row["tenant"], row[name]) for row in table.values()} & set(new), f"{name} is taken"

    def _put(self, table: dict[str, Fields], columns: Sequence[str], row: Row, *, new: bool) -> None:
        values = dict(zip(columns, row, strict=True))
        id = values["id"]
        assert (id not in table) == new, f"{id}: {'inserted twice' if new else 'no such row'}"
        assert values["revision"] == self.revision
        table.setdefault(id, {}).update(values)
        if "phase" in values:
            assert values["phase"] == PHASES[values["state"]]

    # Reads, as the store answers them.

    def row(self, id: str) -> Row:
        """Returns INSTANCE_COLUMNS, the checkpoint and its number."""
        values = self.instances[id]
        number, data = self.checkpoints.get(id, (0, None))
        return (*(values[name] for name in INSTANCE_COLUMNS), data, number)

    def instance(self, id: str) -> Instance:
        """Returns an instance made of its row."""
        return instance_from_row(self.row(id))

    def run_row(self, id: str) -> Row:
        """Returns RUN_COLUMNS."""
        return tuple(self.runs[id][name] for name in RUN_COLUMNS)

    def steps(self, run_id: str) -> list[Instance]:
        """Returns the instances of a run."""
        return [self.instance(id) for id, values in self.instances.items() if values["run_id"] == run_id]

    def of_phase(self, phase: int) -> list[Instance]:
        """Returns the instances of a phase by id."""
        return [self.instance(id) for id, values in sorted(self.instances.items()) if values["phase"] == phase]

    def ready(
        self, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns = NONE_HELD
    ) -> list[Row]:
        """Returns the READY rows of a queue after a key, without the steps of some workflows and runs."""
        found = sorted(
            (values["order_key"], id)
            for id, values in self.instances.items()
            if values["phase"] == Phase.READY
            and (values["tenant"], values["queue"]) == (tenant, queue)
            and values["workflow"] not in but.workflows
            and values["run_id"] not in but.runs
        )
        return [self.row(id) for order, id in found if (order, id) > after][:limit]
