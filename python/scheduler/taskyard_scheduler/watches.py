"""Who watches what, and what each has not yet seen. Fed with committed changes only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from taskyard_core.records import Instance, Row


@dataclass(eq=False, slots=True)
class Watch:
    """One watcher: changes that it has not taken yet, the latest of each thing.

    `instances` are (instance, its INSTANCE_UPDATE or INSTANCE_COLUMNS row) by id; `runs` are RUN_COLUMNS by id.
    """

    ids: frozenset[str]
    instances: dict[str, tuple[Instance, Row]] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    revision: int = 0
    ended: str | None = None
    event: asyncio.Event = field(default_factory=asyncio.Event)
    wake: Callable[[], None] | None = None

    def notify(self) -> None:
        """Makes `wait` return, and wakes who else is to be woken."""
        self.event.set()
        if self.wake is not None:
            self.wake()

    async def wait(self) -> None:
        """Returns when something has changed or the watch has been ended."""
        await self.event.wait()
        self.event.clear()

    def take(self) -> tuple[list[tuple[Instance, Row]], list[Row]]:
        """Takes what has changed since the last call."""
        instances, runs = list(self.instances.values()), list(self.runs.values())
        self.instances, self.runs = {}, {}
        return instances, runs


class Watches:
    """All watchers of this leader, by the ids of the instances and runs that they watch."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[Watch, None]] = {}
        self.count = 0
        self._ended: str | None = None

    def open(self, ids: Iterable[str], wake: Callable[[], None] | None = None) -> Watch:
        """Starts a watch of instances, or of runs with all their steps. Close it with `close`.

        After `end_all` it is one that has ended: nothing would ever be published to it.

        Args:
            ids: What is watched.
            wake: Called with each change, besides what `Watch.wait` does.
        """
        watch = Watch(frozenset(ids), wake=wake)
        for id in watch.ids:
            self._by_id.setdefault(id, {})[watch] = None
        self.count += 1
        if self._ended is not None:
            watch.ended = self._ended
            watch.notify()
        return watch

    def close(self, watch: Watch) -> None:
        """Ends a watch."""
        self.count -= 1
        for id in watch.ids:
            watchers = self._by_id[id]
            del watchers[watch]
            if not watchers:
                del self._by_id[id]

    def publish(self, revision: int, touched: Sequence[tuple[Instance, Row]], runs: Sequence[Row]) -> None:
        """Tells watchers what a commit changed."""
        by_id = self._by_id
        if not by_id:
            return
        for entry in touched:
            instance = entry[0]
            for watch in (*by_id.get(instance.id, ()), *(by_id.get(instance.run_id, ()) if instance.run_id else ())):
                watch.instances[instance.id] = entry
                watch.revision = revision
                watch.notify()
        for row in runs:
            for watch in by_id.get(row[1], ()):
                watch.runs[row[1]] = row
                watch.revision = revision
                watch.notify()

    def end_all(self, reason: str) -> None:
        """Ends every watch, those that are yet to be opened too: the watchers must come again, here or elsewhere."""
        self._ended = reason
        for watchers in self._by_id.values():
            for watch in watchers:
                watch.ended = reason
                watch.notify()
