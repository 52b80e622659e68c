"""Closes the batch that is being gathered: rows of all that changed, as it is now, and what waits for them."""

from __future__ import annotations

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
    SUCCESS,
    Changes,
    Instance,
    Row,
    instance_row,
    instance_update_row,
)
from taskyard_core.retry import FailureKind


def seal(c: Cluster) -> Batch:
    """Returns the gathered batch and starts the next. Its revision is 0 when it writes nothing."""
    batch = c.batch
    c.batch = Batch()
    changes = batch.changes
    if c.checkpoints:
        changes.checkpoint_upserts = list(c.checkpoints.values())
        c.checkpoints = {}
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
    c.settling = (c.new, c.dirty)
    c.settling_runs = c.dirty_runs
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
        _blank_update(c, batch, key, reason)
    else:
        rows: list[Row] = getattr(batch.changes, kind)
        rows[:] = [row for row in rows if tuple(row[: len(key)]) != key]


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
    batch.changes.instance_inserts[:] = [
        row for row in batch.changes.instance_inserts if row[INSTANCE_COLUMNS.index("id")] != id
    ]
    instance = next((entry[0] for entry in batch.touched if entry[0].id == id), None)
    batch.touched[:] = [entry for entry in batch.touched if entry[0].id != id]
    for stream, going in batch.frames.items():
        kept = [sent for sent in going.assignments if sent.instance.id != id]
        worker = c.fleet.workers.get(going.worker_id)
        if worker is not None and worker.stream is stream:
            worker.sent -= len(going.assignments) - len(kept)
        going.assignments[:] = kept
    refusal = Refused("NOT_STORABLE", f"the database did not take the task: {reason}")
    for _, value in batch.answers:
        if isinstance(value, list):
            value[:] = [refusal if isinstance(item, Accepted) and item.id == id else item for item in value]
    if instance is not None:
        _forget_refused(c, instance)
        if instance.run_id in c.runs and instance.error_kind != FailureKind.TEMPLATE_ERROR:
            _fail_step(c, instance, reason)


def _fail_step(c: Cluster, instance: Instance, reason: str) -> None:
    """A step must end, or its run never does: it goes into the next batch as failed, without the text."""
    instance.params_json = instance.input_json = instance.worker_id = instance.token = ""
    instance.attempt = 0
    instance.queued_at = instance.assigned_at = None
    instance.ended_at = c.now
    instance.error_kind = FailureKind.TEMPLATE_ERROR.value
    instance.error_message = f"the database did not take the step's input: {reason}".encode("ascii", "replace").decode()
    c.new[instance.id] = instance
    c.count_end(instance)
    runs.step_ended(c, instance)


def _forget_refused(c: Cluster, instance: Instance) -> None:
    for changed in (c.dirty, *c.settling):
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
