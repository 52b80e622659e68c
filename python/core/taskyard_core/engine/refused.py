"""Rows that the database refused: what a sealed batch and the memory are without them, and who is told.

Which rows those are is found by the store, which has committed nothing of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from taskyard_core.engine import runs
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.effects import Batch
from taskyard_core.engine.events import Accepted, Refused
from taskyard_core.records import (
    ENDED,
    FAILED,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    READY,
    RUN_COLUMNS,
    SUCCESS,
    Instance,
    Row,
)
from taskyard_core.retry import FailureKind

_STATE = INSTANCE_UPDATE.index("state")
_OUTPUT = INSTANCE_UPDATE.index("output_json")
_KIND = INSTANCE_UPDATE.index("error_kind")
_MESSAGE = INSTANCE_UPDATE.index("error_message")
_METADATA = INSTANCE_UPDATE.index("metadata_json")
_INSTANCE_ID = INSTANCE_COLUMNS.index("id")
_RUN_ID = RUN_COLUMNS.index("id")


def drop_refused(c: Cluster, batch: Batch, kind: str, key: tuple[str, ...], reason: str) -> None:
    """Takes a row that the database refused out of a sealed batch, with all that would follow from it.

    A new task or run is refused to its caller and forgotten. A changed task keeps its new state without the text that
    the database did not take. Any other row is a defect and is left out; the caller logs it.
    """
    if kind == "instance_inserts":
        _drop_insert(c, batch, key[1], reason)
    elif kind == "run_inserts":
        _drop_run(c, batch, key[1], reason)
    elif kind == "instance_updates":
        _blank_update(c, batch, key, reason)
    else:
        rows: list[Row] = getattr(batch.changes, kind)
        rows[:] = [row for row in rows if tuple(map(str, row[: len(key)])) != key]


def _blank_update(c: Cluster, batch: Batch, key: tuple[str, ...], reason: str) -> None:
    rows = batch.changes.instance_updates
    for n, row in enumerate(rows):
        if row[:2] == key:
            rows[n] = _without_text(row, reason)
            if c.observe is not None and rows[n][_STATE] != row[_STATE]:
                c.observe("instance", row[_STATE], rows[n][_STATE])
            for t, (instance, _) in enumerate(batch.touched):
                if (instance.tenant, instance.id) == key:
                    batch.touched[t] = (instance, rows[n])


def _without_text(row: Row, reason: str) -> Row:
    values = list(row)
    values[_OUTPUT] = values[_METADATA] = ""
    values[_KIND] = "RESULT_NOT_STORABLE"
    values[_MESSAGE] = f"the database did not take the result: {reason}".encode("ascii", "replace").decode()
    if values[_STATE] == SUCCESS:
        values[_STATE] = int(FAILED)
    return tuple(values)


def _drop_insert(c: Cluster, batch: Batch, id: str, reason: str) -> None:
    instance = next((entry[0] for entry in batch.touched if entry[0].id == id), None)
    for each in _from(c, batch):
        _take_out(c, each, id)
        _refuse(each, id, f"the database did not take the task: {reason}")
    if instance is None:
        return
    end = instance.state if instance.phase == ENDED else None
    _forget_refused(c, instance)
    if not instance.run_id or c.find_run(instance.run_id) is None or instance.error_kind == FailureKind.TEMPLATE_ERROR:
        return
    _store_without_text(c, instance, FAILED if end is None else end, reason)
    if end is None:  # a step must end, or its run never does
        instance.ended_at = c.now
        c.count_end(instance)
        runs.step_ended(c, instance)


def _from(c: Cluster, batch: Batch) -> Iterator[Batch]:
    """Gives a sealed batch, those that were sealed after it, and the one that is being gathered."""
    yield from dropwhile(lambda each: each is not batch, (sealed.batch for sealed in c.sealed))
    yield c.batch


def _take_out(c: Cluster, batch: Batch, id: str) -> None:
    """Takes a new instance, its assignment and all that followed out of a batch."""
    changes = batch.changes
    for rows, at in (
        (changes.instance_inserts, _INSTANCE_ID), (changes.instance_updates, 1), (changes.instance_deletes, 1),
        (changes.attempt_inserts, 1), (changes.checkpoint_upserts, 1),
    ):  # fmt: skip
        rows[:] = [row for row in rows if row[at] != id]
    batch.touched[:] = [entry for entry in batch.touched if entry[0].id != id]
    for stream, going in batch.frames.items():
        kept = [sent for sent in going.assignments if sent.instance.id != id]
        worker = c.fleet.workers.get(going.worker_id)
        if worker is not None and worker.stream is stream:
            worker.sent -= len(going.assignments) - len(kept)
        going.assignments[:] = kept


def _refuse(batch: Batch, id: str, message: str) -> None:
    """Refuses what made an instance or a run to its caller, and to those who have repeated the request meanwhile."""
    refusal = Refused("NOT_STORABLE", message)
    for _, value in batch.answers:
        if isinstance(value, list):
            value[:] = [refusal if isinstance(item, Accepted) and item.id == id else item for item in value]


def _drop_run(c: Cluster, batch: Batch, id: str, reason: str) -> None:
    """A run that is not stored never was, and neither were its steps, those of later batches included."""
    run = c.find_run(id)
    steps: dict[str, Instance] = {instance.id: instance for instance in c.new.values() if instance.run_id == id}
    for each in _from(c, batch):
        for rows in (each.changes.run_inserts, each.changes.run_updates, each.touched_runs):
            rows[:] = [row for row in rows if row[_RUN_ID] != id]
        _refuse(each, id, f"the database did not take the run: {reason}")
        steps |= {instance.id: instance for instance, _ in each.touched if instance.run_id == id}
    for known in (c.runs, c.kept_runs, c.dirty_runs, *(sealed.runs for sealed in c.sealed)):
        known.pop(id, None)
    for instance in steps.values():
        for each in _from(c, batch):
            _take_out(c, each, instance.id)
        _forget_refused(c, instance)
    if run is None:
        return
    if run.request_id is not None:
        c.requests.pop((run.tenant, run.request_id), None)
    if run.idempotency_key is not None:
        c.run_keys.pop((run.tenant, run.idempotency_key), None)


def _store_without_text(c: Cluster, instance: Instance, end: int, reason: str) -> None:
    """Has the next batch make a step that has ended, without the text that was not taken and without attempts."""
    instance.state = end
    instance.params_json = instance.input_json = instance.worker_id = instance.token = ""
    instance.attempt = 0
    instance.queued_at = instance.assigned_at = None
    instance.error_kind = FailureKind.TEMPLATE_ERROR.value
    instance.error_message = f"the database did not take the step's input: {reason}".encode("ascii", "replace").decode()
    c.new[instance.id] = instance


def _forget_refused(c: Cluster, instance: Instance) -> None:
    for changed in c.uncommitted():
        changed.pop(instance.id, None)
    if instance.phase == READY:
        c.leave_queue(instance)
    c.release(instance)
    instance.state = FAILED
    instance.phase = ENDED
    c.forget(instance)
    if instance.request_id is not None:
        c.requests.pop((instance.tenant, instance.request_id), None)
    if instance.idempotency_key is not None:
        c.keys.pop((instance.tenant, instance.idempotency_key), None)
