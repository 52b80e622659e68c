"""What is done when the log store opens: after a kill, a power failure or the loss of the index.

The segments are the truth. What the index does not know yet is read from them, a torn end is cut off. An
index that is made anew brings back deleted logs whose bytes were still there: deletion is in the index only.
"""

from __future__ import annotations

from collections.abc import Iterable

from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.logs.admission import AttemptLog
from taskyard_scheduler.logs.index import Chunk, Entry, Index
from taskyard_scheduler.logs.record import Record
from taskyard_scheduler.logs.segments import Segments

BATCH = 1_000
"""Records indexed in one transaction."""


def recover(segments: Segments, index: Index, log: FilteringBoundLogger) -> None:
    """Makes index and segments agree."""
    known = index.segments()
    present = segments.numbers()
    for number in known.keys() - set(present):
        _lost(index, number, log)
    for number in present:
        indexed = known.get(number, (0, 0))[0]
        _recover_segment(segments, index, number, indexed, log, last=number == present[-1])


def _lost(index: Index, number: int, log: FilteringBoundLogger) -> None:
    with index.transaction():
        dropped = index.drop_beyond(number, 0)
        index.forget_segment(number)
    if dropped:
        log.error("a segment of the log store is gone, and the lines in it", segment=number, records=dropped)


def _recover_segment(
    segments: Segments, index: Index, number: int, indexed: int, log: FilteringBoundLogger, *, last: bool
) -> None:
    size = segments.size(number)
    if size == indexed:
        return
    if size < indexed:
        with index.transaction():
            dropped = index.drop_beyond(number, size)
            indexed = index.end_of(number)
        log.error("a segment of the log store has lost its end", segment=number, records=dropped)
    end = _index_rest(segments, index, number, indexed, log)
    if end < size and last:
        # Only where lines are appended next: they must follow a whole record.
        segments.cut(number, end)
        log.warning("cut the torn end of a log segment", segment=number, bytes=size - end)
    with index.transaction():
        index.recount_segment(number, segments.size(number))


def _index_rest(segments: Segments, index: Index, number: int, start: int, log: FilteringBoundLogger) -> int:
    """Indexes what stands in a segment from `start` on; returns where its last record ends."""
    end = start
    batch: list[tuple[int, int, Record]] = []
    for offset, length, record in segments.records(number, start):
        end = offset + length
        if record is None:
            log.error("a damaged record in the log store, its lines are lost", segment=number, offset=offset)
            continue
        batch.append((offset, length, record))
        if len(batch) >= BATCH:
            _index(index, number, batch)
            batch = []
    _index(index, number, batch)
    return end


def _index(index: Index, segment: int, batch: Iterable[tuple[int, int, Record]]) -> None:
    entries: dict[tuple[str, str, int], Entry] = {}
    with index.transaction():
        for offset, length, record in batch:
            key = (record.tenant, record.task_id, record.attempt)
            entry = entries.get(key) or index.find(*key) or Entry(index.new_number(), AttemptLog())
            chunk = Chunk(entry.number, record.first_line, record.count, segment, offset, length)
            if index.adopt_chunk(chunk):
                entries[key] = Entry(entry.number, _with(entry.log, record))
        index.add_attempts((*key, entry) for key, entry in entries.items())


def _with(log: AttemptLog, record: Record) -> AttemptLog:
    next_line = max(log.next_line, record.first_line + record.count)
    return AttemptLog(next_line, log.size + len(record.payload), log.closed or record.closed)
