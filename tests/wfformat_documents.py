"""Makes WfFormat documents: of any graph, and of the nine shapes of the recorded workflows that benchmarks run.

The shapes are those of well-known scientific workflows, written down here as rules; nothing is copied.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Graph = dict[str, list[str]]
"""By task: the tasks that it waits for."""

LEGAL_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def document(
    graph: Mapping[str, Sequence[str]],
    *,
    name: str = "recorded",
    version: str = "1.5",
    runtimes: Mapping[str, float] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Returns the document of a graph; each task hands one file to each that waits for it."""
    children: Graph = {task: [] for task in graph}
    for task, parents in graph.items():
        for parent in parents:
            children[parent].append(task)
    tasks = [
        {
            "id": task, "name": (names or {}).get(task, task), "parents": list(parents), "children": children[task],
            "inputFiles": [f"{parent}.out" for parent in parents], "outputFiles": [f"{task}.out"],
        }
        for task, parents in graph.items()
    ]  # fmt: skip
    recorded = [
        {"id": task, "runtimeInSeconds": (runtimes or {}).get(task, 0.25 * at)} for at, task in enumerate(graph)
    ]
    files = [{"id": f"{task}.out", "sizeInBytes": 100 * at} for at, task in enumerate(graph)]
    return {
        "name": name, "description": "Made by a test.", "createdAt": "2026-01-02T03:04:05+00:00",
        "schemaVersion": version, "runtimeSystem": {"name": "none", "version": "0"},
        "workflow": {
            "specification": {"tasks": tasks, "files": files},
            "execution": {"makespanInSeconds": 1.0, "executedAt": "2026-01-02T03:04:05+00:00", "tasks": recorded},
        },
    }  # fmt: skip


def encoded(value: Any) -> bytes:
    """Returns a document as a file holds it."""
    return json.dumps(value).encode()


def graph_of(document: Mapping[str, Any]) -> Graph:
    """Returns the graph of a document, read without the code under test."""
    return {task["id"]: list(task["parents"]) for task in document["workflow"]["specification"]["tasks"]}


def figures(graph: Mapping[str, Sequence[str]]) -> tuple[int, int, int]:
    """Returns tasks, edges and depth, the slow and plain way."""
    depths = dict.fromkeys(graph, 1)
    for _ in graph:
        deeper = {task: 1 + max((depths[each] for each in parents), default=0) for task, parents in graph.items()}
        if deeper == depths:
            break
        depths = deeper
    return len(graph), sum(map(len, graph.values())), max(depths.values())


def numbered(kind: str, count: int) -> list[str]:
    """Returns ids as Pegasus writes them."""
    return [f"{kind}_ID{number:07d}" for number in range(1, count + 1)]


def _chain() -> Graph:
    tasks = numbered("hog", 5)
    return {task: tasks[max(0, at - 1) : at] for at, task in enumerate(tasks)}


def _fork_join() -> Graph:
    middle = numbered("hog", 8)
    return {"fork": [], **{task: ["fork"] for task in middle}, "join": middle}


def _bacass() -> Graph:
    return {
        "fastqc_2": [], "skewer_1": [], "fastqc_4": [], "skewer_3": [], "unicycler_5": ["skewer_1"],
        "unicycler_6": ["skewer_3"], "prokka_7": ["unicycler_5"], "quast_9": ["unicycler_5", "unicycler_6"],
        "prokka_8": ["unicycler_6"], "versions_10": ["fastqc_2", "skewer_1", "unicycler_5", "prokka_7", "quast_9"],
        "multiqc_11": ["fastqc_2", "fastqc_4", "versions_10"],
    }  # fmt: skip


def _srasearch() -> Graph:
    dumps, searches = numbered("dump", 10), numbered("bowtie", 10)
    pairs = {search: ["build", dump] for search, dump in zip(searches, dumps, strict=True)}
    return {"build": [], **{key: [] for key in dumps}, **pairs, "merge": searches}


def _epigenomics() -> Graph:
    lanes = [numbered(kind, 9) for kind in ("filter", "sanger", "fast2bfq", "map")]
    graph: Graph = {"split": []}
    for before, kind in itertools.pairwise([["split"] * 9, *lanes]):
        graph |= {task: [parent] for task, parent in zip(kind, before, strict=True)}
    return graph | {"mergeLane": lanes[-1], "merge": ["mergeLane"], "chr21": ["merge"], "pileup": ["chr21"]}


def _montage() -> Graph:
    graph: Graph = {}
    for colour in ("red", "green", "blue"):
        images, moved = numbered(f"project-{colour}", 4), numbered(f"background-{colour}", 4)
        pairs = list(itertools.combinations(images, 2))
        fits = numbered(f"diff-{colour}", len(pairs))
        graph |= {key: [] for key in images}
        graph |= {fit: list(pair) for fit, pair in zip(fits, pairs, strict=True)}
        graph |= {f"concat-{colour}": fits, f"model-{colour}": [f"concat-{colour}"]}
        graph |= {task: [image, f"model-{colour}"] for task, image in zip(moved, images, strict=True)}
        graph |= {f"table-{colour}": moved, f"add-{colour}": [*moved, f"table-{colour}"]}
        graph |= {f"view-{colour}": [f"add-{colour}"]}
    return graph | {"view": [task for task in graph if task.startswith("add-")]}


def _blast() -> Graph:
    shards = numbered("blastall", 100)
    return {"split": [], **{task: ["split"] for task in shards}, "cat_blast": shards, "cat": shards}


def _genome() -> Graph:
    graph: Graph = {}
    for number in range(1, 11):
        parts, both = numbered(f"individuals-{number}", 10), [f"merge-{number}", f"sifting-{number}"]
        counts = numbered(f"overlap-{number}", 7) + numbered(f"frequency-{number}", 7)
        graph |= {key: [] for key in parts} | {both[0]: parts, both[1]: []} | dict.fromkeys(counts, both)
    return graph


def _seismology() -> Graph:
    tasks = numbered("decon", 1000)
    return {**{key: [] for key in tasks}, "wrapper": tasks}


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a recorded workflow: how many tasks and edges, how deep, and a graph that is so."""

    tasks: int
    edges: int
    depth: int
    make: Callable[[], Graph]


SHAPES: Mapping[str, Shape] = {
    "helloworld-chain-5": Shape(5, 4, 5, _chain),
    "helloworld-forkjoin-10": Shape(10, 16, 3, _fork_join),
    "bacass": Shape(11, 14, 5, _bacass),
    "srasearch-10a": Shape(22, 30, 3, _srasearch),
    "epigenomics-hep-1seq": Shape(41, 48, 9, _epigenomics),
    "montage-005d": Shape(58, 114, 8, _montage),
    "blast-large-001": Shape(103, 300, 3, _blast),
    "1000genome-10ch": Shape(260, 380, 3, _genome),
    "seismology-1000p": Shape(1001, 1000, 2, _seismology),
}
"""By name, the nine that the benchmark runs."""


def legal(ids: Iterable[str]) -> bool:
    """Tells whether all ids are those of steps already, so that they stay as they are."""
    return all(LEGAL_ID.fullmatch(each) for each in ids)
