"""Steps on the worker's process, on what it leaves on disk, and on the wire between it and the scheduler."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from os import kill as send_signal

from e2e.process import alive

from conformance.kit.stage import RECORDS, Stage
from conformance.kit.unmet import Unmet, one_of, poll
from conformance.kit.verb import verb
from conformance.kit.worker_process import end_of


@verb()
async def start(stage: Stage, concurrency: int = 4, drain_grace_s: float = 1) -> None:
    """Starts the worker, with the same id and data directory as before."""
    await stage.worker.start({
        "TASKYARD_ADDRESS": f"127.0.0.1:{stage.wire.port}",
        "TASKYARD_TOKEN": stage.token,
        "TASKYARD_DATA": str(stage.data),
        "TASKYARD_WORKER_ID": stage.worker_id,
        "TASKYARD_CONCURRENCY": str(concurrency),
        "TASKYARD_HTTP_PORT": "0",
        "TASKYARD_DRAIN_GRACE_S": f"{drain_grace_s:g}",
    })  # fmt: skip


@verb()
async def terminate(stage: Stage) -> None:
    """Sends SIGTERM to the worker."""
    stage.worker.terminate()


@verb()
async def kill(stage: Stage) -> None:
    """Kills the worker and all of its process group with SIGKILL."""
    await stage.worker.kill()


@verb()
async def exited(stage: Stage, code: int, within_s: float = 0) -> None:
    """Waits for the worker's end; its exit code must be this."""
    within_s = within_s or stage.patience_s
    try:
        async with asyncio.timeout(within_s):
            found = await stage.worker.wait()
    except TimeoutError:
        raise Unmet(f"the worker runs, but must end with exit code {code} (waited {within_s:g} s)") from None
    stage.ends.append(found)
    if found != code:
        raise Unmet(f"the worker ended {end_of(found)}, but must with {code}")


@verb()
async def says(stage: Stage, text: str) -> None:
    """The worker's own output must have this text in it."""
    if text not in stage.worker.text():
        raise Unmet(f"the worker's output does not say {text!r}, which a person has to read there")


@verb()
async def recorded(stage: Stage, key: str, times: int = 1, within_s: float = 5) -> None:
    """The handler of this key must have been entered so often, by the lines in the records."""

    def count() -> int:
        return sum(found == key for found, _ in stage.records())

    def sentence() -> str:
        return f"the handler of {key!r} was entered {count()} times by {RECORDS}, but must have been {times} times"

    await poll(lambda: count() >= times, within_s, sentence)
    if count() != times:
        raise Unmet(sentence())


@verb()
async def dead(stage: Stage, key: str, within_s: float = 5) -> None:
    """Every process that was recorded under this key must be gone in time."""
    for pid in recorded_pids(stage, key):
        await poll(
            lambda: not alive(pid),  # noqa: B023 - polled before the next turn
            within_s,
            lambda: f"the process of {key!r} still runs",
        )


@verb()
async def living(stage: Stage, key: str) -> None:
    """A process that was recorded under this key must run."""
    if not any(map(alive, recorded_pids(stage, key))):
        raise Unmet(f"the process of {key!r} does not run any more")


@verb()
async def kill_handler(stage: Stage, key: str) -> None:
    """Kills the processes that were recorded under this key."""
    for pid in recorded_pids(stage, key):
        with suppress(ProcessLookupError):
            send_signal(pid, signal.SIGKILL)


@verb()
async def wire(stage: Stage, does: str) -> None:
    """What the wire does: `cut` connections, `swallow` what they carry, `refuse` new ones, `carry` again."""
    actions = {"cut": stage.wire.cut, "swallow": stage.wire.swallow}
    if does in ("refuse", "carry"):
        stage.wire.refusing = does == "refuse"
    elif does in actions:
        actions[does]()
    else:
        raise Unmet(f"the wire cannot {does!r}; {one_of(does, [*actions, 'refuse', 'carry'])}")
    stage.scripted.note(f"the wire: {does}")


def recorded_pids(stage: Stage, key: str) -> list[int]:
    """Returns the ids of the processes that were recorded under a key."""
    found = [int(pid) for each, pid in stage.records() if each == key]
    if not found:
        raise Unmet(f"no process of {key!r} is in {RECORDS}")
    return found
