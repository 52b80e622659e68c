"""How a run is shared between processes: file by file, long ones first; last, one by one, what needs every core.

A file stays whole and in order, so that what its tests share is made once. Without `-n` nothing of this applies.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ALONE = ("tests/simulation/", "tests/test_bench_runs.py")
"""What keeps all cores busy by itself, or measures: it runs when nothing else does."""

LONG = ("tests/", "python/cli/", "workers/")
"""Where the longest files are: with short ones at the end, the processes end at about the same time."""

LAST = "alone"
"""The name of the share that holds all of ALONE."""


class FileShares(LoadScopeScheduling):  # type: ignore[misc]  # xdist says nothing of its types to mypy
    """Gives each process one file after the other, and at last ALONE to the one process that is left."""

    def _split_scope(self, nodeid: str) -> str:
        return LAST if nodeid.startswith(ALONE) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if next(iter(self.workqueue)) != LAST or self.nodes == [node]:
            super()._assign_work_unit(node)
        elif any(not other.shutting_down for other in self.nodes if other is not node):
            node.shutdown()  # it ends what it has; the others are told the same, until one is left

    def remove_node(self, node: WorkerController) -> str | None:
        """Forgets a process that has ended; whoever waited for that goes on."""
        crashed: str | None = super().remove_node(node)
        for other in self.nodes:
            self._reschedule(other)
        return crashed


def place(nodeid: str) -> int:
    """Returns how late a test comes."""
    return 2 if nodeid.startswith(ALONE) else int(not nodeid.startswith(LONG))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileShares:
    config.option.loadscopereorder = False
    return FileShares(config, log)
