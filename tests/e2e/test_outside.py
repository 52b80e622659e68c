"""A handler ends and the result comes from outside: from the terminal, over HTTP, over gRPC; late, twice, never."""

from __future__ import annotations

import os
from typing import Any

import grpc
import httpx
import pytest

from e2e.command import taskyard
from e2e.history import executions
from e2e.process import until
from e2e.refusals import refused
from e2e.site import Site
from e2e.test_by_hand import comes_to
from e2e.test_golden_path import AT_ONCE
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import AsyncClient, NotFound, Retry, TaskHandle, WrongState

SUCCESS, FAILED, TIMEOUT = tasks.TASK_STATUS_SUCCESS, tasks.TASK_STATUS_FAILED, tasks.TASK_STATUS_TIMEOUT
DEFERRED, CANCELLED = tasks.TASK_STATUS_DEFERRED, tasks.TASK_STATUS_CANCELLED


def token_of(site: Site, task_id: str, attempt: int = 1) -> str:
    """Returns the token that a handler has handed out; empty before."""
    found = [each["token"] for each in executions(site) if (each["task"], each["attempt"]) == (task_id, attempt)
             and "token" in each]  # fmt: skip
    return found[0] if found else ""


async def deferred(site: Site, client: AsyncClient, task_type: str = "later", **options: Any) -> tuple[TaskHandle, str]:
    """Submits a task and waits until its handler has left the result to us."""
    handle = await client.submit(task_type, options.pop("input", {}), **options)
    await comes_to(site, handle.id, DEFERRED)
    return handle, token_of(site, handle.id)


async def test_the_result_is_brought_through_each_door_and_no_slot_is_held(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("w", concurrency=1)
    client = site.client()
    (one, first), (two, second), (three, third) = [
        await deferred(site, client, task_type) for task_type in ("later", "later_apart", "later")
    ]
    assert await (await client.submit("double", {"number": 1})).result(60) == {"double": 2}
    explained = await one.explain()
    assert [reason.code for reason in explained.reasons] == ["DEFERRED"]
    assert (await client.get_task(one.id)).task.HasField("schedule_time")
    shown = await taskyard(site, "complete", first, "--result", '{"by": "terminal"}')
    assert (shown.code, shown.out) == (0, f"{one.id} SUCCESS\n")
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(
            f"http://127.0.0.1:{site.http_port}/api/v1/tasks:complete",
            headers={"authorization": f"Bearer {site.token()}"},
            json={"token": second, "status": "TASK_STATUS_SUCCESS", "outputJson": '{"by": "HTTP"}', "requestId": "1"},
        )
    assert (answer.status_code, answer.json()) == (200, {"status": "TASK_STATUS_SUCCESS"})
    door = site.door(site.token())
    request = tasks.CompleteTaskRequest(token=third, status=SUCCESS, output_json='{"by": "gRPC"}')
    assert (await door.tasks.CompleteTask(request, metadata=door.metadata)).status == SUCCESS
    results = [await each.result(60) for each in (one, two, three)]
    assert results == [{"by": "terminal"}, {"by": "HTTP"}, {"by": "gRPC"}]


async def test_a_token_is_of_one_attempt_and_a_request_id_of_one_answer(any_site: Site) -> None:
    site = any_site
    await site.start_scheduler()
    await site.start_worker("w")
    client = site.client()
    handle, first = await deferred(site, client, retry=AT_ONCE, idempotency_key="the same key")
    assert await client.fail_task(first, "the line is down", request_id="try") in (
        tasks.TASK_STATUS_QUEUED, tasks.TASK_STATUS_PENDING,
    )  # fmt: skip
    second = await until(lambda: token_of(site, handle.id, 2), what="it runs again and hands out another token")
    assert second != first
    await comes_to(site, handle.id, DEFERRED)
    with pytest.raises(WrongState) as caught:
        await client.complete_task(first, {"late": True})
    assert caught.value.reason == "STALE_ATTEMPT"
    assert await client.complete_task(second, {"n": 1}, request_id="click") == SUCCESS
    assert await client.complete_task(second, {"n": 1}, request_id="click") == SUCCESS
    with pytest.raises(WrongState) as caught:
        await client.complete_task(second, {"n": 2}, request_id="another click")
    assert caught.value.reason == "STALE_ATTEMPT"
    told = await client.get_task(handle.id)
    assert told.task.output_json == '{"n":1}'
    assert [(each.attempt, each.status, each.error.message) for each in told.attempts] == [
        (1, FAILED, "the line is down"), (2, SUCCESS, ""),
    ]  # fmt: skip
    with pytest.raises(NotFound):
        await client.complete_task(f"{handle.id[:-4]}0000.{second.partition('.')[2]}")


async def test_a_failure_that_nothing_follows(shared_site: Site) -> None:
    client = shared_site.client()
    handle, token = await deferred(shared_site, client)
    assert await client.fail_task(token, "not on a Friday", kind="NON_RETRYABLE") == FAILED
    ended = await handle.wait(60)
    assert (ended.error.kind, ended.error.message, ended.attempt) == ("NON_RETRYABLE", "not on a Friday", 1)


async def test_a_wait_that_is_over_is_a_timeout(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("later", {"wait_s": 0.2}, retry=Retry(max_attempts=2, first_delay=0.0))
    ended = await handle.wait(60)
    assert (ended.status, ended.attempt, ended.error.kind) == (TIMEOUT, 2, "TIMEOUT")
    assert "did not come from outside" in ended.error.message
    with pytest.raises(WrongState):
        await client.complete_task(token_of(shared_site, handle.id, 2))


async def test_a_cancel_ends_it_at_once(shared_site: Site) -> None:
    client = shared_site.client()
    handle, token = await deferred(shared_site, client)
    assert await handle.cancel("not needed") == CANCELLED
    with pytest.raises(WrongState) as caught:
        await client.complete_task(token)
    assert caught.value.reason == "STALE_ATTEMPT"
    assert (await handle.wait(60)).status == CANCELLED


async def test_a_result_that_is_quicker_than_its_handler_counts(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("later", {"hold_s": 3600})
    token = await until(lambda: token_of(shared_site, handle.id), what="it has begun")
    assert await client.complete_task(token, {"quick": True}) == SUCCESS
    assert await handle.result(60) == {"quick": True}

    def stopped() -> bool:
        return any((each["task"], each["what"]) == (handle.id, "stopped") for each in executions(shared_site))

    await until(stopped, what="its handler was told to stop")


async def test_an_exclusive_task_is_completed_once_its_handler_has_ended(shared_site: Site) -> None:
    client = shared_site.client()
    os.mkfifo(gate := shared_site.folder / "gate")
    handle = await client.submit("later_apart", {"gate": str(gate)}, exclusive=True)
    token = await until(lambda: token_of(shared_site, handle.id), what="it has begun")
    with pytest.raises(WrongState) as caught:
        await client.complete_task(token)
    assert caught.value.reason == "NOT_DEFERRED"
    gate.write_text("go")
    await comes_to(shared_site, handle.id, DEFERRED)
    assert await client.complete_task(token, "after it") == SUCCESS
    assert await handle.result(60) == "after it"


async def test_it_outlives_its_worker_and_the_scheduler(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    worker = await site.start_worker("w")
    client = site.client()
    handle, token = await deferred(site, client)
    short, _ = await deferred(site, client, input={"wait_s": 6}, retry=Retry(max_attempts=1))
    worker.kill()
    worker = await site.start_worker("w")
    assert await (await client.submit("double", {"number": 1})).result(60) == {"double": 2}
    scheduler.kill()
    await site.start_scheduler()
    await site.wait_healthy("w")
    assert (await handle.status()).status == DEFERRED
    assert await worker.terminate() == 0, "it does not wait for what is deferred"
    assert (await short.wait(60)).status == TIMEOUT, "its wait goes on over a restart"
    assert await client.complete_task(token, {"at": "last"}) == SUCCESS
    assert await handle.result(60) == {"at": "last"}
    assert [each["what"] for each in executions(site) if each["task"] == handle.id] == ["start", "end"]


async def test_a_requeue_has_it_asked_anew(shared_site: Site) -> None:
    client = shared_site.client()
    handle, first = await deferred(shared_site, client)
    await client.requeue_task(handle.id)
    second = await until(lambda: token_of(shared_site, handle.id, 2), what="it is asked anew")
    await comes_to(shared_site, handle.id, DEFERRED)
    with pytest.raises(WrongState):
        await client.complete_task(first)
    assert await client.complete_task(second) == SUCCESS


@pytest.mark.parametrize("token", ["", "no-dot", "task.", ".token", "a" * 2_000])
async def test_what_is_no_token_is_refused_by_name(shared_site: Site, token: str) -> None:
    door = shared_site.door(shared_site.token())
    request = tasks.CompleteTaskRequest(token=token, status=SUCCESS)
    answer = await refused(door.tasks.CompleteTask(request, metadata=door.metadata))
    assert answer.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert answer.code == grpc.StatusCode.NOT_FOUND or "token" in answer.fields
