"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_server import ScriptedServer, TaskStatus

from taskyard.v1 import workflows_pb2
from taskyard_client.loop_thread import LoopThread


@pytest.fixture
def two_steps() -> workflows_pb2.Workflow:
    """A workflow `two` with the steps `a` and, after it, `b`."""
    return workflows_pb2.Workflow(
        name="two",
        steps=[
            workflows_pb2.WorkflowStep(id="a", task_type="x"),
            workflows_pb2.WorkflowStep(id="b", task_type="x", needs=["a"]),
        ],
    )


@pytest.fixture
def server_thread() -> Iterator[LoopThread]:
    """The loop of `server`."""
    thread = LoopThread("scripted-server")
    yield thread
    thread.close()


@pytest.fixture
def server(server_thread: LoopThread) -> Iterator[ScriptedServer]:
    """A scripted server on a loop of its own."""

    async def start() -> ScriptedServer:
        made = ScriptedServer()
        made.model.first_status = TaskStatus.TASK_STATUS_SUCCESS
        await made.start()
        return made

    running = server_thread.run(start())
    yield running
    server_thread.run(running.stop())
