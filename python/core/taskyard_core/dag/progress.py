"""How far a run has come: which step is ready, skipped or out of reach. Pure; knows neither work nor time.

Decisions do not depend on the order in which upstream steps end, so a restored or replayed run comes out the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from taskyard_core.dag.graph import Graph
from taskyard_core.dag.rules import (
    AT_LAST,
    AT_ONCE,
    CANCELLED,
    DECISIONS,
    FAILED,
    OUT_OF_REACH,
    READY,
    SAW_FAILURE,
    SEEN,
    SUCCESS,
    WAITING,
    Decision,
    InvalidTransition,
    RunOutcome,
    StepOutcome,
    StepState,
)


class Progress:
    """How far one run has come: a byte of state for each step and what its undecided steps still wait for."""

    __slots__ = ("_graph", "_open", "_pending", "_seen", "_states")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._states = bytearray(len(graph))
        self._pending = graph.upstream_counts[:]
        self._seen = bytearray(len(graph))
        self._open = len(graph)

    @property
    def finished(self) -> bool:
        """Whether every step has ended."""
        return not self._open

    @property
    def ended(self) -> int:
        """How many steps have ended."""
        return len(self._states) - self._open

    def state(self, step: int) -> StepState:
        """Return where a step stands."""
        return StepState(self._states[step])

    def states(self) -> list[StepState]:
        """Return where each step stands; `restore` takes it back."""
        return [StepState(state) for state in self._states]

    def start(self) -> list[int]:
        """Make the steps without upstream ready and return them.

        Raises:
            InvalidTransition: The run has started already.
        """
        roots = list(self._graph.roots)
        begun = next((step for step in roots if self._states[step] != WAITING), None)
        if begun is not None:
            raise InvalidTransition(f"{self._story(begun)}: the run has started already")
        for step in roots:
            self._states[step] = READY
        return roots

    def end(self, step: int, outcome: StepOutcome) -> list[tuple[int, Decision]]:
        """Record how a step ended and return every step that this decides, in order.

        A step decided as SKIP or UPSTREAM_FAILED has ended with that, and what it decides follows in the same
        list. A step that waits may end from outside, but for a failure: it has not run.

        Raises:
            InvalidTransition: The step has ended before, or it waits and the outcome says that it failed.
        """
        state = self._states[step]
        if state != READY and (state != WAITING or outcome in (FAILED, OUT_OF_REACH)):
            raise InvalidTransition(f"{self._story(step)}: it cannot end as {StepOutcome(outcome).name}")
        self._states[step] = outcome
        self._open -= 1
        decided: list[tuple[int, Decision]] = []
        self._tell(step, decided)
        for other, decision in decided:  # grows while it is walked
            if decision != READY:
                self._tell(other, decided)
        return decided

    def cancel(self) -> list[int]:
        """End every undecided step as CANCELLED and return them; those that are ready end by `end`."""
        waiting = [step for step, state in enumerate(self._states) if state == WAITING]
        for step in waiting:
            self._states[step] = CANCELLED
        self._open -= len(waiting)
        return waiting

    def outcome(self) -> RunOutcome:
        """Return how the finished run ended: FAILED when a leaf failed, could not run or was cancelled.

        Raises:
            InvalidTransition: Some step has not ended.
        """
        if self._open:
            raise InvalidTransition(f"the run has no outcome yet: {self._open} steps have not ended")
        failed = any(SEEN[self._states[leaf]] == SAW_FAILURE for leaf in self._graph.leaves)
        return RunOutcome.FAILED if failed else RunOutcome.SUCCESS

    def restore(self, states: Iterable[int]) -> list[tuple[int, Decision]]:
        """Take over the stored state of every step of a run that has started.

        Args:
            states: A `StepState` for each step, in the graph's order.

        Returns:
            The decisions that follow from the states and that the states do not show yet: none, when each end
            was stored together with what it decided.

        Raises:
            ValueError: The number of states is not the number of steps, or one is no state.
        """
        stored = bytes(states)
        if len(stored) != len(self._graph) or any(state > CANCELLED for state in stored):
            raise ValueError(f"{len(stored)} states do not fit a graph of {len(self._graph)} steps")
        self._states[:] = stored
        decided: list[tuple[int, Decision]] = []
        for step in self._graph.order:
            if self._states[step] == WAITING:
                self._decide(step, self._judge(step), decided)
        self._open = sum(state <= READY for state in self._states)
        return decided

    def reopen(self, steps: Iterable[int], *, unbegun: Iterable[int] = (), redo_downstream: bool = False) -> list[int]:
        """Undo the end of steps that are to be run again, and what followed from it.

        Downstream steps that ended as SKIPPED, UPSTREAM_FAILED or CANCELLED wait again, unless another
        upstream step still decides them so. Steps that ran keep their result, unless `redo_downstream`.

        Args:
            steps: Ended steps to run again. They wait for those of them that are above them and for nothing
                else, whatever their rules say by now: a person wants what ran once to run again.
            unbegun: Ended steps that never began, and may begin now if what is above them lets them.
            redo_downstream: Run everything downstream again too.

        Returns:
            The steps undone, each after its upstream. Those that may run now are READY, the others WAITING.

        Raises:
            InvalidTransition: One of the steps has not ended, or one to be redone runs. Nothing is undone.
        """
        wanted = set(steps)
        before = bytes(self._states)
        undone = self._undo(wanted, set(unbegun), redo_downstream)
        if undone is None:
            self._states[:] = before
            raise InvalidTransition("a step that has not ended cannot be run again; wait for its end or cancel it")
        for step in {below for above in undone for below in (above, *self._graph.downstream[above])}:
            if self._states[step] == WAITING:
                self._judge(step)
        self._open += sum(before[step] > READY for step in undone)
        return undone

    def _undo(self, wanted: set[int], unbegun: set[int], redo: bool) -> list[int] | None:
        """Walk down in topological order; None when a running one is in the way."""
        graph, states = self._graph, self._states
        queued = wanted | unbegun
        queue = [graph.rank[step] for step in queued]
        heapify(queue)
        undone: list[int] = []
        again: set[int] = set()  # what is wanted, and what is undone below it
        while queue:
            step = graph.order[heappop(queue)]
            chosen = step in wanted
            if states[step] <= READY and (chosen or (redo and states[step] == READY)):
                return None
            follows = not again.isdisjoint(graph.upstream[step])
            if states[step] > READY and self._undo_one(step, chosen, follows, step in unbegun or redo):
                undone.append(step)
                if chosen or follows:
                    again.add(step)
            elif states[step] != WAITING or not redo:
                continue
            for child in graph.downstream[step]:
                if child not in queued:
                    queued.add(child)
                    heappush(queue, graph.rank[child])
        return undone

    def _undo_one(self, step: int, chosen: bool, follows: bool, may_begin: bool) -> bool:
        """Undo one ended step, whose upstream is settled; return False when its end stands."""
        following = self._judge(step)
        if chosen:
            self._states[step] = READY if following or not follows else WAITING
            return True
        if self._states[step] in (SUCCESS, FAILED) and not may_begin:
            return False
        if following > READY or (following == READY and not may_begin):
            return False  # decided so by upstream steps that are not undone
        self._states[step] = following
        return True

    def _tell(self, step: int, decided: list[tuple[int, Decision]]) -> None:
        """Tell the steps downstream of one that has ended."""
        states, pending, seen, rules = self._states, self._pending, self._seen, self._graph.rule_codes
        outcome = states[step]
        for child in self._graph.downstream[step]:
            if states[child] != WAITING:
                continue
            pending[child] -= 1
            seen[child] |= SEEN[outcome]
            following = AT_ONCE[rules[child]][outcome]
            if not following and not pending[child]:
                following = AT_LAST[rules[child]][seen[child]]
            self._decide(child, following, decided)

    def _decide(self, step: int, following: int, decided: list[tuple[int, Decision]]) -> None:
        if not following:
            return
        self._states[step] = following
        if following != READY:
            self._open -= 1
        decided.append((step, DECISIONS[following]))

    def _judge(self, step: int) -> int:
        """Count afresh what a step waits for; return the state that follows for it, 0 when undecided."""
        states, code = self._states, self._graph.rule_codes[step]
        pending = seen = following = 0
        for parent in self._graph.upstream[step]:
            state = states[parent]
            pending += state <= READY
            seen |= SEEN[state]
            following = following or AT_ONCE[code][state]
        self._pending[step] = pending
        self._seen[step] = seen
        if following or pending:
            return following
        return AT_LAST[code][seen] if self._graph.upstream[step] else READY

    def _story(self, step: int) -> str:
        return f"step {self._graph.ids[step]!r} is {self.state(step).name}"
