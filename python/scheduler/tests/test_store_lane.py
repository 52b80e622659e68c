"""The thread behind a store: order, errors, cancelled callers, connections given up, the end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from taskyard_scheduler.store.lane import Lane
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

    def lane(self) -> Lane[int]:
        return Lane("test-lane", self.connect, self.ended.append, translate)


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
