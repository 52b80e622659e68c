"""Fixtures of the client's tests."""

from __future__ import annotations

import pytest

from taskyard.v1 import workflows_pb2


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
