"""Steps that expect something of the worker: each waits for it, and says in a sentence what did not come."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from conformance.kit.matching import difference
from conformance.kit.seen import Seen, output_of, status_name
from conformance.kit.stage import Stage
from conformance.kit.unmet import Unmet, one_of
from conformance.kit.verb import Anything, Names, verb

MISSING: Any = object()
DEFER_MS = 7 * 24 * 3600 * 1000


@verb("scripted")
async def registered(
    stage: Stage, times: int = 1, slots: int = 0, offers: Names | None = None, within_s: float = 0
) -> None:
    """The worker must have registered so often, with this many slots and at least these types."""
    found = stage.scripted.registrations
    await stage.until(
        lambda: len(found) >= times,
        lambda: f"the worker registered {len(found)} times, but must {times} times",
        within_s,
    )
    last = found[-1]
    expect_same("its worker_id (TASKYARD_WORKER_ID)", stage.worker_id, last.worker_id)
    expect_same("its protocol", "grpc", last.protocol.lower() or "grpc")
    expect_same("its max_concurrency (TASKYARD_CONCURRENCY)", slots or last.max_concurrency, last.max_concurrency)
    missing = [each for each in offers or () if each not in last.capabilities and "*" not in last.capabilities]
    expect(not missing, f"it does not offer {', '.join(missing)}")


@verb("scripted")
async def stream(stage: Stage, number: int = 1, held: Names | None = None, within_s: float = 0) -> None:
    """The worker must have opened its so many-th stream, and hold these attempts in its hello."""
    streams = stage.scripted.streams
    await stage.until(
        lambda: len(streams) >= number,
        lambda: f"the worker opened {len(streams)} streams, but must open the {number}.",
        within_s,
    )
    seen = streams[number - 1].held
    if held is not None and seen != tuple(sorted(held)):
        raise Unmet(f"the hello of stream {number} holds {list(seen)}, but must hold {sorted(held)}")


@verb("scripted")
async def heartbeat(stage: Stage, held: Names | None = None, more: int = 1, within_s: float = 5) -> None:
    """The worker must send so many more heartbeats, the last of them with just these attempts."""
    beats = stage.scripted.heartbeats
    before = len(beats)
    wanted = None if held is None else sorted(held)

    def of(at: int) -> list[str]:
        return sorted(map(stage.scripted.name_of, beats[at].attempt_tokens)) if beats else []

    def come() -> bool:
        new = range(before, len(beats))
        return len(new) >= more and (wanted is None or any(of(at) == wanted for at in new))

    await stage.until(
        come,
        lambda: f"of {more} heartbeats with {wanted} {len(beats) - before} came; the last one named {of(-1)}",
        within_s,
    )


@verb("scripted")
async def started(stage: Stage, task: str, within_s: float = 0) -> None:
    """The worker must acknowledge the start of the attempt."""
    seen = stage.attempt(task)
    sentence = f"the worker did not acknowledge the start of {task}"
    await while_it_runs(stage, seen, lambda: seen.starts > 0, lambda: sentence, within_s)


@verb("scripted")
async def taken(stage: Stage, task: str, within_s: float = 0) -> None:
    """The worker must acknowledge the start of the attempt, or refuse it: NON_RETRYABLE."""
    seen = stage.attempt(task)
    sentence = f"the worker neither acknowledged the start of {task} nor refused it"
    await stage.until(lambda: seen.starts > 0 or bool(seen.results), sentence, within_s)
    if seen.results:
        expect_same(f"the error_kind of {task}", "NON_RETRYABLE", seen.results[-1].error_kind)


@verb("scripted")
async def result(
    stage: Stage,
    task: str,
    status: str = "SUCCESS",
    output: Anything = MISSING,
    error_kind: str = "",
    error_message: str = "",
    times: int = 1,
    duration_ms: int = -1,
    defer_timeout_ms: int = 0,
    within_s: float = 0,
) -> None:
    """The attempt's result must come, so often, and be this."""
    seen = stage.attempt(task)

    def sentence() -> str:
        if not seen.results:
            return f"the worker reported no result of {task}"
        return f"the worker reported the result of {task} {len(seen.results)} times, but must {times} times"

    await stage.until(lambda: len(seen.results) >= times, sentence, within_s)
    found = seen.results[-1]
    expect(status_name(found.status) == status, f"{end_of(seen)}, but must end {status}")
    if output is not MISSING:
        expect_same(f"the output of {task}", stage.fill(output), output_of(found))
    if error_kind:
        expect_same(f"the error_kind of {task}", error_kind, found.error_kind)
    if error_message:
        expect_part(f"the error message of {task}", error_message, found.error_message)
    if duration_ms >= 0:
        took = f"{task} took {found.duration_ms} ms by its result"
        expect(found.duration_ms >= duration_ms, f"{took}, but must at least {duration_ms}")
    if defer_timeout_ms:
        waits = found.defer_timeout_ms or DEFER_MS
        expect_same(f"the defer_timeout_ms of {task}", defer_timeout_ms, waits)


@verb("scripted")
async def results(stage: Stage, tasks: str, count: int, echo: bool = False, within_s: float = 0) -> None:
    """Each of NAME0, NAME1 and so on must succeed, and be reported once; `echo`: with its number."""
    seen = [stage.attempt(f"{tasks}{number}") for number in range(count)]

    def done() -> int:
        return sum(bool(each.results) for each in seen)

    await stage.until(lambda: done() == count, lambda: f"of {count} results {done()} came", within_s)
    for number, each in enumerate(seen):
        expect_same(f"the end of {each.name}", "SUCCESS", status_name(each.results[0].status))
        expect(len(each.results) == 1, f"{each.name} was reported {len(each.results)} times, though acknowledged")
        if echo:
            expect_same(f"the output of {each.name}", {"number": number}, output_of(each.results[0]))


@verb("scripted")
async def never(stage: Stage, what: str, task: str = "", for_s: float = 1.0) -> None:
    """Nothing of this kind may come, until now and for so long: start, result, heartbeat, stream, progress, logs."""
    scripted = stage.scripted
    counts: dict[str, Callable[[], int]] = {
        "start": lambda: stage.attempt(task).starts,
        "result": lambda: len(stage.attempt(task).results),
        "progress": lambda: len(stage.attempt(task).progress),
        "deregistration": lambda: len(scripted.deregistrations),
    }
    since: dict[str, Callable[[], int]] = {
        "more results": lambda: len(stage.attempt(task).results),
        "more log calls": lambda: stage.attempt(task).log_calls,
        "more streams": lambda: len(scripted.streams),
        "more heartbeats": lambda: len(scripted.heartbeats),
    }
    count = {**counts, **since}.get(what)
    if count is None:
        raise Unmet(f"nobody counts {what!r}; {one_of(what, [*counts, *since])}")
    base = count() if what in since else 0
    with_task = f" of {task}" if task else ""
    try:
        await stage.until(partial(exceeds, count, base), "", for_s)
    except Unmet:  # not in time, or never: the worker has ended
        stage.no_breach()
        return
    raise Unmet(f"a {what}{with_task} came, but must not")


@verb("scripted")
async def credits(stage: Stage, total: int) -> None:
    """The credits of the open stream must reach this total, and not pass it."""

    def told() -> int:
        return stage.scripted.stream.credits if stage.scripted.stream else 0

    await stage.until(lambda: told() >= total, lambda: f"credits reached {told()}, but must reach {total}")
    expect(told() == total, f"credits reached {told()}, but must stop at {total}")


@verb("scripted")
async def progress(stage: Stage, task: str, percent: float = -1, message: str = "") -> None:
    """The attempt must report this progress."""
    seen = stage.attempt(task)

    def told() -> bool:
        return any((percent < 0 or each.percent == percent) and each.message == message for each in seen.progress)

    await while_it_runs(
        stage,
        seen,
        told,
        lambda: (
            f"{task} reported {[(each.percent, each.message) for each in seen.progress[-3:]]}, "
            f"but must report {percent:g} % with {message!r}"
        ),
    )


@verb("scripted")
async def checkpointed(stage: Stage, task: str, value: str, number: int = 1) -> None:
    """The attempt must store this checkpoint, JSON text, under this number."""
    seen = stage.attempt(task)

    def told() -> list[tuple[int, str]]:
        return [(each.checkpoint_number, each.checkpoint) for each in seen.progress if each.HasField("checkpoint")]

    await while_it_runs(
        stage,
        seen,
        lambda: (number, json.loads(value)) in [(at, json.loads(text)) for at, text in told()],
        lambda: f"{task} stored {told()}, but must store {value!r} as number {number}",
    )


@verb("scripted")
async def unconfirmed(stage: Stage, task: str, within_s: float = 0) -> None:
    """The worker must say that the handler was told to stop and cannot be made to."""
    seen = stage.attempt(task)
    sentence = f"the worker did not tell that {task} does not stop (cancel_unconfirmed)"
    told = partial(any_unconfirmed, seen)
    await while_it_runs(stage, seen, told, lambda: sentence, within_s)


@verb("scripted")
async def draining(stage: Stage) -> None:
    """The worker must say that it takes no new tasks."""
    await stage.until(lambda: stage.scripted.draining, "no frame said `draining`")


@verb("scripted")
async def deregistered(stage: Stage, within_s: float = 0) -> None:
    """The worker must end its session."""
    await stage.until(lambda: bool(stage.scripted.deregistrations), "the worker did not deregister", within_s)


@verb("scripted")
async def logged(stage: Stage, task: str, lines: int, text: str = "", last_has: str = "", within_s: float = 0) -> None:
    """So many log lines must come, line N being `TEXT N`; the last one may have another text in it."""
    found = stage.attempt(task).lines
    await stage.until(
        lambda: len(found) >= lines,
        lambda: f"{len(found)} log lines of {task} came, but {lines} were written",
        within_s,
    )
    expect(len(found) == lines, f"{len(found)} log lines of {task} came, but {lines} were written")
    numbered = found[:-1] if last_has else found
    for number, line in enumerate(numbered if text else ()):
        wanted = f"{text} {number}"
        expect_same(f"log line {number} of {task}", wanted, line[: len(wanted)])
    if last_has:
        expect_part(f"the last log line of {task}", last_has, found[-1])


async def while_it_runs(
    stage: Stage, seen: Seen, check: Callable[[], bool], sentence: Callable[[], str], within_s: float = 0
) -> None:
    """Waits for what a handler brings about. Raises Unmet as soon as its attempt was handed back unrun, too."""

    def rejected() -> bool:
        return any(status_name(each.status) == "REJECTED" for each in seen.results)

    await stage.until(lambda: check() or rejected(), sentence, within_s)
    if not check():
        raise Unmet(f"{sentence()}: {end_of(seen)}")


def any_unconfirmed(seen: Seen) -> bool:
    """Tells whether the worker has said of an attempt that its handler does not stop."""
    return any(each.cancel_unconfirmed for each in seen.progress)


def end_of(seen: Seen) -> str:
    """Returns how an attempt ended, with its reason."""
    found = seen.results[-1]
    why = ": ".join(filter(None, (found.error_kind, found.error_message[:200])))
    return f"{seen.name} ended {status_name(found.status)}" + (f" ({why})" if why else "")


def exceeds(count: Callable[[], int], base: int) -> bool:
    """Tells whether a count has passed its base."""
    return count() > base


def expect(holds: bool, sentence: str) -> None:
    """Raises Unmet with the sentence unless it holds."""
    if not holds:
        raise Unmet(sentence)


def expect_part(what: str, part: str, found: str) -> None:
    """Raises Unmet when a text has not this part in it."""
    expect(part in found, f"{what} is {found[:200]!r}, without {part!r}")


def expect_same(what: str, wanted: object, found: object) -> None:
    """Raises Unmet when something is not as it must be; says where."""
    if where := difference(wanted, found):
        raise Unmet(f"{what} {where}")
