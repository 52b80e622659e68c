"""Reads WfFormat, the JSON in which the WfCommons project publishes recorded scientific workflows.

The format: https://github.com/wfcommons/WfFormat. What is read here is the same in its versions 1.5 and 1.6.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from taskyard_cli import strict_json
from taskyard_cli.importing.graph import cycle
from taskyard_cli.importing.members import Members, shown
from taskyard_cli.importing.recording import RecordedTask, Recording
from taskyard_cli.problems import SHOWN, BadFile, Mark, Problem
from taskyard_cli.workflows.yaml_source import Path, dotted, utf8_text

VERSIONS = ("1.5", "1.6")
"""Versions of the format that are read."""

MAX_BYTES = 64 << 20
"""Largest file that is read."""

MAX_TASKS = 100_000
"""Most tasks of one workflow; a workflow of ours has no more steps."""

_OLDER = re.compile(r"1\.[0-4]")
_MIGRATE = "WfFormat's own `tools/wfcommons-migrate-instance.py` brings files up to date"
_TASKS: Path = ("workflow", "specification", "tasks")
_FILES: Path = ("workflow", "specification", "files")
_LINKS = 10
"""Most links of a cycle that are told."""

_End = Literal["parents", "children"]
_Ends = dict[_End, dict[str, frozenset[str]]]
_RUNTIMES: Path = ("workflow", "execution", "tasks")


def read_wfformat(data: bytes, file: str) -> Recording:
    """Reads a document.

    Args:
        data: Its bytes; more than MAX_BYTES are refused.
        file: Its name, for messages.

    Raises:
        BadFile: It is no WfFormat of these versions, or describes no graph; each problem with its JSON path.
    """
    reader = _Reader(_document(data, file))
    recording = reader.read()
    if reader.problems:
        raise BadFile(file, reader.problems)
    return recording


def _document(data: bytes, file: str) -> dict[str, Any]:
    document = _json(data, file)
    if not isinstance(document, dict) or not {"schemaVersion", "workflow"} <= document.keys():
        say = f"is no WfFormat: {shown(document)} is no object with `schemaVersion` and `workflow`"
        raise BadFile(file, [Problem(None, "", say)])
    if document["schemaVersion"] not in VERSIONS:
        raise BadFile(file, [Problem(None, "schemaVersion", _other_version(document["schemaVersion"]))])
    return document


def _other_version(version: Any) -> str:
    known = " and ".join(VERSIONS)
    if isinstance(version, str) and _OLDER.fullmatch(version):
        return f"{shown(version)} keeps tasks elsewhere; {known} are read. {_MIGRATE}"
    return f"{shown(version)} is not known here; {known} are read"


def _json(data: bytes, file: str) -> Any:
    if len(data) > MAX_BYTES:
        raise BadFile(file, [Problem(None, "", f"has more than {MAX_BYTES:,} bytes, the most that are read")])
    text = utf8_text(data, file)
    if not text.strip():
        raise BadFile(file, [Problem(None, "", "is empty")])
    try:
        return strict_json.loads(text)
    except json.JSONDecodeError as error:
        problem = Problem(Mark(error.lineno, error.colno), "", f"is no JSON: {error.msg}")
    except ValueError as error:
        problem = Problem(None, "", f"is no JSON that all readers understand alike: {error}")
    except RecursionError:
        problem = Problem(None, "", "is nested too deeply to be read")
    raise BadFile(file, [problem])


@dataclass(frozen=True, slots=True)
class _Task:
    """A task of the specification, as it stands there, and where."""

    path: Path
    id: str
    name: str
    parents: tuple[str, ...]
    children: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class _Reader(Members):
    """Reads one document of a known version."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__()
        self._document = document

    def read(self) -> Recording:
        workflow = self.object(self._document, ("workflow",))
        specification = self.object(workflow, _TASKS[:-1])
        tasks = self._tasks(specification)
        known = self._by_id(tasks)
        self._check_graph(tasks, known)
        runtimes = self._runtimes(workflow, known)
        return Recording(
            self.text(self._document, ("name",)),
            self.text(self._document, ("description",)) if self._document.get("description") else "",
            tuple(RecordedTask(t.id, t.name, t.parents, runtimes.get(t.id), t.inputs, t.outputs) for t in tasks),
            self._sizes(specification),
        )

    def _tasks(self, specification: dict[str, Any]) -> list[_Task]:
        listed = list(self.objects(specification, _TASKS))
        if len(listed) > MAX_TASKS:
            self.note(_TASKS, f"has {len(listed):,} tasks; at most {MAX_TASKS:,} make a workflow")
            return []
        if not listed and not self.problems:
            self.note(_TASKS, "is empty; a workflow has at least one task")
        return [self._task(path, task) for path, task in listed]

    def _task(self, path: Path, task: dict[str, Any]) -> _Task:
        return _Task(
            path,
            self.text(task, (*path, "id")),
            self.text(task, (*path, "name")),
            self.texts(task, (*path, "parents")),
            self.texts(task, (*path, "children")),
            self.texts(task, (*path, "inputFiles"), required=False),
            self.texts(task, (*path, "outputFiles"), required=False),
        )

    def _check_graph(self, tasks: Sequence[_Task], known: Mapping[str, _Task]) -> None:
        """Checks that edges lead to tasks and are told at both ends, and that no task waits for itself."""
        if not known:
            return
        ends: _Ends = {
            "parents": {task.id: frozenset(task.parents) for task in tasks},
            "children": {task.id: frozenset(task.children) for task in tasks},
        }
        for task in tasks:
            self._check_edges(task, "parents", ends["children"], known)
            self._check_edges(task, "children", ends["parents"], known)
        if not self.problems and (found := cycle({task.id: task.parents for task in tasks})):
            ids = [each if each.isprintable() else shown(each) for each in found[: _LINKS + 1]]
            links = " -> ".join(ids if len(found) <= _LINKS else [*ids[:_LINKS], "…"])
            say = f"{shown(found[0])} waits for itself: {links}; remove one of these edges, at both of its ends"
            self.note((*known[found[0]].path, "parents"), say)

    def _by_id(self, tasks: Sequence[_Task]) -> dict[str, _Task]:
        """Returns the tasks by their ids; none when some are not good, since whatever names them would be told too."""
        known: dict[str, _Task] = {}
        for task in tasks:
            first = known.setdefault(task.id, task)
            if first is not task:
                say = f"{shown(task.id)} is the id of {dotted(first.path)} too; give each its own"
                self.note((*task.path, "id"), say)
        return {} if self.problems else known

    def _check_edges(
        self, task: _Task, end: _End, others: Mapping[str, frozenset[str]], known: Mapping[str, _Task]
    ) -> None:
        seen: set[str] = set()
        for at, each in enumerate(task.parents if end == "parents" else task.children):
            path = (*task.path, end, at)
            if each not in known:
                self.note(path, self._no_task(each, known))
            elif each in seen:
                self.note(path, f"{shown(each)} is listed twice; keep one of them")
            elif task.id not in others[each]:
                there = dotted((*known[each].path, "children" if end == "parents" else "parents"))
                self.note(path, f"{shown(each)} does not say so: add {shown(task.id)} to {there}, or remove this")
            seen.add(each)

    def _no_task(self, given: str, known: Iterable[str]) -> str:
        # Looking for what was meant takes long, so only for what will be told.
        near = difflib.get_close_matches(given, known, 1) if len(self.problems) < SHOWN else []
        way = f"did you mean {shown(near[0])}?" if near else "add it, or remove this"
        return f"there is no task {shown(given)}; {way}"

    def _runtimes(self, workflow: dict[str, Any], known: Mapping[str, _Task]) -> dict[str, float]:
        """Returns how long each task ran, as far as that is recorded."""
        found: dict[str, float] = {}
        if "execution" not in workflow:
            return found
        for path, entry in self.objects(self.object(workflow, _RUNTIMES[:-1]), _RUNTIMES):
            task_id = self.text(entry, (*path, "id"))
            if known and task_id not in known:
                self.note((*path, "id"), self._no_task(task_id, known))
            if task_id in found:
                self.note((*path, "id"), f"{shown(task_id)} has a run time already; keep one of them")
            found[task_id] = self.amount(entry, (*path, "runtimeInSeconds"))
        return found

    def _sizes(self, specification: dict[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for path, entry in self.objects(specification, _FILES, required=False):
            file, size = self.text(entry, (*path, "id")), self.count(entry, (*path, "sizeInBytes"))
            if found.setdefault(file, size) != size:
                self.note(path, f"{shown(file)} has {found[file]:,} bytes elsewhere in this list; keep one of them")
        return found
