"""Ready queues: what waits for a worker, in order of time and priority, bounded in memory.

A queue holds tasks of one tenant, type, selector and resource shape, so that what no worker can take blocks nothing
else. Its hot head is in memory; what comes after the head is in SQL only and comes back by refill. Tasks that have a
deadline while they wait form queues of their own, which are in memory as a whole: that is where their timers are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

from taskyard_core.records import QUEUED, Instance, Policy

if TYPE_CHECKING:
    from taskyard_core.fleet import WorkerClass

HEAD_LIMIT = 10_000
HEAD_BYTES = 64 << 20
STALE_KEPT = 256
"""How many entries of tasks that wait no more a queue keeps beside as many as still wait."""
PRIORITY_STEP_MS = 60_000
"""How many milliseconds of waiting outweigh one step of priority."""

Key = tuple[int, str]
Entry = tuple[int, str, Instance]


def order_key(queued_at: int, priority: int) -> int:
    """Returns the place of a task in its queue: smaller goes first, so that waiting ages it by one step a minute."""
    return queued_at + PRIORITY_STEP_MS * priority


def queue_key(task_type: str, policy: Policy, *, expires: bool = False) -> str:
    """Returns the name of the ready queue within its tenant: the type, and a digest of what sets its tasks apart.

    That is what narrows the choice of workers, and whether they have a deadline while they wait.
    """
    if not (policy.selector or policy.asks or policy.waits or policy.worker or expires):
        return task_type
    shape = f"{policy.selector}\0{policy.cpu_millis}\0{policy.memory_mb}\0{policy.gpus}"
    if policy.waits or expires:
        shape += "\0deadline"
    if policy.worker:
        shape += f"\0worker\0{policy.worker}"
    return f"{task_type}#{blake2b(shape.encode(), digest_size=8).hexdigest()}"


class ReadyQueue:
    """The tasks of one shape that wait, smallest key first.

    `floor` is the smallest key that may be in SQL and not in memory; None when all is in memory. Everything at or
    beyond it stays in SQL until `wants_refill`; of tasks with deadlines only what a leader before this one left there.
    """

    __slots__ = (
        "classes", "deadlines", "fleet_version", "floor", "head_bytes", "heap", "held", "held_beyond", "held_min",
        "key", "line", "live", "open_min", "policy", "refilling", "spilled", "task_type", "tenant", "waiting",
    )  # fmt: skip

    def __init__(self, tenant: str, key: str, task_type: str, policy: Policy, *, deadlines: bool = False) -> None:
        self.tenant = tenant
        self.key = key
        self.task_type = task_type
        self.policy = policy
        self.deadlines = deadlines  # whether its tasks have one while they wait
        self.line: deque[Entry] = deque()  # ascending: what came in order, which is nearly all
        self.heap: list[Entry] = []  # what did not
        self.live = 0  # entries of both that still wait; the rest are dropped when met
        self.head_bytes = 0
        self.spilled = 0
        self.floor: Key | None = None
        self.open_min: Key | None = None  # smallest key spilled since the last seal, so not yet readable in SQL
        self.refilling = False
        self.classes: list[WorkerClass] = []  # those that may take from here, as of fleet_version
        self.fleet_version = -1
        self.waiting = False  # True while every class that matches is full
        self.held: dict[str, Instance] = {}  # by id: taken out of the line, since their run is held back
        self.held_beyond = 0  # how many of these are in SQL only
        self.held_min: Key | None = None  # the smallest key of those

    def __len__(self) -> int:
        return self.live + self.spilled + self.held_count

    @property
    def held_count(self) -> int:
        """How many are held back with their run."""
        return len(self.held) + self.held_beyond

    def push(self, instance: Instance) -> list[Instance]:
        """Adds a QUEUED instance. Returns those that leave memory for it (it itself, perhaps): they are in SQL only."""
        key = (instance.order_key, instance.id)
        whole = self.deadlines
        if self.floor is not None and key >= self.floor and not whole:
            self._spill(key)
            return [instance]
        entry = (*key, instance)
        if not self.line or self.line[-1] < entry:
            self.line.append(entry)
        else:
            heappush(self.heap, entry)
        self.live += 1
        self.head_bytes += _size(instance)
        if whole or (self.live <= HEAD_LIMIT and (self.head_bytes <= HEAD_BYTES or self.live == 1)):
            return []
        return self._shed()

    def peek(self) -> Instance | None:
        """Returns the first instance that still waits, or None."""
        line, heap = self.line, self.heap
        while line:
            key, _, instance = line[0]
            if instance.state == QUEUED and instance.order_key == key and instance.queue == self.key:
                break
            line.popleft()
        if not heap:
            return line[0][2] if line else None
        while heap and not self._waits_here(heap[0]):
            heappop(heap)
        first = self._first()
        return first[0][2] if first else None

    def pop(self) -> Instance:
        """Takes out what `peek` returned."""
        from_heap = self.heap and self._first() is self.heap
        instance = (heappop(self.heap) if from_heap else self.line.popleft())[2]
        self.live -= 1
        self.head_bytes -= _size(instance)
        return instance

    def hold(self) -> Instance | None:
        """Puts the first instance aside until `unhold`. Returns it when it leaves memory for it: it is in SQL only."""
        instance = self.pop()
        if self.deadlines or len(self.held) < HEAD_LIMIT:
            self.held[instance.id] = instance
            return None
        self._keep_beyond(1, (instance.order_key, instance.id))
        return instance

    def _keep_beyond(self, count: int, first: Key | None) -> None:
        """Counts what is held back and in SQL only, from a key on."""
        self.held_beyond += count
        self.held_min = first if self.held_min is None or first is None else min(self.held_min, first)

    def unhold(self) -> list[Instance]:
        """Gives back what was put aside, for the caller to push; what is in SQL only comes back by refill."""
        held = list(self.held.values())
        self.held.clear()
        if self.held_beyond:
            self._spill(self.held_min or (-(1 << 62), ""))
            self.spilled += self.held_beyond - 1
            self.held_beyond, self.held_min = 0, None
        return held

    def drop(self, instance: Instance) -> None:
        """Counts out an instance that stops waiting otherwise than by `pop`. Its entry is dropped when met."""
        if self.held.pop(instance.id, None) is not None:
            return
        self.live -= 1
        self.head_bytes -= _size(instance)
        if len(self.line) + len(self.heap) > 2 * self.live + STALE_KEPT:
            self.line = deque(entry for entry in self.line if _waits(entry) and entry[2] is not instance)
            self.heap = [entry for entry in self.heap if _waits(entry) and entry[2] is not instance]
            heapify(self.heap)

    def entries(self) -> Iterator[Entry]:
        """Gives what is in memory, in no order, also what does not wait any more."""
        return chain(self.line, self.heap)

    def _first(self) -> Sequence[Entry] | None:
        """Returns which of the two begins with the smallest key."""
        line, heap = self.line, self.heap
        if heap and (not line or heap[0] < line[0]):
            return heap
        return line or None

    def _waits_here(self, entry: Entry) -> bool:
        key, _, instance = entry
        return instance.state == QUEUED and instance.order_key == key and instance.queue == self.key

    def drop_stored(self) -> None:
        """Counts out an instance that stops waiting and is in SQL only."""
        if self.spilled:
            self.spilled -= 1
        elif self.held_beyond:
            self.held_beyond -= 1

    def wants_refill(self) -> bool:
        """Tells whether rows should be read back from SQL now."""
        room = self.live < HEAD_LIMIT // 2 and self.head_bytes < HEAD_BYTES // 2
        return self.spilled > 0 and not self.refilling and (room or self.deadlines)

    def sealed(self) -> None:
        """What was spilled so far is in a commit from now on."""
        self.open_min = None

    def refill_done(self, loaded: int, *, more: bool, last: Key | None, passed: bool = False) -> None:
        """Settles the floor after a refill.

        Args:
            loaded: How many rows came into memory.
            more: Whether SQL may hold rows beyond the last one read.
            last: Key of the last row read.
            passed: Whether rows that are held back with their run were passed over: what is left then is these.
        """
        self.refilling = False
        self.spilled = max(0, self.spilled - loaded)
        if passed and self.spilled and not more and self.open_min is None:
            self._keep_beyond(self.spilled, self.floor)
        beyond = (last[0], last[1] + "\0") if more and last is not None else None
        bounds = [key for key in (beyond, self.open_min) if key is not None]
        if not bounds:
            self.spilled = 0
        self.floor = min(bounds) if bounds else None

    def lower_floor(self, key: Key | None) -> None:
        """Notes that from this key on, too, rows may be in SQL only."""
        if key is not None and (self.floor is None or key < self.floor):
            self.floor = key

    def _spill(self, key: Key) -> None:
        self.spilled += 1
        self.lower_floor(key)
        if self.open_min is None or key < self.open_min:
            self.open_min = key

    def _shed(self) -> list[Instance]:
        """Leaves three quarters of the head in memory, the first ones."""
        entries = sorted(entry for entry in self.entries() if _waits(entry))
        kept, size = 0, 0
        while kept < len(entries) and kept < HEAD_LIMIT * 3 // 4 and size <= HEAD_BYTES * 3 // 4:
            size += _size(entries[kept][2])
            kept += 1
        leave = [entry[2] for entry in entries[kept:]]
        self.line, self.heap = deque(entries[:kept]), []
        self.live = kept
        self.head_bytes = size
        for instance in leave:
            self._spill((instance.order_key, instance.id))
        return leave


def _waits(entry: Entry) -> bool:
    return entry[2].state == QUEUED and entry[2].order_key == entry[0]


def _size(instance: Instance) -> int:
    return len(instance.params_json) + len(instance.input_json) + 1_000
