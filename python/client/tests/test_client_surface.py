"""The client covers the contract, and the sync client covers the async one."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from scripted_server import ScriptedServer

import taskyard_client as ty
from taskyard.v1 import artifacts_pb2, fleet_pb2, tasks_pb2, workflows_pb2
from taskyard_client import AsyncClient, Client, methods, new_task
from taskyard_client.artifact_calls import ArtifactCalls
from taskyard_client.blocking_artifacts import BlockingArtifacts
from taskyard_client.loop_thread import LoopThread
from taskyard_client.request_ids import RequestIds
from taskyard_client.transport import Method


def test_every_call_of_the_contract_is_there_with_its_types() -> None:
    ours = {method.path: method for method in vars(methods).values() if isinstance(method, Method)}
    for module in (tasks_pb2, workflows_pb2, fleet_pb2, artifacts_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for call in service.methods:
                method = ours.pop(f"/{service.full_name}/{call.name}")
                assert method.request.DESCRIPTOR is call.input_type
                assert method.response.DESCRIPTOR is call.output_type
    assert ours == {}


def test_a_call_changes_something_just_where_its_request_has_an_id() -> None:
    for method in (each for each in vars(methods).values() if isinstance(each, Method)):
        fields = method.request.DESCRIPTOR.fields
        messages = [method.request.DESCRIPTOR, *(field.message_type for field in fields if field.message_type)]
        assert method.changes == any("request_id" in each.fields_by_name for each in messages), method


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in {"close", "close_tasks", "close_runs"}
    }


def test_the_sync_client_has_the_same_methods_with_the_same_arguments() -> None:
    ours, theirs = public(Client), public(AsyncClient)
    assert ours.keys() == theirs.keys()
    for name, signature in theirs.items():
        assert list(ours[name].parameters)[1:] == list(signature.parameters)[1:], name


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(ty.BlockingTask, ty.TaskHandle), (ty.BlockingRun, ty.RunHandle), (BlockingArtifacts, ArtifactCalls)],
)
def test_a_sync_handle_has_the_same_methods_with_the_same_arguments(ours: type, theirs: type) -> None:
    arguments = [{name: each.parameters for name, each in public(kind).items()} for kind in (ours, theirs)]
    assert arguments[0] == arguments[1]


def test_the_sync_client_says_of_each_method_what_it_returns(server: ScriptedServer) -> None:
    told = {name: str(signature.return_annotation) for name, signature in public(Client).items()}
    assert [name for name, returns in told.items() if "Async" in returns or "Handle" in returns] == []
    assert "-> taskyard_client.blocking.BlockingTask" in pydoc.TextDoc().document(Client.submit)
    returns = inspect.signature(Client.list_tasks).return_annotation
    assert returns == Iterator[tasks_pb2.TaskInstance]
    with Client(server.address, "t") as client:
        task = client.submit("x")
        assert type(task) is inspect.signature(Client.submit).return_annotation
        assert isinstance(client.list_tasks(), Iterator)
        assert isinstance(task.logs(), Iterator)


def test_request_ids_are_ordered_by_time_unique_and_reproducible() -> None:
    now = iter(range(1_700_000_000_000, 1_700_000_000_100))
    ids = RequestIds(lambda: next(now), random.Random(1))
    made = [ids.one() for _ in range(50)]
    assert made == sorted(made)
    assert len(set(made)) == 50
    again = RequestIds(lambda: 1_700_000_000_000, random.Random(1))
    assert again.one() == made[0]


def test_the_sync_client_does_the_same(server: ScriptedServer) -> None:
    with Client(server.address, "t") as client:
        task = client.submit("x", {"a": 1})
        assert task.result(10) == {}
        assert task.status().task_id == task.id
        assert list(task.logs()) == []
        outcomes = client.submit_many([new_task("x"), new_task("x", priority=0)])
        assert outcomes[0].handle is not None
        assert outcomes[0].handle.wait(10).task_type == "x"
        assert isinstance(outcomes[1].error, ty.InvalidInput)
        assert len(list(client.list_tasks(page_size=1))) == 2
        assert next(client.list_tasks(page_size=1)).task_id == outcomes[0].handle.id
        with pytest.raises(ty.NotFound):
            client.get_task("no-such")
        with pytest.raises(ty.AlreadyEnded):
            task.cancel()
    client.close()
    with pytest.raises(ty.ClientClosed):
        client.submit("x")
    assert "taskyard-client" not in {thread.name for thread in threading.enumerate()}


def test_threads_may_share_a_sync_client(server: ScriptedServer) -> None:
    with Client(server.address, "t") as client, ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(lambda at: client.submit(f"t{at}").id, range(200)))
    assert len(set(ids)) == 200
    assert [server.model.tasks[task_id].task_type for task_id in ids] == [f"t{at}" for at in range(200)]


def test_an_interrupted_caller_leaves_nothing_running() -> None:
    thread = LoopThread("interrupted")
    started, cancelled = threading.Event(), threading.Event()

    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    main = threading.main_thread().ident or 0

    def interrupt() -> None:
        started.wait(10)
        # Not before it blocks: elsewhere an interrupt may strike a finalizer, and Python drops it there.
        while sys._current_frames()[main].f_code.co_name != "wait":
            time.sleep(0)
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        thread.run(long())
    other.join()
    assert cancelled.wait(10)
    thread.close()
