"""The form of one record in a segment file: some consecutive lines of one attempt, checked by a sum.

A record says everything about itself, so that the index can be made anew from the segments alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from taskyard.v1.tasks_pb2 import LogLine
from taskyard.v1.workers_pb2 import LogChunk

MAGIC = b"TYL1"
HEAD = struct.Struct(">4sIIHHIqIB")
"""Magic, CRC-32 of all that follows it; bytes of the lines, of the tenant, of the id; attempt, first line,
how many lines, closed."""
CRC_END = 8
RECORD_TARGET_BYTES = 256 * 1024
"""A record is closed on passing this: reading one page must not mean reading megabytes."""
LINES_LIMIT_BYTES = 64 * 1024 * 1024
"""No record is as long as this; a head that says so is damaged."""


@dataclass(frozen=True, slots=True)
class Record:
    """Consecutive lines of one attempt.

    Attributes:
        tenant: Whose task it is.
        task_id: The instance.
        attempt: Number of the attempt.
        first_line: Number of the first line.
        count: How many lines.
        closed: True: the last of them says that the log is full.
        payload: The lines, as a LogChunk.
    """

    tenant: str
    task_id: str
    attempt: int
    first_line: int
    count: int
    closed: bool
    payload: bytes

    def encode(self) -> bytes:
        """Returns the record as it stands in a segment file."""
        tenant, task_id = self.tenant.encode(), self.task_id.encode()
        numbers = (self.attempt, self.first_line, self.count, self.closed)
        head = HEAD.pack(MAGIC, 0, len(self.payload), len(tenant), len(task_id), *numbers)
        rest = b"".join((head[CRC_END:], tenant, task_id, self.payload))
        return MAGIC + zlib.crc32(rest).to_bytes(4, "big") + rest


def pack(
    tenant: str, task_id: str, attempt: int, first_line: int, lines: Sequence[LogLine], *, closed: bool
) -> list[Record]:
    """Returns the lines as records of a bounded size; `closed` holds for the last."""
    records: list[Record] = []
    start = size = 0
    for end, line in enumerate(lines, 1):
        size += line.ByteSize()
        if end < len(lines) and size < RECORD_TARGET_BYTES:
            continue
        part = lines[start:end]
        payload = LogChunk(lines=part).SerializeToString()
        last = closed and end == len(lines)
        number = first_line + start
        records.append(Record(tenant, task_id, attempt, number, len(part), last, payload))
        start, size = end, 0
    return records


def decode(data: bytes, at: int = 0) -> tuple[Record, int] | None:
    """Returns the record that begins at `at`, and where it ends; None when there is no whole, sound one."""
    if len(data) - at < HEAD.size:
        return None
    magic, crc, lines, tenant, task_id, attempt, first_line, count, closed = HEAD.unpack_from(data, at)
    end = at + HEAD.size + tenant + task_id + lines
    if magic != MAGIC or lines > LINES_LIMIT_BYTES or end > len(data):
        return None
    if zlib.crc32(memoryview(data)[at + CRC_END : end]) != crc:
        return None
    names = at + HEAD.size
    try:
        texts = data[names : names + tenant].decode(), data[names + tenant : end - lines].decode()
    except UnicodeDecodeError:
        return None
    payload = bytes(data[end - lines : end])
    return Record(*texts, attempt, first_line, count, bool(closed), payload), end


def unpack(payload: bytes) -> Sequence[LogLine]:
    """Returns the lines of a record.

    Raises:
        google.protobuf.message.DecodeError: They are damaged.
    """
    return LogChunk.FromString(payload).lines


def length_at(head: bytes) -> int | None:
    """Returns how long the record is whose first bytes these are; None when they are no record's."""
    if len(head) < HEAD.size:
        return None
    magic, _, lines, tenant, task_id, *_ = HEAD.unpack_from(head)
    if magic != MAGIC or lines > LINES_LIMIT_BYTES:
        return None
    return int(HEAD.size + tenant + task_id + lines)
