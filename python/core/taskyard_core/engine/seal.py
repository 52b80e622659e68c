"""Closes the batch that is being gathered: rows of all that changed, as it is now, and what waits for them."""

from __future__ import annotations

from taskyard_core.engine.cluster import Cluster, Sealed
from taskyard_core.engine.effects import Batch
from taskyard_core.records import Changes, instance_row, instance_update_row


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


def committed(c: Cluster, batch: Batch) -> None:
    """Notes that the oldest of the sealed batches that write is committed: SQL has what it changed."""
    c.sealed.popleft()
    c.committed = batch.changes.revision


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
        or changes.variable_upserts
        or changes.variable_deletes
        or changes.workflow_inserts
        or changes.pause_upserts
        or changes.pause_deletes
        or changes.workflow_head_upserts
        or changes.artifact_inserts
        or changes.artifact_deletes
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
        if instance.id in c.rewritten:
            row = instance_row(instance)
            changes.instance_rewrites.append(row)
        else:
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
    c.sealed.append(Sealed(batch, c.new, c.dirty, c.dirty_runs))
    c.new = {}
    c.dirty = {}
    c.rewritten = set()
    c.dirty_runs = {}
    for queue in c.queues.values():
        queue.open_min = None
