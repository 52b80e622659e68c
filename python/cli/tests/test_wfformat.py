"""WfFormat documents: their graphs survive, what is no WfFormat or no graph is told with its place."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wfformat_documents import SHAPES, Graph, document, encoded, figures, graph_of, legal

from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.importing import wfformat as module
from taskyard_cli.importing.graph import cycle, depth
from taskyard_cli.importing.recording import Recording
from taskyard_cli.importing.sleeping import (
    HOUR_S,
    LONG_S,
    LONGEST_S,
    name_fault,
    runtime_fault,
    sleep_workflow,
    step_ids,
)  # fmt: skip
from taskyard_cli.importing.wfformat import read_wfformat
from taskyard_cli.problems import BadFile
from taskyard_cli.workflows.file import read_workflow
from taskyard_cli.workflows.yaml_writer import workflow_yaml

Document = dict[str, Any]
Change = Callable[[Document, list[Any], list[Any]], object]
"""Changes a document, given with its tasks and its run times."""

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
IDS = st.one_of(st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True), TEXT, st.text("ab_ /", min_size=1, max_size=3))
DIAMOND: Graph = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs without cycles: each task waits for some of those before it; then in any order."""
    ids = draw(st.lists(IDS, min_size=1, max_size=12, unique=True))
    parents = {
        task: draw(st.lists(st.sampled_from(ids[:at]), unique=True)) if at else [] for at, task in enumerate(ids)
    }
    return {task: parents[task] for task in draw(st.permutations(ids))}


def read(made: Any) -> Recording:
    return read_wfformat(encoded(made), "w.json")


def workflow(made: Document, scale: float = 1.0) -> Workflow:
    return sleep_workflow(read(made), scale)


def complaints(data: bytes) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read_wfformat(data, "w.json")
    return [problem.told("w.json") for problem in caught.value.problems]


@given(graphs())
def test_the_edges_that_go_in_come_out(graph: Graph) -> None:
    made = workflow(document(graph))
    ids = step_ids(graph)
    assert [step.id for step in made.steps] == [ids[task] for task in graph]
    assert {step.id: list(step.needs) for step in made.steps} == {
        ids[task]: [ids[parent] for parent in parents] for task, parents in graph.items()
    }
    parents = {step.id: list(step.needs) for step in made.steps}
    assert (len(parents), sum(map(len, parents.values())), depth(parents)) == figures(graph)


@given(
    graphs(),
    st.floats(0, 10),
    st.lists(st.floats(0, 200_000) | st.integers(0, 200_000), min_size=12, max_size=12),
    st.lists(TEXT, min_size=12, max_size=12),
)
def test_what_is_written_as_yaml_is_the_same_workflow(
    graph: Graph, scale: float, seconds: list[float], names: list[str]
) -> None:
    made = workflow(
        document(graph, runtimes=dict(zip(graph, seconds, strict=False)), names=dict(zip(graph, names, strict=False))),
        scale,
    )
    assert read_workflow("w.yaml", workflow_yaml(made).encode())[0] == made


@given(st.lists(IDS, unique=True, max_size=30))
def test_step_ids_are_legal_unique_and_the_same_whatever_else_is_there(tasks: list[str]) -> None:
    made = step_ids(tasks)
    assert legal(made.values())
    assert len(set(made.values())) == len(tasks)
    assert all(made[task] == task for task in tasks if legal([task]))
    assert step_ids(reversed(tasks)) == made
    assert all(step_ids([task])[task] == step for task, step in made.items())


def test_an_id_that_is_taken_leads_to_a_longer_one() -> None:
    made = step_ids(["a b"])["a b"]
    both = step_ids([made, "a b"])
    assert both[made] == made
    assert both["a b"].startswith(f"{made}")
    assert len(both["a b"]) == len(made) + 1
    long = step_ids(["x" * 129, "ü" * 1000])
    assert {len(each) for each in long.values()} == {128}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_nine_shapes_keep_tasks_edges_and_depth(shape: Any) -> None:
    graph = shape.make()
    made = workflow(document(graph))
    parents = {step.id: list(step.needs) for step in made.steps}
    assert parents == graph
    assert figures(graph) == (shape.tasks, shape.edges, shape.depth)
    assert (len(parents), sum(map(len, parents.values())), depth(parents)) == figures(graph)


@pytest.mark.parametrize("version", module.VERSIONS)
def test_a_task_becomes_a_step_that_sleeps(version: str) -> None:
    made = document(
        {"first task": [], "second": ["first task"]}, name="n", version=version,
        runtimes={"first task": 1.5, "second": 4}, names={"first task": "align", "second": "sort"},
    )  # fmt: skip
    first = step_ids(["first task"])["first task"]
    assert first.startswith("first_task-")
    found = workflow(made, 0.5)
    assert (found.name, found.description) == ("n", "Made by a test.")
    assert [(s.id, s.task_type, s.input_json, list(s.needs), s.description) for s in found.steps] == [
        (first, "sleep", '{"seconds":0.75}', [], "align (id first task)"),
        ("second", "sleep", '{"seconds":2}', [first], "sort"),
    ]
    assert [step.input_json for step in workflow(made, 0).steps] == ['{"seconds":0}', '{"seconds":0}']


def test_files_and_their_sizes_are_kept_for_who_makes_them_real() -> None:
    recording = read(document(DIAMOND))
    assert recording.sizes == {"a.out": 0, "b.out": 100, "c.out": 200, "d.out": 300}
    assert recording.tasks[3].inputs == ("b.out", "c.out")
    assert recording.tasks[3].outputs == ("d.out",)
    bare = document(DIAMOND)
    del bare["workflow"]["specification"]["files"]
    for task in bare["workflow"]["specification"]["tasks"]:
        del task["inputFiles"], task["outputFiles"]
    assert read(bare).sizes == {}
    assert read(bare).tasks[3].inputs == ()


def test_a_long_sleep_gets_the_time_that_it_takes() -> None:
    made = document({"a": [], "b": []}, runtimes={"a": LONG_S, "b": LONG_S + 0.5})
    first, second = workflow(made).steps
    assert not first.HasField("timeouts")
    assert second.timeouts.run_timeout.seconds == LONG_S + 1 + HOUR_S


def test_a_run_time_that_makes_no_sleep_is_told_with_a_way_out() -> None:
    made = document({"a": []}, runtimes={"a": LONGEST_S})
    task = read(made).tasks[0]
    assert runtime_fault(task, 1) == ""
    assert runtime_fault(task, 1.1) == (
        "2,588,400 s x 1.1 is longer than a step may sleep (2,588,400 s); give a smaller --time-scale"
    )
    del made["workflow"]["execution"]
    task = read(made).tasks[0]
    assert runtime_fault(task, 1) == 'no run time of "a" is recorded; --time-scale 0 makes steps that end at once'
    assert runtime_fault(task, 0) == ""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", '"" has 0 characters; a workflow\'s name has 1 to 200'),
        ("x" * 201, "has 201 characters"),
        ("a\nb", '"a\\nb" contains U+000A; a workflow\'s name has no control characters'),
        (" a", '" a" begins or ends with white space'),
        ("chain-5.json", ""),
    ],
)
def test_a_name_that_no_workflow_can_have_is_told(name: str, fault: str) -> None:
    assert name_fault(name) == fault or (fault and fault in name_fault(name))


def changed(change: Change) -> bytes:
    """Returns the diamond's document with a change of it, of its tasks, of its run times."""
    made = copy.deepcopy(document(DIAMOND))
    flow = made["workflow"]
    change(made, flow["specification"]["tasks"], flow["execution"]["tasks"])
    return encoded(made)


TASKS, RUNTIMES = "workflow.specification.tasks", "workflow.execution.tasks"
MIGRATE = "1.5 and 1.6 are read. WfFormat's own `tools/wfcommons-migrate-instance.py` brings files up to date"
CHANGES: list[tuple[Change, list[str]]] = [
    (lambda d, t, r: d.update(schemaVersion="1.4"), [f'schemaVersion: "1.4" keeps tasks elsewhere; {MIGRATE}']),
    (lambda d, t, r: d.update(schemaVersion="1.0"), [f'schemaVersion: "1.0" keeps tasks elsewhere; {MIGRATE}']),
    (lambda d, t, r: d.update(schemaVersion="2.0"), ['schemaVersion: "2.0" is not known here; 1.5 and 1.6 are read']),
    (lambda d, t, r: d.update(schemaVersion=1.5), ["schemaVersion: 1.5 is not known here; 1.5 and 1.6 are read"]),
    (lambda d, t, r: d.update(name=7), ["name: 7 is a number; a text goes here"]),
    (lambda d, t, r: d.update(name=""), ["name: is empty; give a text"]),
    (lambda d, t, r: d.update(description=[]), []),
    (lambda d, t, r: d.update(description=["x"]), ['description: ["x"] is a list; a text goes here']),
    (lambda d, t, r: d["workflow"].update(specification=None), [
        "workflow.specification: null is nothing; an object goes here",
        f"{TASKS}: is missing; a list goes here"]),
    (lambda d, t, r: d["workflow"].pop("specification"), [
        "workflow.specification: is missing; an object goes here", f"{TASKS}: is missing; a list goes here"]),
    (lambda d, t, r: t.clear(), [f"{TASKS}: is empty; a workflow has at least one task"]),
    (lambda d, t, r: t.append("x"), [f'{TASKS}[4]: "x" is a text; an object goes here']),
    (lambda d, t, r: t[1].pop("parents"), [f"{TASKS}[1].parents: is missing; a list goes here"]),
    (lambda d, t, r: t[1].update(parents="a"), [f'{TASKS}[1].parents: "a" is a text; a list goes here']),
    (lambda d, t, r: t[1].update(parents=[1]), [f"{TASKS}[1].parents[0]: 1 is a number; a text goes here"]),
    (lambda d, t, r: t[1].update(parents=["a", "a"]), [
        f'{TASKS}[1].parents[1]: "a" is listed twice; keep one of them']),
    (lambda d, t, r: t[1].update(id="d"), [f'{TASKS}[3].id: "d" is the id of {TASKS}[1] too; give each its own']),
    (lambda d, t, r: t[1].update(id=""), [f"{TASKS}[1].id: is empty; give a text"]),
    (lambda d, t, r: t[1].update(id="b\0"), [
        f'{TASKS}[1].id: "b\\u0000" contains U+0000, which no text may; remove it']),
    (lambda d, t, r: t[1].update(name="\ud800"), [
        f'{TASKS}[1].name: "\\ud800" contains U+D800, which no text may; remove it']),
    (lambda d, t, r: t[1]["parents"].append("missing"), [
        f'{TASKS}[1].parents[1]: there is no task "missing"; add it, or remove this']),
    (lambda d, t, r: t[1].update(parents=[]), [
        f'{TASKS}[0].children[0]: "b" does not say so: add "a" to {TASKS}[1].parents, or remove this']),
    (lambda d, t, r: t[1].update(children=[]), [
        f'{TASKS}[3].parents[0]: "b" does not say so: add "d" to {TASKS}[1].children, or remove this']),
    (lambda d, t, r: t[0]["parents"].append("d") or t[3]["children"].append("a"), [
        f'{TASKS}[0].parents: "a" waits for itself: a -> b -> d -> a; remove one of these edges, at both of its ends']),
    (lambda d, t, r: t[0]["parents"].append("a") or t[0]["children"].append("a"), [
        f'{TASKS}[0].parents: "a" waits for itself: a -> a; remove one of these edges, at both of its ends']),
    (lambda d, t, r: r[2].update(runtimeInSeconds=-1.5), [
        f"{RUNTIMES}[2].runtimeInSeconds: -1.5 is negative; give a number from 0"]),
    (lambda d, t, r: r[2].update(runtimeInSeconds=10**310), [
        f"{RUNTIMES}[2].runtimeInSeconds: 1{'0' * 59}… is too large; give a number from 0"]),
    (lambda d, t, r: r[2].update(runtimeInSeconds="3"), [
        f'{RUNTIMES}[2].runtimeInSeconds: "3" is a text; a number goes here']),
    (lambda d, t, r: r[2].update(runtimeInSeconds=True), [
        f"{RUNTIMES}[2].runtimeInSeconds: true is a boolean; a number goes here"]),
    (lambda d, t, r: r[2].pop("runtimeInSeconds"), [
        f"{RUNTIMES}[2].runtimeInSeconds: is missing; a number goes here"]),
    (lambda d, t, r: r[2].update(id="a"), [f'{RUNTIMES}[2].id: "a" has a run time already; keep one of them']),
    (lambda d, t, r: r[2].update(id="tasc"), [f'{RUNTIMES}[2].id: there is no task "tasc"; add it, or remove this']),
    (lambda d, t, r: d["workflow"].update(execution=3), [
        "workflow.execution: 3 is a number; an object goes here", f"{RUNTIMES}: is missing; a list goes here"]),
    (lambda d, t, r: d["workflow"]["specification"]["files"][0].update(sizeInBytes=-1), [
        "workflow.specification.files[0].sizeInBytes: -1 is negative; give a number from 0"]),
    (lambda d, t, r: d["workflow"]["specification"]["files"][0].update(sizeInBytes=1.5), [
        "workflow.specification.files[0].sizeInBytes: 1.5 is no whole number; give one"]),
    (lambda d, t, r: d["workflow"]["specification"]["files"][1].update(id="a.out"), [
        'workflow.specification.files[1]: "a.out" has 0 bytes elsewhere in this list; keep one of them']),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=range(len(CHANGES)))
def test_each_fault_says_where_what_and_how(change: Any, told: list[str]) -> None:
    data = changed(change)
    if not told:
        read_wfformat(data, "w.json")
        return
    assert complaints(data) == [f"w.json: {each}" for each in told]


def test_all_faults_are_told_at_once_and_the_likely_name_with_them() -> None:
    graph = {"align": [], "sort": ["align"]}
    made = document(graph)
    made["workflow"]["specification"]["tasks"][1]["parents"] = ["aling"]
    made["workflow"]["execution"]["tasks"][0]["runtimeInSeconds"] = -1
    assert complaints(encoded(made)) == [
        f'w.json: {TASKS}[0].children[0]: "sort" does not say so: add "align" to {TASKS}[1].parents, or remove this',
        f'w.json: {TASKS}[1].parents[0]: there is no task "aling"; did you mean "align"?',
        f"w.json: {RUNTIMES}[0].runtimeInSeconds: -1 is negative; give a number from 0",
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "b", "é\0"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "tasks"]), below),
    max_leaves=5,
)


@given(st.data())
def test_whatever_stands_in_a_document_it_is_read_or_refused(data: st.DataObject) -> None:
    made: Any = document(DIAMOND)
    for _ in range(data.draw(st.integers(1, 3))):
        owner = made
        while True:
            key = data.draw(st.sampled_from(sorted(owner) if isinstance(owner, dict) else range(len(owner))))
            if not isinstance(owner[key], dict | list) or not owner[key] or data.draw(st.integers(0, 3)) == 0:
                break
            owner = owner[key]
        if isinstance(owner, dict) and data.draw(st.booleans()):
            del owner[key]
        else:
            owner[key] = data.draw(JSON)
        if not made:
            break
    with contextlib.suppress(BadFile):
        written = workflow_yaml(sleep_workflow(read(made), 0))
        assert read_workflow("w.yaml", written.encode())[0].steps


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b'{"a": 1,\n "b" 2}', "2:6: is no JSON: Expecting ':' delimiter"),
        (b'{"schemaVersion": "1.5"', "1:24: is no JSON: Expecting ',' delimiter"),
        (b"name: workflow\n", "1:1: is no JSON: Expecting value"),
        (b'{"a": "\xff"}', "1:8: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b'{"a": 1, "a": 2}', "is no JSON that all readers understand alike: the key 'a' comes twice"),
        (b'{"a": NaN}', "is no JSON that all readers understand alike: NaN is no JSON number"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "the number 10000000000000000000… has 5,001 digits; at most 400 are read"),
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply to be read"),
        (b"[]", "is no WfFormat: [] is no object with `schemaVersion` and `workflow`"),
        (b"null", "is no WfFormat: null is no object"),
        (b'{"name": "w", "steps": []}', 'is no WfFormat: {"name": "w", "steps": []} is no object with'),
        (b'{"schemaVersion": "1.5", "workflow": 1}', "workflow: 1 is a number; an object goes here"),
    ],
)
def test_what_is_no_wfformat_is_told_once_and_in_words(data: bytes, told: str) -> None:
    found = complaints(data)
    assert told in found[0]
    assert found[0].startswith("w.json:")


@pytest.mark.parametrize(
    "place", ["[%s]", '{"schemaVersion": "1.5", "workflow": %s}', '{"schemaVersion": %s, "workflow": 1}']
)
def test_however_deep_it_is_nested_it_is_refused_in_words(place: str) -> None:
    for depth_of in [*range(1, 100, 10), *range(850, 1100)]:
        assert complaints((place % ("[" * depth_of + "]" * depth_of)).encode())


def test_an_id_cannot_drive_the_terminal() -> None:
    made = document({"\x1b[2J": ["b"], "b": ["\x1b[2J"]})
    (told,) = complaints(encoded(made))
    assert "\x1b" not in told
    assert '"\\u001b[2J" -> b -> "\\u001b[2J"' in told


def test_what_is_huge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(document(DIAMOND))
    monkeypatch.setattr(module, "MAX_BYTES", len(data) - 1)
    assert complaints(data) == [f"w.json: has more than {len(data) - 1:,} bytes, the most that are read"]
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_TASKS", 3)
    assert complaints(data) == [f"w.json: {TASKS}: has 4 tasks; at most 3 make a workflow"]


def test_a_long_cycle_is_not_told_whole() -> None:
    ring = {f"t{n}": [f"t{(n - 1) % 50}"] for n in range(50)}
    (told,) = complaints(encoded(document(ring)))
    assert told.count(" -> ") == 10
    assert " -> …; remove" in told


@pytest.mark.timeout(60)
def test_one_task_that_joins_very_many_is_read_in_no_time() -> None:
    width = 30_000
    tasks = [f"t{n}" for n in range(width)]
    made = workflow(document({**{task: [] for task in tasks}, "join": tasks}))
    assert len(made.steps[-1].needs) == width


@given(graphs(), st.data())
def test_an_edge_back_makes_a_cycle_that_is_found(graph: Graph, data: st.DataObject) -> None:
    assert cycle(graph) == []
    edges = [(parent, task) for task, parents in graph.items() for parent in parents]
    if not edges:
        return
    parent, task = data.draw(st.sampled_from(edges))
    found = cycle(graph | {parent: [*graph[parent], task]})
    assert found[0] == found[-1]
    links: Mapping[str, list[str]] = graph | {parent: [*graph[parent], task]}
    assert all(before in links[after] for before, after in itertools.pairwise(found))


def test_the_document_says_its_graph() -> None:
    assert graph_of(json.loads(encoded(document(DIAMOND)))) == DIAMOND
