"""Who waits for whom, as indices: topological order and cycles in linear time, without recursion."""

from __future__ import annotations

from collections.abc import Sequence


class Links:
    """Upstream and downstream indices of steps whose dependencies name known, other steps once."""

    def __init__(self, steps: Sequence[tuple[str, Sequence[str]]]) -> None:
        index = {step: number for number, (step, _) in enumerate(steps)}
        self.index = index
        self.upstream = tuple(tuple([index[name] for name in names]) for _, names in steps)
        downstream: list[list[int]] = [[] for _ in steps]
        for number, above in enumerate(self.upstream):
            for parent in above:
                downstream[parent].append(number)
        self.downstream = tuple(map(tuple, downstream))

    def order(self) -> list[int]:
        """Return the steps, each after its upstream; those on and behind a cycle are left out."""
        open_upstream = [len(above) for above in self.upstream]
        order = [number for number, count in enumerate(open_upstream) if not count]
        for number in order:  # grows while it is walked
            for child in self.downstream[number]:
                open_upstream[child] -= 1
                if not open_upstream[child]:
                    order.append(child)
        return order

    def cycle(self) -> list[int]:
        """Return the steps of one cycle, each upstream of the next, or nothing when there is none."""
        left = set(range(len(self.upstream))).difference(self.order())
        if not left:
            return []
        number = min(left)
        place: dict[int, int] = {}
        path: list[int] = []
        while number not in place:  # every step left over has an upstream step that is left over
            place[number] = len(path)
            path.append(number)
            number = next(parent for parent in self.upstream[number] if parent in left)
        return path[place[number] :][::-1]
