"""Progress of runs against a model that looks at everything again after every end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_core.dag import (
    Decision,
    Graph,
    InvalidTransition,
    Progress,
    RunOutcome,
    StepOutcome,
    StepState,
    TriggerRule,
)

RAN = (StepOutcome.SUCCESS, StepOutcome.FAILED, StepOutcome.SKIPPED, StepOutcome.CANCELLED)
S = StepState
Rules = TriggerRule


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(0, 10))
    steps = []
    for number in range(size):
        upstream = sorted(draw(st.sets(st.integers(0, number - 1), max_size=4))) if number else []
        steps.append((f"s{number}", [f"s{n}" for n in upstream], draw(st.sampled_from(TriggerRule))))
    return Graph(draw(st.permutations(steps)))


def expected(rule: TriggerRule, upstream: list[StepState]) -> StepState:
    """Decide as the rules are written down, from scratch."""
    ended = all(state > S.READY for state in upstream)
    failed = any(state in (S.FAILED, S.UPSTREAM_FAILED, S.CANCELLED) for state in upstream)
    skipped = S.SKIPPED in upstream
    if not upstream:
        return S.READY
    if rule is Rules.ALL_DONE:
        return S.READY if ended else S.WAITING
    if rule is Rules.ONE_SUCCESS:
        if S.SUCCESS in upstream:
            return S.READY
        return S.WAITING if not ended else S.UPSTREAM_FAILED if failed else S.SKIPPED
    if rule is Rules.ONE_FAILED:
        if S.FAILED in upstream or S.UPSTREAM_FAILED in upstream:
            return S.READY
        return S.SKIPPED if ended else S.WAITING
    if failed:
        return S.UPSTREAM_FAILED
    if not ended:
        return S.WAITING
    return S.SKIPPED if skipped and rule is Rules.ALL_SUCCESS else S.READY


def settle(graph: Graph, states: list[StepState]) -> set[int]:
    """Apply the rules until nothing changes; return what changed."""
    changed: set[int] = set()
    moved = True
    while moved:
        moved = False
        for step, state in enumerate(states):
            if state is S.WAITING:
                states[step] = expected(graph.rules[step], [states[parent] for parent in graph.upstream[step]])
                if states[step] is not S.WAITING:
                    changed.add(step)
                    moved = True
    return changed


def running(progress: Progress) -> list[int]:
    return [step for step, state in enumerate(progress.states()) if state is S.READY]


def check_restored(graph: Graph, progress: Progress) -> Progress:
    copy = Progress(graph)
    assert copy.restore(progress.states()) == []
    assert copy.finished == progress.finished
    assert copy.ended == progress.ended
    return copy


@given(graphs(), st.data())
def test_every_end_decides_what_the_rules_say(graph: Graph, data: st.DataObject) -> None:
    progress = Progress(graph)
    model = [S.WAITING] * len(graph)
    assert set(progress.start()) == settle(graph, model)
    decided: set[int] = set()
    while ready := running(progress):
        assert not progress.finished
        step = data.draw(st.sampled_from(ready))
        outcome = data.draw(st.sampled_from(RAN))
        decisions = progress.end(step, outcome)
        model[step] = S(outcome)
        assert {other for other, _ in decisions} == settle(graph, model)
        assert [S(decision) for _, decision in decisions] == [model[other] for other, _ in decisions]
        assert not decided.intersection(other for other, _ in decisions), "decided twice"
        decided.update(other for other, _ in decisions)
        assert progress.states() == model
        if data.draw(st.booleans()):
            progress = check_restored(graph, progress)
    assert progress.finished
    bad = {S.FAILED, S.UPSTREAM_FAILED, S.CANCELLED}
    failed = any(model[leaf] in bad for leaf in graph.leaves)
    assert progress.outcome() is (RunOutcome.FAILED if failed else RunOutcome.SUCCESS)


@given(graphs(), st.randoms(use_true_random=False), st.data())
def test_the_order_of_the_ends_changes_nothing(graph: Graph, order: random.Random, data: st.DataObject) -> None:
    outcomes = [data.draw(st.sampled_from(RAN)) for _ in graph.ids]
    results = []
    for _ in range(3):
        progress = Progress(graph)
        progress.start()
        while ready := running(progress):
            step = order.choice(ready)
            progress.end(step, outcomes[step])
        results.append(progress.states())
    assert results[0] == results[1] == results[2]


@given(graphs(), st.data())
@settings(max_examples=300)
def test_reopened_steps_and_all_that_followed_from_them_wait_or_run(graph: Graph, data: st.DataObject) -> None:
    progress = Progress(graph)
    progress.start()
    for _ in range(data.draw(st.integers(0, 12))):
        if ready := running(progress):
            progress.end(data.draw(st.sampled_from(ready)), data.draw(st.sampled_from(RAN)))
    before = progress.states()
    failed = [step for step, state in enumerate(before) if state is S.FAILED]
    if not failed:
        return
    chosen = data.draw(st.sets(st.sampled_from(failed), min_size=1))
    undone = progress.reopen(chosen)
    after = progress.states()
    assert chosen <= set(undone)
    assert sorted(undone, key=lambda step: graph.rank[step]) == undone
    for step, (old, new) in enumerate(zip(before, after, strict=True)):
        if step not in undone:
            assert new is old
            continue
        assert new is (S.READY if new is S.READY and step in chosen else S.WAITING)
        assert step in chosen or old in (S.SKIPPED, S.UPSTREAM_FAILED, S.CANCELLED)
    stuck = [step for step in undone if after[step] is S.WAITING]
    assert all(any(after[parent] <= S.READY for parent in graph.upstream[step]) for step in stuck)
    assert check_restored(graph, progress).states() == after
    finish_with_success(graph, progress)


@given(graphs(), st.data())
@settings(max_examples=300)
def test_what_ran_once_can_be_run_again_at_any_time(graph: Graph, data: st.DataObject) -> None:
    progress = Progress(graph)
    progress.start()
    begun = set(running(progress))  # steps that have something to run, as an instance is
    for _ in range(data.draw(st.integers(0, 25))):
        states = progress.states()
        ended = [step for step in sorted(begun) if states[step] in (S.SUCCESS, S.FAILED, S.CANCELLED)]
        ready = running(progress)
        if ended and (not ready or data.draw(st.booleans())):
            step = data.draw(st.sampled_from(ended))
            never_begun = [n for n, state in enumerate(states) if state is S.CANCELLED and n not in begun]
            undone = progress.reopen([step], unbegun=never_begun)
            assert step in undone
            assert progress.state(step) is S.READY
            begun.difference_update(set(undone) - {step})
        elif ready and data.draw(st.integers(0, 4)) > 0:
            progress.end(data.draw(st.sampled_from(ready)), data.draw(st.sampled_from(RAN)))
        else:
            progress.cancel()
        begun.update(running(progress))
        check_restored(graph, progress)
    while ready := running(progress):
        progress.end(ready[0], StepOutcome.SUCCESS)
    assert progress.finished


def finish_with_success(graph: Graph, progress: Progress) -> None:
    """Let all that is left succeed; the counters must still agree with the rules."""
    model = progress.states()
    while ready := running(progress):
        decisions = progress.end(ready[0], StepOutcome.SUCCESS)
        model[ready[0]] = S.SUCCESS
        assert {step for step, _ in decisions} == settle(graph, model)
        assert progress.states() == model
    assert progress.finished


@given(graphs(), st.data())
def test_redoing_a_run_from_a_root_redoes_all_below(graph: Graph, data: st.DataObject) -> None:
    progress = Progress(graph)
    progress.start()
    while ready := running(progress):
        progress.end(ready[0], StepOutcome.SUCCESS)
    if not len(graph):
        return
    root = data.draw(st.sampled_from(graph.roots))
    below = {step for step in range(len(graph)) if root in graph.ancestors(step)}
    assert set(progress.reopen([root], redo_downstream=True)) == below | {root}
    check_restored(graph, progress)
    finish_with_success(graph, progress)


def chain(*rules: TriggerRule) -> Progress:
    """A first step `a`, and after it a chain with the rules given."""
    names = "abcdefgh"
    steps = [("a", list[str](), Rules.ALL_SUCCESS)]
    steps += [(names[n], [names[n - 1]], rule) for n, rule in enumerate(rules, 1)]
    progress = Progress(Graph(steps))
    assert progress.start() == [0]
    return progress


def test_a_failure_cascades_down_to_the_step_that_cleans_up() -> None:
    progress = chain(Rules.ALL_SUCCESS, Rules.NONE_FAILED, Rules.ALL_DONE)
    assert progress.end(0, StepOutcome.FAILED) == [
        (1, Decision.UPSTREAM_FAILED),
        (2, Decision.UPSTREAM_FAILED),
        (3, Decision.READY),
    ]
    progress.end(3, StepOutcome.SUCCESS)
    assert progress.outcome() is RunOutcome.SUCCESS, "the leaf decides"


def test_a_skip_passes_through_all_success_and_stops_at_none_failed() -> None:
    progress = chain(Rules.ALL_SUCCESS, Rules.NONE_FAILED)
    assert progress.end(0, StepOutcome.SKIPPED) == [(1, Decision.SKIP), (2, Decision.READY)]


def test_a_long_cascade_needs_no_recursion() -> None:
    size = 50_000
    steps = [(f"s{n}", [f"s{n - 1}"] if n else [], Rules.ALL_SUCCESS) for n in range(size)]
    progress = Progress(Graph(steps))
    progress.start()
    assert len(progress.end(0, StepOutcome.FAILED)) == size - 1
    assert progress.finished
    assert progress.outcome() is RunOutcome.FAILED
    assert progress.reopen([0]) == list(range(size))
    assert (progress.ended, progress.state(0), progress.state(1)) == (0, S.READY, S.WAITING)


def test_a_step_ends_once_and_only_when_it_was_ready() -> None:
    progress = chain(Rules.ALL_SUCCESS)
    for outcome in (StepOutcome.FAILED, StepOutcome.UPSTREAM_FAILED):
        with pytest.raises(InvalidTransition, match=f"'b' is WAITING: it cannot end as {outcome.name}"):
            progress.end(1, outcome)
    progress.end(0, StepOutcome.SUCCESS)
    with pytest.raises(InvalidTransition, match="'a' is SUCCESS: it cannot end as FAILED"):
        progress.end(0, StepOutcome.FAILED)
    with pytest.raises(InvalidTransition, match="started already"):
        progress.start()
    with pytest.raises(InvalidTransition, match="1 steps have not ended"):
        progress.outcome()
    assert progress.states() == [S.SUCCESS, S.READY]


def test_cancelling_ends_what_waits_and_leaves_what_runs() -> None:
    progress = chain(Rules.ALL_DONE, Rules.ALL_DONE)
    assert progress.cancel() == [1, 2]
    assert not progress.finished
    assert progress.end(0, StepOutcome.CANCELLED) == []
    assert progress.outcome() is RunOutcome.FAILED
    assert progress.reopen([0]) == [0, 1, 2]
    assert progress.states() == [S.READY, S.WAITING, S.WAITING]


def test_a_step_that_waits_may_be_cancelled_or_skipped_alone() -> None:
    progress = chain(Rules.ALL_SUCCESS, Rules.ALL_SUCCESS)
    assert progress.end(1, StepOutcome.CANCELLED) == [(2, Decision.UPSTREAM_FAILED)]
    assert progress.end(0, StepOutcome.SUCCESS) == []
    assert progress.finished


def test_a_step_still_out_of_reach_through_another_stays_so() -> None:
    graph = Graph([("a", [], Rules.ALL_SUCCESS), ("b", [], Rules.ALL_SUCCESS), ("c", ["a", "b"], Rules.ALL_SUCCESS)])
    progress = Progress(graph)
    progress.start()
    progress.end(0, StepOutcome.FAILED)
    progress.end(1, StepOutcome.FAILED)
    assert progress.reopen([0]) == [0]
    assert progress.reopen([1]) == [1, 2]
    progress.end(0, StepOutcome.SUCCESS)
    assert progress.end(1, StepOutcome.SUCCESS) == [(2, Decision.READY)]


def test_what_runs_cannot_be_reopened_and_nothing_changes_then() -> None:
    progress = chain(Rules.ALL_DONE)
    progress.end(0, StepOutcome.FAILED)
    with pytest.raises(InvalidTransition, match="has not ended"):
        progress.reopen([0], redo_downstream=True)
    with pytest.raises(InvalidTransition, match="has not ended"):
        progress.reopen([1])
    assert progress.states() == [S.FAILED, S.READY]


def test_an_empty_run_has_finished_well() -> None:
    progress = Progress(Graph([]))
    assert progress.start() == []
    assert progress.finished
    assert progress.outcome() is RunOutcome.SUCCESS


def test_restoring_completes_what_was_not_stored_and_refuses_what_does_not_fit() -> None:
    progress = chain(Rules.ALL_SUCCESS, Rules.ALL_DONE)
    decided = progress.restore([S.FAILED, S.WAITING, S.WAITING])
    assert decided == [(1, Decision.UPSTREAM_FAILED), (2, Decision.READY)]
    assert progress.ended == 2
    for wrong in ([S.READY], [0, 0, 7], [0, 0, -1]):
        with pytest.raises(ValueError, match=r"fit|range"):
            progress.restore(wrong)
