"""The whole client over an unreliable scheduler in virtual time: one seed, one history; no promise broken in any."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from virtual_loop import run_virtually

from taskyard.v1 import tasks_pb2 as pb
from taskyard_client import AsyncClient, InvalidInput, NotFound, new_task
from taskyard_client.errors import TaskyardError
from taskyard_client.statuses import error_of
from taskyard_client.transport import Method

SUCCESS, QUEUED = pb.TaskStatus.TASK_STATUS_SUCCESS, pb.TaskStatus.TASK_STATUS_QUEUED


class Unreliable:
    """A transport to a model: calls fail before or after they took effect, streams are cut, answers are late.

    No call fails more often than the client tries, so every call must succeed in the end.
    """

    address = "model:1"

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.revision = 0
        self.tasks: dict[str, pb.TaskInstance] = {}
        self.by_request: dict[str, str] = {}
        self.trace = hashlib.sha256()
        self.faults = 0
        self._failed: dict[bytes, int] = {}
        self._changed = asyncio.Condition()
        self._ends: list[asyncio.Task[None]] = []

    def _fault(self, key: bytes) -> bool:
        if self.rng.random() < 0.7 or self._failed.get(key, 0) == 3:
            return False
        self._failed[key] = self._failed.get(key, 0) + 1
        self.faults += 1
        return True

    def _note(self, *facts: object) -> None:
        self.trace.update(repr((asyncio.get_running_loop().time(), *facts)).encode())

    def _lost(self, word: str) -> TaskyardError:
        self._note(word)
        return error_of("UNAVAILABLE", word, address=self.address)

    async def unary(self, method: Method[Any, Any], request: Any, timeout: float) -> Any:
        key = request.SerializeToString(deterministic=True)
        self._note(str(method), key)
        await asyncio.sleep(self.rng.random() * 0.01)
        if self._fault(key):
            raise self._lost("before")
        response = self._submit(request) if method.name == "SubmitTasks" else self._get(request)
        await asyncio.sleep(self.rng.random() * 0.01)
        if self._fault(key):
            raise self._lost("after")
        return response

    def _get(self, request: pb.GetTaskRequest) -> pb.GetTaskResponse:
        return pb.GetTaskResponse(task=self.tasks[request.task_id])

    def _submit(self, request: pb.SubmitTasksRequest) -> pb.SubmitTasksResponse:
        response = pb.SubmitTasksResponse()
        for task in request.tasks:
            assert task.request_id
            outcome = response.outcomes.add(request_id=task.request_id)
            if task.priority == 11:
                outcome.refusal.reason, outcome.refusal.message = "INVALID_INPUT", "bad priority"
                continue
            if task.request_id not in self.by_request:
                task_id = f"task-{len(self.tasks)}"
                self.by_request[task.request_id] = task_id
                self.revision += 1
                self.tasks[task_id] = pb.TaskInstance(
                    task_id=task_id, task_type=task.task_type, status=QUEUED, revision=self.revision
                )
                work = self._end_later(self.tasks[task_id], self.rng.random() * 3)
                self._ends.append(asyncio.get_running_loop().create_task(work))
            outcome.task_id = self.by_request[task.request_id]
        return response

    async def _end_later(self, task: pb.TaskInstance, delay: float) -> None:
        await asyncio.sleep(delay)
        self.revision += 1
        task.status, task.output_json, task.revision = SUCCESS, f'"{task.task_type}"', self.revision
        async with self._changed:
            self._changed.notify_all()

    async def stream(self, method: Method[Any, Any], request: Any) -> AsyncGenerator[Any, None]:
        key = request.SerializeToString(deterministic=True)
        self._note(str(method), key)
        await asyncio.sleep(self.rng.random() * 0.01)
        if unknown := [task_id for task_id in request.task_ids if task_id not in self.tasks]:
            facts = {"task_id": unknown[0]} if self.rng.random() < 0.5 else {}
            raise error_of("NOT_FOUND", "no such task", address=self.address, reason="TASK_NOT_FOUND", facts=facts)
        seen, left = request.after_revision, set(request.task_ids)
        while left:
            if self._fault(key):
                raise self._lost("cut")
            news = [self.tasks[each] for each in request.task_ids if self.tasks[each].revision > seen]
            left -= {task.task_id for task in news if task.status == SUCCESS}
            seen = self.revision
            response = pb.WatchTasksResponse(revision=seen)
            response.tasks.extend(news)
            yield response
            async with self._changed:
                if left:
                    await self._changed.wait_for(functools.partial(self._newer, seen))

    def _newer(self, seen: int) -> bool:
        return self.revision > seen

    async def close(self) -> None:
        await asyncio.gather(*self._ends)


def history(seed: int) -> tuple[str, int]:
    """Runs one history; returns its trace's hash and how many faults it had."""
    rng = random.Random(seed)

    async def scenario() -> tuple[str, int]:
        model = Unreliable(rng)
        accepted: list[str] = []
        async with AsyncClient("", None, transport=model, rng=rng, wall=lambda: 1_700_000_000_000) as client:

            async def single(name: str) -> None:
                await asyncio.sleep(rng.random())
                task = await client.submit(name)
                accepted.append(task.id)
                assert await task.result() == name

            async def many(name: str) -> None:
                await asyncio.sleep(rng.random())
                tasks = [new_task(f"{name}-{at}", priority=11 if at == 3 else None) for at in range(6)]
                outcomes = await client.submit_many(tasks)
                assert isinstance(outcomes[3].error, InvalidInput)
                ids = [outcome.handle.id for outcome in outcomes if outcome.handle]
                accepted.extend(ids)
                ends = await client.wait_tasks(ids)
                assert [ends[task_id].task_type for task_id in ids] == [f"{name}-{at}" for at in (0, 1, 2, 4, 5)]

            async def unknown() -> None:
                await asyncio.sleep(rng.random())
                with pytest.raises(NotFound):
                    await client.wait_task("no-such")

            async def impatient(name: str) -> None:
                task = await client.submit(name)
                accepted.append(task.id)
                waiting = asyncio.ensure_future(task.wait())
                await asyncio.sleep(rng.random() * 0.1)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

            await asyncio.gather(
                *(single(f"s{at}") for at in range(12)),
                *(many(f"m{at}") for at in range(4)),
                *(impatient(f"i{at}") for at in range(3)),
                unknown(),
            )
        assert sorted(accepted) == sorted(model.tasks), "each accepted task exists once, and no other does"
        return model.trace.hexdigest(), model.faults

    return run_virtually(scenario())


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_over_many_histories_nothing_is_lost_or_doubled(first: int) -> None:
    faults = [history(seed)[1] for seed in range(first, first + 10)]
    assert min(faults) > 5


def test_one_seed_is_one_history() -> None:
    assert history(7) == history(7)
    assert history(7) != history(8)
