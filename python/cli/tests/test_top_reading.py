"""What `taskyard top` asks a scheduler for, and how it asks no more than is cheap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from scripted_server import ScriptedServer
from top_snapshots import NOW, ago, queue, status, task, worker

from taskyard.v1.pauses_pb2 import PauseScope
from taskyard_cli.top import rows
from taskyard_cli.top.failures import QUICK_S, REST, SHOWN, SLOW_S, SPANS, Failures
from taskyard_cli.top.reading import MOST, Reader
from taskyard_client import AsyncClient


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.address, "t") as made:
        yield made


class Clock:
    """A clock that goes on whenever somebody looks at it: by the next of `steps`, then by `step`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.step = 0.0
        self.steps: Iterator[float] = iter(())

    def __call__(self) -> float:
        self.time += next(self.steps, self.step)
        return self.time


async def test_a_snapshot_has_everything_and_asks_for_what_fits(server: ScriptedServer, client: AsyncClient) -> None:
    model = server.model
    model.status.MergeFrom(status(FAILED=1))
    model.queues.append(queue("gpu", "NO_WORKER_FOR_TYPE"))
    model.workers.append(worker("w"))
    model.tasks = {each.task_id: each for each in (task("a"), task("b", "FAILED"), task("c", "SUCCESS"))}
    found = await Reader(client).read('task_type == "shell"', rows=30)
    assert [each.task_type for each in found.queues] == ["gpu"]
    assert [each.worker_id for each in found.workers] == ["w"]
    assert [each.task_id for each in found.running] == ["a"]
    assert [each.task_id for each in found.failed] == ["b"]
    assert server.wire.named("ListQueues")[0].explain
    running, failed = server.wire.named("ListTasks")[:2]
    assert running.filter == 'status in ["RUNNING", "ASSIGNED", "CANCELLING"] && (task_type == "shell")'
    assert (running.page_size, running.order_by) == (30, "create_time")
    assert failed.filter.startswith('status in ["FAILED", "TIMEOUT"] && create_time >= timestamp("')
    assert failed.filter.endswith('Z") && (task_type == "shell")')


async def test_reasons_that_take_long_are_asked_for_seldom_and_kept_meanwhile(
    server: ScriptedServer, client: AsyncClient
) -> None:
    server.model.queues.append(queue("gpu", "NO_WORKER_FOR_TYPE", name="gpu"))
    clock = Clock()
    reader = Reader(client, clock=clock)
    await reader.read()
    clock.steps = iter([0.0, 0.0, 0.0, 0.5])  # the round trip takes no time, the queues half a second
    await reader.read()
    assert [each.explain for each in server.wire.named("ListQueues")] == [True, True]
    server.model.queues[0].ClearField("reasons")
    server.model.queues.append(queue("new", "", name="new"))
    found = await reader.read()
    assert not server.wire.named("ListQueues")[-1].explain
    assert [[reason.code for reason in each.reasons] for each in found.queues] == [["NO_WORKER_FOR_TYPE"], []]
    reader.forget()  # as after what a key did to a queue
    clock.steps = iter([0.0, 0.0, 0.0, 0.5])
    await reader.read()
    await reader.read()
    assert [each.explain for each in server.wire.named("ListQueues")[-2:]] == [True, False]
    clock.time += REST * 0.5
    await reader.read()
    assert server.wire.named("ListQueues")[-1].explain


async def test_of_many_workers_those_that_take_nothing_are_asked_for_first(
    server: ScriptedServer, client: AsyncClient
) -> None:
    server.model.workers += [worker(f"w{number}") for number in range(5)]
    server.model.status.workers_known = MOST + 1
    await Reader(client).read(rows=20)
    ill, well = server.wire.named("ListWorkers")
    assert (ill.filter, ill.page_size) == ('state != "HEALTHY"', 20)
    assert (well.filter, well.page_size) == ('state == "HEALTHY"', 15)


async def test_failures_are_looked_for_only_when_there_are_new_ones(
    server: ScriptedServer, client: AsyncClient
) -> None:
    clock = Clock()
    server.model.tasks["old"] = task("old", "FAILED", end_time=ago(hours=1))
    failures = Failures(client, clock)

    async def looks(filter: str = "", **ended: int) -> int:
        before = len(server.wire.named("ListTasks"))
        found, _ = await failures.read(status(**ended), filter, NOW, round_trip=0.0)
        assert [each.task_id for each in found] == ["old"]
        return len(server.wire.named("ListTasks")) - before

    assert await looks(FAILED=1) == len(SPANS)  # each was quick and found few: back to the end
    assert await looks(FAILED=1) == 0
    assert await looks(FAILED=1, SUCCESS=9) == 0
    assert await looks(FAILED=2) == 1
    assert await looks(FAILED=2, TIMEOUT=1) == 1
    assert await looks('task_type == "x"', FAILED=2, TIMEOUT=1) == len(SPANS)


async def test_a_look_that_was_slow_is_followed_by_a_rest_and_a_shorter_one(
    server: ScriptedServer, client: AsyncClient
) -> None:
    clock = Clock()
    failures = Failures(client, clock)
    clock.steps = iter([0.0] * 7)  # two looks are quick
    clock.step = SLOW_S * 2  # from then on each takes long
    _, since = await failures.read(status(FAILED=2), "", NOW, round_trip=0.0)
    assert since == NOW - (SPANS[2] or timedelta())
    clock.step = 0.0
    clock.time += REST * SLOW_S  # less than it has to rest
    before = len(server.wire.named("ListTasks"))
    await failures.read(status(FAILED=3), "", NOW, round_trip=0.0)
    assert len(server.wire.named("ListTasks")) == before
    clock.time += 2 * REST * SLOW_S
    _, since = await failures.read(status(FAILED=3), "", NOW, round_trip=0.0)
    assert since == NOW - (SPANS[1] or timedelta())


async def test_the_way_to_a_far_scheduler_is_no_cost_of_its(server: ScriptedServer, client: AsyncClient) -> None:
    clock = Clock()
    clock.step = 0.1
    failures = Failures(client, clock)
    _, since = await failures.read(status(FAILED=1), "", NOW, round_trip=0.1)
    assert since is None, "it was quick beyond the round trip, so it went back to the end"
    assert clock.step > QUICK_S


async def test_no_more_failures_are_asked_for_than_are_shown(server: ScriptedServer, client: AsyncClient) -> None:
    server.model.tasks.update({f"t{n}": task(f"t{n}", "FAILED", end_time=ago(minutes=n)) for n in range(SHOWN + 5)})
    failures = Failures(client, Clock())
    found, _ = await failures.read(status(FAILED=30), "", NOW, round_trip=0.0)
    assert len(found) == SHOWN
    ends = [each.end_time.ToNanoseconds() for each in found]
    assert ends == sorted(ends, reverse=True)


async def test_what_waits_for_its_result_from_outside_is_read_and_not_too_often(
    server: ScriptedServer, client: AsyncClient
) -> None:
    clock = Clock()
    reader = Reader(client, clock=clock)
    server.model.tasks = {each.task_id: each for each in (task("a"), task("b", "DEFERRED"))}
    server.model.status.MergeFrom(status())
    server.model.status.tasks_live = server.model.status.tasks_in_flight = 1

    def asked() -> int:
        return len([each for each in server.wire.named("ListTasks") if each.filter.startswith('status == "DEFERRED"')])

    assert [each.task_id for each in (await reader.read()).running] == ["a"]
    assert asked() == 0  # nothing can be, by the counters
    server.model.status.tasks_live = 2
    found = await reader.read('task_type == "shell"', rows=30)
    assert [each.task_id for each in found.running] == ["a", "b"]
    (first,) = [each for each in server.wire.named("ListTasks") if "DEFERRED" in each.filter]
    assert (first.filter, first.page_size) == ('status == "DEFERRED" && (task_type == "shell")', 29)
    clock.steps = iter([0.0] * 5 + [0.5])  # the next look takes half a second
    for _ in range(3):
        assert [each.task_id for each in (await reader.read()).running] == ["a", "b"]
    assert asked() == 2
    clock.time += REST * 0.5
    await reader.read()
    assert asked() == 3


async def test_queues_that_are_paused_are_there_also_when_nothing_waits(
    server: ScriptedServer, client: AsyncClient
) -> None:
    server.model.queues.append(queue("gpu", "PAUSED", name="gpu"))
    for name in ("gpu", "cpu#1"):
        await client.pause_work(PauseScope.PAUSE_SCOPE_QUEUE, name, reason="repairs")
    found = await Reader(client).read()
    assert [(each.name, each.waiting) for each in found.queues] == [("gpu", 1), ("cpu#1", 0)]
    assert found.queues[1].pause.reason == "repairs"
    assert [each.filter for each in server.wire.named("ListPauses")] == ['scope == "QUEUE"']
    row = next(each for each in rows.queue_rows(found.queues, NOW) if each.key == "cpu#1")
    assert (row.paused, row.cells[:3]) == (True, ("~", "cpu#1", "0"))
    assert row.cells[4] == "nothing waits; it is paused (repairs), and P lets it go on"
