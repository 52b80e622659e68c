"""When a task or a run is due, until when it may begin, and its tags: what both submissions say in the same fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.engine.events import When
from taskyard_core.names import check_name
from taskyard_core.tags import dump_tags
from taskyard_core.violations import cut
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.policies import DAY_MS, NANOS

Submission = tasks_pb2.TaskSubmission | workflows_pb2.RunSubmission

DELAY_DAYS: Final = 3_650
TAGS_LIMIT: Final = 32
TAG_LENGTH: Final = 100
LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999: the last that a Timestamp may have by its own definition."""


def read_when(item: Submission, findings: Findings) -> When | None:
    """Reads start and expiry of a submission; None when it is due at once and does not expire."""
    has = item.HasField
    timed, delayed, expires = has("schedule_time"), has("start_delay"), has("expire_time")
    if not (timed or delayed or expires):
        return None
    start = read_time(item.schedule_time, "schedule_time", findings) if timed else 0
    delay = _delay(item, findings) if delayed else 0
    expiry = read_time(item.expire_time, "expire_time", findings) if expires else 0
    if timed and delayed:
        sentence = "both a start_delay and a schedule_time are given; give one of the two"
        findings.add("start_delay", sentence)
    if start and expiry and expiry <= start:
        sentence = f"{_text(item.expire_time)} is not later than schedule_time, {_text(item.schedule_time)}"
        findings.add("expire_time", f"{sentence}: it would never begin; choose a later time, or leave one of them out")
    return When(start, delay, expiry)


def read_tags(tags: Collection[str], findings: Findings) -> str | None:
    """Returns the stored form of a submission's tags."""
    if len(tags) > TAGS_LIMIT:
        findings.add("tags", f"{len(tags)} tags are more than {TAGS_LIMIT}; leave some out")
        return None
    seen: set[str] = set()
    for place, tag in enumerate(tags):
        findings.add(f"tags[{place}]", _tag_fault(tag, seen))
        seen.add(tag)
    return dump_tags(tags)


def _tag_fault(tag: str, seen: Collection[str]) -> str | None:
    if tag in seen:
        return f"{cut(tag)} is given twice; leave one out"
    if len(tag) > TAG_LENGTH:
        return f"{cut(tag, 40)} is longer than a tag may be ({TAG_LENGTH} characters); shorten it"
    said = check_name(tag)
    return said.replace("the name is", "the tag is").replace("a name has", "a tag has") if said else None


def read_time(time: Timestamp, field: str, findings: Findings) -> int:
    """Returns Unix milliseconds, rounded up: nothing begins before its time."""
    if not (0 <= time.seconds <= LAST_SECOND and 0 <= time.nanos < NANOS):
        sentence = f"{time.seconds} seconds and {time.nanos} nanoseconds since 1970 are no time of 1970 to 9999"
        findings.add(field, f"{sentence}; choose one of them")
        return 0
    return time.seconds * 1000 - (-time.nanos // 1_000_000)


def _delay(item: Submission, findings: Findings) -> int:
    delay = item.start_delay
    milliseconds = delay.seconds * 1000 - (-delay.nanos // 1_000_000)
    if not (0 <= milliseconds <= DELAY_DAYS * DAY_MS and -NANOS < delay.nanos < NANOS):
        sentence = f"{milliseconds / 1000:g} seconds are outside 0 to {DELAY_DAYS:,} days; choose a delay within"
        findings.add("start_delay", sentence)
        return 0
    return milliseconds


def _text(time: Timestamp) -> str:
    return time.ToJsonString() if 0 <= time.seconds <= LAST_SECOND and 0 <= time.nanos < NANOS else "no time"
