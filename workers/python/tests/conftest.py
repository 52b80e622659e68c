"""Fixtures of the worker's tests."""

from __future__ import annotations

import pytest

from taskyard_worker import TaskRegistry


@pytest.fixture
def registry() -> TaskRegistry:
    return TaskRegistry()
