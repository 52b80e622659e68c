"""The state machines: what the tables allow, what `docs/states.md` shows, and what the engine does are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from enginekit import Lab

from taskyard_core.engine import attempts
from taskyard_core.fleet import Registration, Worker
from taskyard_core.records import IN_FLIGHT, PHASES, Phase, RunState, TaskState
from taskyard_core.transitions import (
    INSTANCE_MOVES,
    RUN_MOVES,
    WORKER_MOVES,
    IllegalTransition,
    WorkerState,
)

S = TaskState
PAGE = Path(__file__).parents[3] / "docs" / "states.md"
EDGE = re.compile(r"^ +([A-Z]+|\[\*\]) --> ([A-Z]+|\[\*\])(?:: .+)?$", re.MULTILINE)
ENDS = {
    S.SUCCESS: {"SUCCESS"},
    S.FAILED: {"FAILED"},
    S.TIMEOUT: {"TIMEOUT"},
    S.CANCELLED: {"CANCELLED"},
    S.PENDING: {"FAILED", "TIMEOUT"},
    S.QUEUED: {"FAILED", "TIMEOUT", "INTERRUPTED"},
    S.DEFERRED: {"DEFERRED"},
    S.SKIPPED: {"CANCELLED"},
}
"""How an attempt can have ended, or have left its worker, when its instance goes to a state."""


def section(title: str) -> str:
    """Returns one section of the page."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def shown(title: str) -> set[tuple[str, str]]:
    """Returns the edges between states that a section's diagram shows."""
    edges = EDGE.findall(section(title))
    assert len(edges) == len(set(edges)), "an edge is shown twice"
    return {(a, b) for a, b in edges if "[*]" not in (a, b)}


def described(title: str) -> list[str]:
    """Returns the states that a section's table describes."""
    return re.findall(r"^\| ([A-Z]+) \| .{10,} \|", section(title), flags=re.MULTILINE)


def test_the_instance_diagram_is_the_table() -> None:
    assert shown("Instance") == {(S(a).name, S(b).name) for a, moves in INSTANCE_MOVES.items() for b in moves}
    assert sorted(described("Instance")) == sorted(S.__members__)


def test_the_run_diagram_is_the_table() -> None:
    assert shown("Run") == {(RunState(a).name, RunState(b).name) for a, moves in RUN_MOVES.items() for b in moves}
    assert sorted(described("Run")) == sorted(RunState.__members__)


def test_the_worker_diagram_is_the_table() -> None:
    names = {(WorkerState(a).name, WorkerState(b).name) for a, moves in WORKER_MOVES.items() for b in moves}
    assert shown("Worker") == names
    assert sorted(described("Worker")) == sorted(WorkerState.__members__)


def test_the_attempt_diagram_follows_from_the_instances_table() -> None:
    flying = [state for state in INSTANCE_MOVES if PHASES[state] == IN_FLIGHT]
    wanted = set()
    for state in flying:
        for to in INSTANCE_MOVES[state]:
            if to in flying:
                wanted.add((S(state).name, S(to).name))
                continue
            ends = ENDS[S(to)]
            if state == S.CANCELLING:  # it is stopped, so a retry that follows is one of a timeout
                ends = ends - {"FAILED", "INTERRUPTED"}
            wanted |= {(S(state).name, end) for end in ends}
    assert shown("Attempt") == wanted
    assert sorted(described("Attempt")) == sorted({name for edge in wanted for name in edge})


def test_only_an_assignment_begins_an_attempt() -> None:
    flying = {state for state in INSTANCE_MOVES if PHASES[state] == IN_FLIGHT}
    entries = {(S(a), S(b)) for a, moves in INSTANCE_MOVES.items() for b in moves if a not in flying and b in flying}
    assert entries == {(S.QUEUED, S.ASSIGNED)}


def test_every_state_is_in_the_tables_and_can_be_left_or_ends() -> None:
    assert set(INSTANCE_MOVES) == set(S)
    assert set(RUN_MOVES) == set(RunState)
    assert set(WORKER_MOVES) == set(WorkerState)
    for state, moves in INSTANCE_MOVES.items():
        assert state not in moves
        assert moves or PHASES[state] == Phase.ENDED
    assert all(RUN_MOVES.values())
    assert all(WORKER_MOVES.values())


def test_every_state_says_what_it_means_in_the_source() -> None:
    for source in ("records.py", "transitions.py"):
        text = (Path(attempts.__file__).parents[1] / source).read_text()
        for name in re.findall(r"^    ([A-Z]+) = \d+$", text, flags=re.MULTILINE):
            assert re.search(rf'^    {name} = \d+\n    """.+\.', text, flags=re.MULTILINE), name


@pytest.mark.parametrize("before", list(S))
@pytest.mark.parametrize("after", list(S))
def test_move_does_what_the_table_says(before: TaskState, after: TaskState) -> None:
    lab = Lab()
    id = lab.add()
    instance = lab.engine.cluster.instances[id]
    instance.state, instance.phase = int(before), PHASES[before]
    if after in INSTANCE_MOVES[before]:
        lab.engine.cluster.move(instance, after)
        assert (instance.state, instance.phase) == (after, PHASES[after])
        return
    with pytest.raises(IllegalTransition, match=f"{before.name}.*cannot become.*{after.name}"):
        lab.engine.cluster.move(instance, after)
    assert instance.state == before, "a refused move changes nothing"


def test_an_illegal_move_of_a_worker_names_it() -> None:
    worker = Worker("w", "t", 1, Registration(), WorkerState.DRAINING)
    worker.move(WorkerState.DRAINING)
    with pytest.raises(IllegalTransition, match="Worker w DRAINING"):
        worker.move(WorkerState.HEALTHY)


def test_phases() -> None:
    assert {state: Phase(PHASES[state]) for state in S} == {
        S.PENDING: Phase.PENDING,
        S.QUEUED: Phase.READY,
        S.ASSIGNED: Phase.IN_FLIGHT,
        S.RUNNING: Phase.IN_FLIGHT,
        S.CANCELLING: Phase.IN_FLIGHT,
        S.SUCCESS: Phase.ENDED,
        S.FAILED: Phase.ENDED,
        S.TIMEOUT: Phase.ENDED,
        S.CANCELLED: Phase.ENDED,
        S.SKIPPED: Phase.ENDED,
        S.DEFERRED: Phase.PENDING,
    }
