"""Timeouts, retries, resources and placement: read from the contract's messages, checked, and shared when alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from taskyard.v1 import policies_pb2 as pb
from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.names import check_name
from taskyard_core.policy_codec import dump_policy
from taskyard_core.records import Policy
from taskyard_core.retry import RetryPolicy
from taskyard_core.selectors import Selector, SelectorError, check_label
from taskyard_core.spans import span
from taskyard_core.violations import Violation, cut
from taskyard_scheduler.ingress.findings import outside

NANOS: Final = 1_000_000_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
SHARED_BYTES: Final = 16_384
"""A policy whose messages are larger is read each time: remembered ones must not fill the memory."""

_TIMEOUTS: Final = (
    ("queued_timeout", 1, 30 * DAY_MS), ("start_timeout", 100, HOUR_MS), ("run_timeout", 1, 30 * DAY_MS),
    ("total_timeout", 1, 30 * DAY_MS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PolicyParts:
    """The messages that make a policy, serialized; empty for absent ones. Equal parts make the same policy."""

    timeouts: bytes = b""
    retry: bytes = b""
    resources: bytes = b""
    placement: bytes = b""
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """What became of parts. Fields of violations begin at `timeouts` and so on; with any, the policy means nothing."""

    policy: Policy
    stored: str
    violations: tuple[Violation, ...] = ()


def read_policy(parts: PolicyParts) -> ReadPolicy:
    """Reads and checks the parts; equal ones of reasonable size are read once."""
    if len(parts.timeouts) + len(parts.retry) + len(parts.resources) + len(parts.placement) > SHARED_BYTES:
        return _read(parts)
    return _shared(parts)


def parts_of(message: tasks_pb2.TaskDefinition | workflows_pb2.WorkflowStep) -> PolicyParts:
    """Returns the parts that a definition or a step has."""
    has = message.HasField
    return PolicyParts(
        message.timeouts.SerializeToString(deterministic=True) if has("timeouts") else b"",
        message.retry.SerializeToString(deterministic=True) if has("retry") else b"",
        message.resources.SerializeToString(deterministic=True) if has("resources") else b"",
        message.placement.SerializeToString(deterministic=True) if has("placement") else b"",
        message.exclusive,
    )


def over(base: bytes, top: Message) -> bytes:
    """Returns `top` with the fields that it leaves out taken from a serialized message of the same kind.

    Field by field: protobuf's own merge would mix the seconds of one duration with the nanoseconds of another.
    """
    if not base:
        return top.SerializeToString(deterministic=True)
    merged = type(top).FromString(base)
    for descriptor, _ in top.ListFields():
        merged.ClearField(descriptor.name)
    merged.MergeFrom(top)
    return merged.SerializeToString(deterministic=True)


def resources_faults(resources: pb.Resources) -> Iterator[Violation]:
    """Finds what is wrong with an amount of resources; fields begin at `resources`."""
    for name, high in (("cpu_millis", 1_000_000), ("memory_mb", 100_000_000), ("gpus", 1_000)):
        said = outside(getattr(resources, name), 0, high)
        if said:
            yield Violation(f"resources.{name}", said)


def _read(parts: PolicyParts) -> ReadPolicy:
    found: list[Violation] = []
    times = _read_timeouts(pb.TimeoutPolicy.FromString(parts.timeouts), found)
    retry = _read_retry(pb.RetryPolicy.FromString(parts.retry), found)
    resources = pb.Resources.FromString(parts.resources)
    found += resources_faults(resources)
    selector, affinity, spread, worker = _read_placement(pb.Placement.FromString(parts.placement), found)
    if found:
        return ReadPolicy(_DEFAULT, "", tuple(found))
    policy = Policy(
        *times,
        retry=retry,
        cpu_millis=resources.cpu_millis,
        memory_mb=resources.memory_mb,
        gpus=resources.gpus,
        selector=selector,
        affinity=affinity,
        spread=spread,
        exclusive=parts.exclusive,
        worker=worker,
    )
    return ReadPolicy(_DEFAULT, "") if policy == _DEFAULT else ReadPolicy(policy, dump_policy(policy))


_DEFAULT: Final = Policy()
_DEFAULT_RETRY: Final = RetryPolicy()
_shared = lru_cache(maxsize=4_096)(_read)


def _read_timeouts(message: pb.TimeoutPolicy, found: list[Violation]) -> tuple[int, int, int, int]:
    read = [_DEFAULT.queued_ms, _DEFAULT.start_ms, _DEFAULT.run_ms, _DEFAULT.total_ms]
    for place, (name, low, high) in enumerate(_TIMEOUTS):
        if message.HasField(name):  # type: ignore[arg-type]  # the four names are the message's own
            read[place] = _milliseconds(getattr(message, name), f"timeouts.{name}", low, high, found)
    queued, start, run, total = read
    return queued, start, run, total


def _read_retry(message: pb.RetryPolicy, found: list[Violation]) -> RetryPolicy:
    attempts, first_ms, factor = (
        _DEFAULT_RETRY.max_attempts,
        _DEFAULT_RETRY.first_delay_ms,
        _DEFAULT_RETRY.factor,
    )
    max_ms, jitter = _DEFAULT_RETRY.max_delay_ms, _DEFAULT_RETRY.jitter
    if message.HasField("max_attempts"):
        attempts = message.max_attempts
        _range(found, "retry.max_attempts", attempts, 1, 100)
    if message.HasField("factor"):
        factor = message.factor
        _range(found, "retry.factor", factor, 1, 100)
    if message.HasField("jitter"):
        jitter = message.jitter
        _range(found, "retry.jitter", jitter, 0, 1)
    if message.HasField("first_delay"):
        first_ms = _milliseconds(message.first_delay, "retry.first_delay", 0, DAY_MS, found)
    if message.HasField("max_delay"):
        max_ms = _milliseconds(message.max_delay, "retry.max_delay", 0, DAY_MS, found)
        if max_ms < first_ms:
            way = "raise it, lower the first delay, or leave it out"
            found.append(
                Violation("retry.max_delay", f"{span(max_ms)} is less than first_delay ({span(first_ms)}); {way}")
            )
    return RetryPolicy(attempts, first_ms, factor, max(max_ms, first_ms), jitter)


def _read_placement(message: pb.Placement, found: list[Violation]) -> tuple[str, str, str, str]:
    texts = []
    for name in ("selector", "affinity"):
        try:
            texts.append(Selector.parse(getattr(message, name), f"placement.{name}").text)
        except SelectorError as error:
            found += error.violations
            texts.append("")
    spread = message.spread
    said = check_label(spread, "") if spread else None
    if said:
        found.append(Violation("placement.spread", said))
    worker = message.worker_id
    said = check_name(worker) if worker else None
    if said:
        found.append(Violation("placement.worker_id", said))
    return texts[0], texts[1], spread, worker


def _range(found: list[Violation], field: str, value: float, low: float, high: float) -> None:
    said = outside(value, low, high)
    if said:
        found.append(Violation(field, said))


def _milliseconds(duration: Duration, field: str, low_ms: int, high_ms: int, found: list[Violation]) -> int:
    """Reads a duration; what is below a millisecond is cut off after its range was checked."""
    nanos = duration.seconds * NANOS + duration.nanos
    if abs(duration.nanos) < NANOS and low_ms * 1_000_000 <= nanos <= high_ms * 1_000_000:
        return nanos // 1_000_000
    said = cut(f"{nanos / NANOS:.12g} s")[1:-1]
    way = "choose a duration within, or leave it out for the default"
    found.append(Violation(field, f"{said} is outside {_words(low_ms)} to {_words(high_ms)}; {way}"))
    return low_ms


def _words(ms: int) -> str:
    for unit, name in ((DAY_MS, "day"), (HOUR_MS, "hour")):
        if ms >= unit:
            return f"{ms // unit} {name}{'s' if ms >= 2 * unit else ''}"
    return f"{ms} ms" if ms else "0"
