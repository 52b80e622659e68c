"""Two schedulers on one MariaDB: one leads, the other waits and takes over; who was deposed writes nothing more."""

from __future__ import annotations

import json
import random

import grpc
import pytest
from servers import free_port

from e2e.history import check
from e2e.load import Load
from e2e.process import Process, until
from e2e.refusals import refused
from e2e.site import Site
from taskyard.v1 import fleet_pb2, tasks_pb2


class Pair:
    """The second scheduler beside the site's own, on ports of its own and the same data directory."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.port, self.http_port = free_port(), free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self, name: str = "second") -> Process:
        return self.site.launch_scheduler(name, port=self.port, http_port=self.http_port)

    def ready(self, port: int) -> tuple[int, list[str]]:
        answer = self.site.http("/readyz", port)
        return answer.status, [reason["reason"] for reason in json.loads(answer.body or '{"reasons": []}')["reasons"]]

    async def wait_ready(self, port: int) -> None:
        await until(lambda: self.ready(port) == (200, []), what=f"a leader on HTTP port {port}")

    async def wait_follower(self, port: int) -> None:
        await until(lambda: self.ready(port) == (503, ["NOT_LEADER"]), what=f"a follower on HTTP port {port}")


def cluster(site: Site) -> dict[str, object]:
    database = site.database()
    try:
        [row] = database.rows("SELECT term, revision, holder FROM cluster")
        return row
    finally:
        database.close()


async def test_a_follower_waits_and_takes_over(maria_site: Site) -> None:
    site, pair = maria_site, Pair(maria_site)
    first = await site.start_scheduler("first")
    second = pair.launch()
    await second.wait_event("listening")
    await pair.wait_follower(pair.http_port)
    follower = site.door(site.token(), pair.address)
    call = follower.fleet.GetClusterStatus(fleet_pb2.GetClusterStatusRequest(), metadata=follower.metadata)
    answer = await refused(call)
    assert (answer.code, answer.reason) == (grpc.StatusCode.UNAVAILABLE, "NOT_LEADER")
    submit = tasks_pb2.SubmitTasksRequest(tasks=[tasks_pb2.TaskSubmission(task_type="double")])
    assert (await refused(follower.tasks.SubmitTasks(submit, metadata=follower.metadata))).reason == "NOT_LEADER"
    client = site.client()
    done = await client.submit("nobody", request_id="done")
    await done.cancel()
    waiting = await client.submit("double", {"number": 4}, request_id="waiting")
    before = cluster(site)
    first.kill()
    await pair.wait_ready(pair.http_port)
    assert cluster(site)["term"] == int(str(before["term"])) + 1
    assert cluster(site)["holder"] == "second"
    site.launch_worker("comes", address=pair.address)
    other = site.client_of(site.token(), address=pair.address)
    assert (await other.submit("double", {"number": 4}, request_id="waiting")).id == waiting.id
    assert await other.task(waiting.id).result(60) == {"double": 8}
    assert (await other.get_task(done.id)).task.status == tasks_pb2.TASK_STATUS_CANCELLED


async def test_a_stopped_leader_hands_over_and_comes_back_as_follower(maria_site: Site) -> None:
    site, pair = maria_site, Pair(maria_site)
    first = await site.start_scheduler("first")
    second = pair.launch()
    await pair.wait_follower(pair.http_port)
    assert await first.terminate() == 0
    await pair.wait_ready(pair.http_port)
    site.launch_scheduler("first")
    await pair.wait_follower(site.http_port)
    second.kill()
    await pair.wait_ready(site.http_port)


async def test_a_deposed_leader_writes_nothing(maria_site: Site) -> None:
    """It is frozen, another takes over, it wakes: what it is asked then is refused, and its term is over."""
    site, pair = maria_site, Pair(maria_site)
    first = await site.start_scheduler("first")
    pair.launch()
    await pair.wait_follower(pair.http_port)
    worker = await site.start_worker("of-the-first")
    door = site.door(site.token())
    waiting = await site.client().submit("pause", {"number": 1, "seconds": 2}, request_id="before")
    first.freeze()
    request = tasks_pb2.SubmitTasksRequest(tasks=[tasks_pb2.TaskSubmission(task_type="x", request_id="to-the-dead")])
    asked = door.tasks.SubmitTasks(request, metadata=door.metadata)  # waits in its socket until it wakes
    await pair.wait_ready(pair.http_port)
    taken = cluster(site)
    assert taken["holder"] == "second"
    first.thaw()
    assert (await refused(asked)).code == grpc.StatusCode.UNAVAILABLE
    await pair.wait_follower(site.http_port)
    other = site.client_of(site.token(), address=pair.address)
    await (await other.submit("nobody", request_id="to-the-living")).cancel()
    now = cluster(site)
    assert (now["term"], now["holder"]) == (taken["term"], "second")
    database = site.database()
    rows = database.rows("SELECT request_id, term FROM instances ORDER BY id")
    database.close()
    assert [row["request_id"] for row in rows] == ["before", "to-the-living"]
    assert first.code is None
    worker.kill()
    site.launch_worker("of-the-second", address=pair.address)
    await until(lambda: _ended(site, pair, waiting.id))


async def _ended(site: Site, pair: Pair, task_id: str) -> bool:
    other = site.client_of(site.token(), address=pair.address)
    return (await other.get_task(task_id)).task.HasField("end_time")


@pytest.mark.long
async def test_leaders_change_under_load(maria_site: Site, rng: random.Random) -> None:
    """kill -9, SIGSTOP and SIGTERM of whoever leads, with a worker at each scheduler."""
    site, pair = maria_site, Pair(maria_site)
    schedulers = {"first": await site.start_scheduler("first"), "second": pair.launch()}
    await pair.wait_follower(pair.http_port)
    site.launch_worker("at-first")
    site.launch_worker("at-second", address=pair.address)
    load = Load(site, rng, addresses=[site.address, pair.address])
    ports = {"first": site.http_port, "second": pair.http_port}
    launch = {"first": lambda: site.launch_scheduler("first"), "second": pair.launch}

    async def story() -> None:
        for way in rng.sample(["kill", "freeze", "terminate"], 3):
            await load.reach(rng.randint(10, 80), lambda: load.ended)
            leader = str(cluster(site)["holder"])
            other = "second" if leader == "first" else "first"
            print(f"{way} of {leader}")
            if way == "kill":
                schedulers[leader].kill()
            elif way == "freeze":
                schedulers[leader].freeze()
            else:
                assert await schedulers[leader].terminate() == 0
            await pair.wait_ready(ports[other])
            if way == "freeze":
                schedulers[leader].thaw()
            else:
                schedulers[leader] = launch[leader]()
            await pair.wait_follower(ports[leader])
        await load.reach(40, lambda: load.ended)

    await load.during(story(), within=200)
    leader = str(cluster(site)["holder"])
    site.port = site.port if leader == "first" else pair.port
    await check(site, load.history)
