"""Rows that the database refused: what a sealed batch and the memory are without them, and who is told.

Which rows those are is found by the store, which has committed nothing of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from taskyard_core.engine import attempts, runs
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
    RUN_UPDATE,
    SKIPPED,
    SUCCESS,
    Instance,
    Row,
)
from taskyard_core.retry import FailureKind

_SAID = "the database did not take "
_STATE = INSTANCE_UPDATE.index("state")
_INSTANCE_ID = INSTANCE_COLUMNS.index("id")
_RUN_ID = RUN_COLUMNS.index("id")


def drop_refused(c: Cluster, batch: Batch, kind: str, key: tuple[str, ...], reason: str) -> None:
    """Takes a row that the database refused out of a sealed batch, with all that would follow from it.

    A new task or run is refused to its caller and forgotten. A changed one is stored in its new state without the text
    that the database did not take; refused so too, as when someone has deleted its row, it is left as it is there. Any
    other row is a defect and is left out; the caller logs it.
    """
    if kind == "instance_inserts":
        _drop_whole(c, batch, key[1], reason, new=True)
    elif kind == "instance_rewrites":
        _drop_whole(c, batch, key[1], reason, new=False)
    elif kind == "run_inserts":
        _drop_run(c, batch, key[1], reason)
    elif kind == "instance_updates":
        _blank_task(c, batch, key, reason)
    elif kind == "run_updates":
        _blank_run(c, batch, key, reason)
    else:
        rows: list[Row] = getattr(batch.changes, kind)
        rows[:] = [row for row in rows if tuple(map(str, row[: len(key)])) != key]


def _blank_task(c: Cluster, batch: Batch, key: tuple[str, ...], reason: str) -> None:
    rows, touched = batch.changes.instance_updates, batch.touched
    before = next(row for row in rows if row[:2] == key)
    after = _without(INSTANCE_UPDATE, before, f"{_SAID}the result: {reason}")
    rows[:] = _exchanged(rows, before, after)
    touched[:] = [(of, new) for of, row in touched for new in _exchanged([row], before, after)]
    if after is not None and c.observe is not None and after[_STATE] != before[_STATE]:
        c.observe("instance", before[_STATE], after[_STATE])


def _blank_run(c: Cluster, batch: Batch, key: tuple[str, ...], reason: str) -> None:
    message = f"{_SAID}the run's output: {reason}"
    for rows, columns in ((batch.changes.run_updates, RUN_UPDATE), (batch.touched_runs, RUN_COLUMNS)):
        before = next(row for row in rows if row[:2] == key)
        rows[:] = _exchanged(rows, before, _without(columns, before, message))
    run = c.find_run(key[1])
    if run is not None:  # what is written of it later has the text no more
        run.output_json, run.error_message = "", _ascii(message)


def _exchanged(rows: Sequence[Row], before: Row, after: Row | None) -> list[Row]:
    return [new for row in rows if (new := after if row is before else row) is not None]


def _without(columns: Sequence[str], row: Row, message: str) -> Row | None:
    """Returns a row of a task or a run without the text that it has from outside; None when it has none already."""
    values = dict(zip(columns, row, strict=True))
    if values["error_message"].startswith(_SAID):
        return None
    values |= {"output_json": "", "cancel_reason": "", "error_message": _ascii(message)}
    if "metadata_json" in values:
        values |= {"metadata_json": "", "error_kind": "RESULT_NOT_STORABLE"}
        if values["state"] == SUCCESS:
            values["state"] = int(FAILED)
    return tuple(values.values())


def _ascii(message: str) -> str:
    return message.encode("ascii", "replace").decode()


def _drop_whole(c: Cluster, batch: Batch, id: str, reason: str, *, new: bool) -> None:
    """Takes out a row that has all columns: of a new instance, or of a stored one that is made anew."""
    instance = next((entry[0] for entry in batch.touched if entry[0].id == id), None)
    for each in _from(c, batch):
        _take_out(c, each, id)
        _refuse(each, id, f"{_SAID}the task: {reason}")
    if instance is None:
        return
    end = instance.state if instance.phase == ENDED else None
    _forget_refused(c, instance)
    if not instance.run_id or c.find_run(instance.run_id) is None or _has_no_text(instance):
        return
    _store_without_text(c, instance, FAILED if end is None else end, reason, new=new)
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
        (changes.instance_inserts, _INSTANCE_ID), (changes.instance_updates, 1), (changes.instance_rewrites, 1),
        (changes.instance_deletes, 1),
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
        _refuse(each, id, f"{_SAID}the run: {reason}")
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


def _store_without_text(c: Cluster, instance: Instance, end: int, reason: str, *, new: bool) -> None:
    """Has the next batch make a step that has ended, without the text that was not taken and without this attempt."""
    instance.state = end
    instance.params_json = instance.input_json = instance.output_json = instance.worker_id = instance.token = ""
    if new:
        instance.attempt = 0
    instance.queued_at = instance.assigned_at = None
    # Why a step was skipped is in its kind, and other steps follow from that; so is that a person marked it.
    if end != SKIPPED and instance.error_kind != attempts.MARKED_KIND:
        instance.error_kind = FailureKind.TEMPLATE_ERROR.value
    instance.error_message = _ascii(f"{_SAID}the step's input: {reason}")
    if new:
        c.new[instance.id] = instance
    else:
        c.rewrite(instance)


def _has_no_text(instance: Instance) -> bool:
    """Tells whether leaving text out was tried, or would leave out none."""
    return instance.error_kind == FailureKind.TEMPLATE_ERROR or instance.error_message.startswith(_SAID)


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
