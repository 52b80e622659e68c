"""The thread behind a store: order, errors, cancelled callers, connections given up, the end."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue

import pytest

from taskyard_scheduler.store.lane import Keepalive, Lane
from taskyard_scheduler.store.port import StoreError, StoreUnavailable


class Connections:
    """Makes connections (numbers) and remembers what became of them."""

    def __init__(self) -> None:
        self.made = 0
        self.ended: list[int] = []
        self.refuse = False

    def connect(self) -> int:
        if self.refuse:
            raise ConnectionRefusedError("nobody is there")
        self.made += 1
        return self.made

    def lane(self, keepalive: Keepalive[int] | None = None) -> Lane[int]:
        return Lane("test-lane", self.connect, self.ended.append, translate, keepalive)


def translate(raised: Exception) -> tuple[Exception, bool]:
    if isinstance(raised, OSError):
        return StoreUnavailable(str(raised)), False
    return raised, isinstance(raised, KeyError)


def fail(error: Exception) -> None:
    raise error


async def test_calls_run_in_order_on_one_thread_with_one_connection() -> None:
    connections = Connections()
    lane = connections.lane()
    assert connections.made == 0
    results = await asyncio.gather(*[lane.run(lambda c, n=n: (n, c, threading.get_ident())) for n in range(50)])  # type: ignore[misc]
    assert [number for number, _, _ in results] == list(range(50))
    assert {connection for _, connection, _ in results} == {1}
    assert {thread for _, _, thread in results}.isdisjoint({threading.get_ident()})
    await lane.close()
    assert connections.ended == [1]


async def test_a_connection_is_given_up_or_kept_as_the_error_says() -> None:
    connections = Connections()
    lane = connections.lane()
    with pytest.raises(StoreUnavailable, match="reset") as caught:
        await lane.run(lambda _: fail(ConnectionResetError("reset")))
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    with pytest.raises(KeyError):
        await lane.run(lambda _: fail(KeyError("kept")))
    assert await lane.run(lambda connection: connection) == 2
    assert connections.ended == [1]
    await lane.close()


async def test_connecting_is_tried_again_with_the_next_call() -> None:
    connections = Connections()
    connections.refuse = True
    lane = connections.lane()
    with pytest.raises(StoreUnavailable, match="nobody is there"):
        await lane.run(lambda connection: connection)
    connections.refuse = False
    assert await lane.run(lambda connection: connection) == 1
    await lane.close()


async def test_a_cancelled_caller_does_not_stop_the_work() -> None:
    lane = Connections().lane()
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work(_: int) -> None:
        started.set()
        go_on.wait()
        done.set()

    call = asyncio.create_task(lane.run(work), name="call")
    await asyncio.to_thread(started.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    assert await lane.run(lambda _: done.is_set())
    await lane.close()


async def test_the_loop_runs_while_the_thread_works() -> None:
    lane = Connections().lane()
    release = threading.Event()
    call = asyncio.create_task(lane.run(lambda _: release.wait()), name="call")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not call.done()
    release.set()
    assert await call
    await lane.close()


async def test_a_closed_lane_ends_its_thread_and_takes_no_more() -> None:
    lane = Connections().lane()
    running = {thread.name for thread in threading.enumerate()}
    assert "test-lane" in running
    await lane.close()
    await lane.close()
    assert "test-lane" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(StoreError, match="closed"):
        await lane.run(lambda connection: connection)


async def test_a_connection_that_nobody_uses_is_pinged_on_the_lanes_thread() -> None:
    pings: SimpleQueue[tuple[int, str]] = SimpleQueue()
    keepalive = Keepalive[int](0.01, lambda connection: pings.put((connection, threading.current_thread().name)))
    lane = Connections().lane(keepalive)
    assert await lane.run(lambda connection: connection) == 1
    for _ in range(3):
        assert await asyncio.to_thread(pings.get, timeout=30) == (1, "test-lane")
    assert await lane.run(lambda connection: connection) == 1
    await lane.close()


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), KeyError("another")])
async def test_a_ping_that_fails_gives_the_connection_up_and_the_next_call_makes_another(error: Exception) -> None:
    pinged = threading.Event()

    def ping(_: int) -> None:
        pinged.set()
        raise error

    connections = Connections()
    lane = connections.lane(Keepalive(0.01, ping))
    assert await lane.run(lambda connection: connection) == 1
    assert await asyncio.to_thread(pinged.wait, 30)
    assert await lane.run(lambda connection: connection) == 2
    assert connections.ended == [1]
    await lane.close()


async def test_a_lane_without_a_connection_pings_nothing() -> None:
    """It waits for a call and nothing else: one that was never asked, and one whose connection was given up."""
    pings: list[int] = []
    lane = Connections().lane(Keepalive(0.01, pings.append))
    with pytest.raises(StoreUnavailable):
        await lane.run(lambda _: fail(ConnectionResetError("reset")))
    await lane.close()
    assert pings == []
