"""Steps that change how the scripted scheduler behaves, and what it orders."""

from __future__ import annotations

import grpc

from conformance.kit.scripted import Refusal
from conformance.kit.stage import Stage
from conformance.kit.unmet import expect_known
from conformance.kit.verb import Names, verb
from taskyard.v1.workers_pb2 import DESCRIPTOR, ResultOutcome

CALLS = [method.name for method in DESCRIPTOR.services_by_name["WorkerService"].methods]
CODES = [code.name for code in grpc.StatusCode]
OUTCOMES = [name.removeprefix("RESULT_OUTCOME_") for name in ResultOutcome.keys()]


@verb("scripted")
async def scheduler(
    stage: Stage,
    heartbeat_s: int | None = None,
    accepted: bool | None = None,
    message: str | None = None,
    acks: bool | None = None,
    checkpoint_acks: bool | None = None,
    ok: bool | None = None,
    deaf: bool | None = None,
    late_heartbeats: bool | None = None,
    unknown_fields: bool | None = None,
    clock_skew_s: int | None = None,
    log_room: int | None = None,
    log_forgets: int | None = None,
) -> None:
    """Changes how the scheduler answers from now on."""
    given = {name: value for name, value in locals().items() if name != "stage" and value is not None}
    for name, value in given.items():
        setattr(stage.scripted.settings, name, value)


@verb("scripted")
async def refuse(stage: Stage, call: str, code: str, reason: str = "", times: int = 1) -> None:
    """Answers the next calls of this name (`all`: of any) with this code; `times` below 0: until `allow`."""
    expect_known("call", call, [*CALLS, "all"])
    expect_known("code", code, CODES)
    stage.scripted.refusals[call] = Refusal(code, reason, times)


@verb("scripted")
async def allow(stage: Stage) -> None:
    """Ends every refusal."""
    stage.scripted.refusals.clear()


@verb("scripted")
async def end_stream(stage: Stage, code: str = "", reason: str = "") -> None:
    """Ends the stream, cleanly or with a code."""
    if code:
        expect_known("code", code, CODES)
    stream = stage.scripted.stream
    if stream is not None:
        stream.outgoing.put_nowait((code, reason) if code else None)
        stream.open = False
        stage.scripted.note(f"ended stream {stream.number} {code}")


@verb("scripted")
async def ack(stage: Stage, task: str, outcome: str = "RECORDED") -> None:
    """Acknowledges a result that came while `acks` was false."""
    expect_known("outcome", outcome, OUTCOMES)
    stage.scripted.ack(stage.attempt(task).results[-1:], ResultOutcome.Value(f"RESULT_OUTCOME_{outcome}"))


@verb("scripted")
async def cancel(stage: Stage, task: str, reason: str = "cancelled", grace_ms: int = 1000) -> None:
    """Orders an attempt to stop."""
    seen = stage.attempt(task)
    stage.scripted.attempts.setdefault(seen.token, seen)
    order = {
        "task_id": seen.assignment.task_id, "attempt_token": seen.token, "reason": reason, "grace_ms": grace_ms
    }  # fmt: skip
    seen.released = seen.released or reason == "fenced"
    stage.scripted.push(cancels=[order])
    stage.scripted.note(f"cancel {task} ({reason})")


@verb("scripted")
async def lose(stage: Stage, tasks: Names) -> None:
    """Answers heartbeats from now on that these attempts are no longer this worker's."""
    for name in tasks:
        seen = stage.attempt(name)
        seen.released = True
        stage.scripted.lost.add(seen.token)


@verb("scripted")
async def drain(stage: Stage) -> None:
    """Orders the worker to drain."""
    stage.scripted.push(drain=True)


@verb("scripted")
async def config(stage: Stage, heartbeat_s: int) -> None:
    """Sends another heartbeat interval on the stream."""
    stage.scripted.push(config={"heartbeat_interval_sec": heartbeat_s})


@verb("scripted")
async def commit(stage: Stage, task: str, number: int = 1) -> None:
    """Acknowledges a checkpoint that came while `checkpoint_acks` was false."""
    stage.scripted.commit(stage.attempt(task), number)


@verb("scripted")
async def artifact(stage: Stage, name: str, bytes: int = 0, text: str = "") -> None:
    """Keeps an artifact, byte i being i modulo 251, or this text; its URI is `$NAME.uri`."""
    data = text.encode() if text else pattern(bytes)
    stage.uris[name] = stage.scripted.artifacts.add(data)


def pattern(size: int) -> bytes:
    """Returns so many bytes, byte i being i modulo 251."""
    cycle = bytes(range(251))
    return (cycle * (size // 251 + 1))[:size]
