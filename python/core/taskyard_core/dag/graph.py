"""One version of a workflow's steps as an immutable graph of indices. Knows nothing of any run."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from taskyard_core.dag.links import Links
from taskyard_core.dag.rules import RULE_CODES, TriggerRule
from taskyard_core.dag.validation import validate
from taskyard_core.violations import InvalidInput

REACH_BITS = 4_096
"""Steps whose reach is found in one pass; bounds the memory of `Graph.upstream_pairs`."""


class Graph:
    """One version of a workflow's steps, built once and shared by its runs. Immutable.

    Attributes:
        ids: Each step's id, in the order of the definition; everything else speaks of steps by index into it.
        index: Each id's index.
        upstream: For each step the steps that it waits for.
        downstream: For each step the steps that wait for it.
        rules: For each step its trigger rule.
        roots: Steps without upstream.
        leaves: Steps without downstream; they decide the run's outcome.
        order: All steps, each after its upstream.
        rank: For each step its place in `order`.
        depth: For each step the length of the longest way to it from a root.
        upstream_counts: For each step how many it waits for.
    """

    __slots__ = (
        "depth", "downstream", "ids", "index", "leaves", "order", "rank", "roots", "rule_codes", "rules",
        "upstream", "upstream_counts",
    )  # fmt: skip

    def __init__(self, steps: Sequence[tuple[str, Sequence[str], TriggerRule]]) -> None:
        """Build the graph.

        Args:
            steps: Each step's id, the ids of its upstream steps and its trigger rule.

        Raises:
            InvalidInput: `validate` finds something.
        """
        bare = [(step, upstream) for step, upstream, _ in steps]
        violations = validate(bare)
        if violations:
            raise InvalidInput(violations)
        links = Links(bare)
        self.ids = tuple(step for step, _, _ in steps)
        self.index = links.index
        self.upstream = links.upstream
        self.downstream = links.downstream
        self.rules = tuple(TriggerRule(rule) for _, _, rule in steps)
        self.rule_codes = bytes(RULE_CODES[rule] for rule in self.rules)
        self.upstream_counts = array("i", map(len, links.upstream))
        self.roots = tuple(number for number, above in enumerate(links.upstream) if not above)
        self.leaves = tuple(number for number, below in enumerate(links.downstream) if not below)
        self.order = tuple(links.order())
        self.rank = array("i", bytes(4 * len(steps)))
        self.depth = array("i", bytes(4 * len(steps)))
        for place, number in enumerate(self.order):
            self.rank[number] = place
            self.depth[number] = max((self.depth[parent] + 1 for parent in self.upstream[number]), default=0)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.ids)

    def ancestors(self, step: int) -> set[int]:
        """Return every step that `step` waits for, directly or through others."""
        seen: set[int] = set()
        pending = list(self.upstream[step])
        while pending:
            number = pending.pop()
            if number not in seen:
                seen.add(number)
                pending.extend(self.upstream[number])
        return seen

    def upstream_of(self, step: int) -> set[str]:
        """Return the ids of every step that `step` waits for, directly or through others."""
        return {self.ids[number] for number in self.ancestors(step)}

    def upstream_pairs(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return those `(above, step)` in which `step` waits for `above`, directly or through others.

        Answers questions in bulk: a pass over the graph for every few thousand distinct `above`, so that
        100,000 steps that each speak of a distant one take seconds, not an hour.
        """
        by_step: dict[int, set[int]] = {}
        for above, step in pairs:
            by_step.setdefault(step, set()).add(above)
        asked: dict[int, list[int]] = {}
        found: set[tuple[int, int]] = set()
        for step, aboves in by_step.items():
            direct = aboves.intersection(self.upstream[step])
            found.update((above, step) for above in direct)
            for above in aboves - direct:
                asked.setdefault(above, []).append(step)
        sources = list(asked)
        for start in range(0, len(sources), REACH_BITS):
            chunk = sources[start : start + REACH_BITS]
            masks = self._reach(chunk)
            for bit, above in enumerate(chunk):
                found.update((above, step) for step in asked[above] if masks[step] >> bit & 1)
        return found

    def _reach(self, sources: Sequence[int]) -> list[int]:
        """Return for each step a number whose bit n says that it waits for the n-th of the sources."""
        own = {source: 1 << bit for bit, source in enumerate(sources)}
        masks = [0] * len(self.ids)
        for step in self.order:
            mask = 0
            for parent in self.upstream[step]:
                mask |= masks[parent] | own.get(parent, 0)
            masks[step] = mask
        return masks
