"""The shape of workflows: what validation finds, what a graph knows, and that both are linear."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.dag import Graph, TriggerRule, validate
from taskyard_core.violations import InvalidInput

ALL = TriggerRule.ALL_SUCCESS
Shape = list[tuple[str, list[str]]]


def graph_of(shape: Shape) -> Graph:
    return Graph([(step, upstream, ALL) for step, upstream in shape])


@st.composite
def acyclic_shapes(draw: st.DrawFn) -> Shape:
    size = draw(st.integers(0, 12))
    shape = [(f"s{n}", sorted(draw(st.sets(st.integers(0, n - 1))) if n else ())) for n in range(size)]
    named = [(step, [f"s{n}" for n in upstream]) for step, upstream in shape]
    return draw(st.permutations(named))


@pytest.mark.parametrize(
    ("shape", "field", "said"),
    [
        ([("a", []), ("a", [])], "steps[1].id", "steps[0]"),
        ([("a", ["a"])], "steps[0].depends_on[0]", "itself"),
        ([("extract", []), ("b", ["extarct"])], "steps[1].depends_on[0]", "Did you mean 'extract'?"),
        ([("a", []), ("b", ["a", "a"])], "steps[1].depends_on[1]", "twice"),
        ([("a", ["c"]), ("b", ["a"]), ("c", ["b"])], "steps[1].depends_on", "b -> c -> a -> b"),
        ([("r", []), ("a", ["r", "b"]), ("b", ["a"]), ("z", ["b"])], "steps[2].depends_on", "b -> a -> b"),
    ],
)
def test_a_fault_is_located_and_explained(shape: Shape, field: str, said: str) -> None:
    (violation,) = validate(shape)
    assert violation.field == field
    assert said in violation.description
    with pytest.raises(InvalidInput):
        graph_of(shape)


def test_the_fields_of_a_violation_are_the_callers() -> None:
    (violation,) = validate([("a", ["x"])], "workflow.steps", "after")
    assert violation.field == "workflow.steps[0].after[0]"


@given(acyclic_shapes())
def test_a_graph_knows_its_shape(shape: Shape) -> None:
    assert validate(shape) == []
    graph = graph_of(shape)
    assert [graph.ids[n] for n in range(len(graph))] == [step for step, _ in shape]
    assert sorted(graph.order) == list(range(len(shape)))
    for step, above in enumerate(graph.upstream):
        assert [graph.ids[parent] for parent in above] == shape[step][1]
        assert graph.order[graph.rank[step]] == step
        assert all(graph.rank[parent] < graph.rank[step] for parent in above)
        assert all(step in graph.downstream[parent] for parent in above)
        assert graph.depth[step] == max((graph.depth[parent] + 1 for parent in above), default=0)
        assert graph.upstream_counts[step] == len(above)
        assert (step in graph.roots) == (not above)
        assert (step in graph.leaves) == (not graph.downstream[step])
    assert sum(map(len, graph.downstream)) == sum(map(len, graph.upstream))


@given(acyclic_shapes())
def test_upstream_in_bulk_agrees_with_the_ancestors(shape: Shape) -> None:
    graph = graph_of(shape)
    pairs = {(above, step) for above in range(len(graph)) for step in range(len(graph))}
    expected = {(above, step) for above, step in pairs if above in graph.ancestors(step)}
    assert graph.upstream_pairs(pairs) == expected
    for step in range(len(graph)):
        assert graph.upstream_of(step) == {graph.ids[above] for above, below in expected if below == step}


@given(acyclic_shapes(), st.data())
def test_an_edge_back_makes_a_cycle_that_is_printed_whole(shape: Shape, data: st.DataObject) -> None:
    graph = graph_of(shape)
    pairs = [(above, step) for step in range(len(graph)) for above in sorted(graph.ancestors(step))]
    if not pairs:
        return
    above, step = data.draw(st.sampled_from(pairs))
    shape[above][1].append(graph.ids[step])
    (violation,) = validate(shape)
    way = violation.description.split(": ")[1].split(";")[0].split(" -> ")
    assert way[0] == way[-1]
    assert len(way) == len(set(way)) + 1
    upstream = dict(shape)
    assert all(first in upstream[second] for first, second in pairwise(way))


def test_a_hundred_thousand_steps_are_validated_and_built_without_recursion() -> None:
    size = 100_000
    shape: Shape = [(f"s{n}", [f"s{n - 1}"] if n else []) for n in range(size)]
    began = time.process_time()
    graph = graph_of(shape)
    far = graph.upstream_pairs((n // 2, n) for n in range(2, size, 7))
    spent = time.process_time() - began
    assert graph.depth[-1] == size - 1
    assert len(far) == len(range(2, size, 7))
    assert spent < 30, "far from linear"
    shape[0] = ("s0", [f"s{size - 1}"])
    (violation,) = validate(shape)
    assert f"... {size - 29} more ..." in violation.description


def test_a_hundred_thousand_dangling_names_stay_cheap() -> None:
    shape: Shape = [(f"s{n}", [f"t{n}"]) for n in range(100_000)]
    assert len(validate(shape)) == 100_000
