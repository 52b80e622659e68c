"""Closes the batch that is being gathered: rows of all that changed, as it is now, and the effects that wait for them."""

from __future__ import annotations

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.effects import Batch
from taskyard_core.engine.events import Accepted, Refused
from taskyard_core.records import (
    ENDED,
    FAILED,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    READY,
    SUCCESS,
    Changes,
    Row,
    instance_row,
    instance_update_row,
)


def seal(c: Cluster) -> Batch:
    """Returns the gathered batch and starts the next. Its revision is 0 when it writes nothing."""
    batch = c.batch
    c.batch = Batch()
    changes = batch.changes
    if c.new or c.dirty or c.dirty_runs or writes(changes):
        c.revision += 1
        changes.revision = c.revision
        _add_rows(c, batch)
    return batch


def writes(changes: Changes) -> bool:
    """Tells whether anything besides instances and runs is to be written."""
    return bool(
        changes.attempt_inserts
        or changes.checkpoint_upserts
        or changes.worker_upserts
        or changes.worker_deletes
        or changes.instance_deletes
        or changes.request_inserts
        or changes.task_definition_upserts
        or changes.task_definition_deletes
        or changes.workflow_inserts
    )


def _add_rows(c: Cluster, batch: Batch) -> None:
    revision = c.revision
    changes, touched = batch.changes, batch.touched
    for instance in c.new.values():
        instance.revision = revision
        row = instance_row(instance)
        changes.instance_inserts.append(row)
        touched.append((instance, row))
    for instance in c.dirty.values():
        instance.revision = revision
        row = instance_update_row(instance)
        changes.instance_updates.append(row)
        touched.append((instance, row))
    for run in c.dirty_runs.values():
        run.revision = revision
        if run.is_new:
            run.is_new = False
            changes.run_inserts.append(run.row())
        else:
            changes.run_updates.append(run.update_row())
        batch.touched_runs.append(run.row())
    c.new = {}
    c.dirty = {}
    c.dirty_runs = {}
    for queue in c.queues.values():
        queue.open_min = None


_STATE = INSTANCE_UPDATE.index("state")
_OUTPUT = INSTANCE_UPDATE.index("output_json")
_KIND = INSTANCE_UPDATE.index("error_kind")
_MESSAGE = INSTANCE_UPDATE.index("error_message")
_METADATA = INSTANCE_UPDATE.index("metadata_json")


def drop_refused(c: Cluster, batch: Batch, kind: str, key: tuple[str, ...], reason: str) -> None:
    """Takes a row that the database refused out of a sealed batch, with all that would follow from it.

    A new task is refused to its caller and forgotten. A changed one keeps its new state without the text that the
    database did not take. Any other row is a defect and is left out; the caller logs it.
    """
    if kind == "instance_inserts":
        _drop_insert(c, batch, key[1], reason)
    elif kind == "instance_updates":
        batch.changes.instance_updates[:] = [
            _without_text(row, reason) if row[:2] == key else row for row in batch.changes.instance_updates
        ]
    else:
        rows: list[Row] = getattr(batch.changes, kind)
        rows[:] = [row for row in rows if tuple(row[: len(key)]) != key]


def _without_text(row: Row, reason: str) -> Row:
    values = list(row)
    values[_OUTPUT] = values[_METADATA] = ""
    values[_KIND] = "RESULT_NOT_STORABLE"
    values[_MESSAGE] = f"the database did not take the result: {reason}".encode("ascii", "replace").decode()
    if values[_STATE] == SUCCESS:
        values[_STATE] = int(FAILED)
    return tuple(values)


def _drop_insert(c: Cluster, batch: Batch, id: str, reason: str) -> None:
    batch.changes.instance_inserts[:] = [
        row for row in batch.changes.instance_inserts if row[INSTANCE_COLUMNS.index("id")] != id
    ]
    batch.touched[:] = [entry for entry in batch.touched if entry[0].id != id]
    for going in batch.frames.values():
        going.assignments[:] = [sent for sent in going.assignments if sent.instance.id != id]
    refusal = Refused("NOT_STORABLE", f"the database did not take the task: {reason}")
    for _, value in batch.answers:
        if isinstance(value, list):
            value[:] = [refusal if isinstance(item, Accepted) and item.id == id else item for item in value]
    _forget_refused(c, id)


def _forget_refused(c: Cluster, id: str) -> None:
    c.dirty.pop(id, None)
    instance = c.instances.get(id)
    if instance is None:
        return
    if instance.phase == READY:
        c.leave_queue(instance)
        instance.state = FAILED
        instance.phase = ENDED
    else:
        c.release(instance)
    c.forget(instance)
    if instance.request_id is not None:
        c.requests.pop((instance.tenant, instance.request_id), None)
    if instance.idempotency_key is not None:
        c.keys.pop((instance.tenant, instance.idempotency_key), None)
