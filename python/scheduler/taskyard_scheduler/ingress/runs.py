"""Starts of runs: each item read on its own, its inputs checked against the workflow's and completed. Hot path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.engine.events import NewRun, Refused
from taskyard_core.violations import cut, suggestion
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.identity import read_identity
from taskyard_scheduler.ingress.input_types import value_fault
from taskyard_scheduler.ingress.schedule import read_tags, read_when
from taskyard_scheduler.ingress.tasks import Budget, count_fault

RUNS_LIMIT: Final = 10_000

Find = Callable[[str, int], WorkflowVersion | None]
Variables = Mapping[str, pb.Variable]


def read_runs(request: pb.StartRunsRequest, find: Find, variables: Variables) -> list[NewRun | Refused]:
    """Reads the items of a call, each on its own.

    Args:
        request: The call.
        find: Returns a version of a workflow by name and number, 0 for the newest.
        variables: The tenant's variables by name.

    Raises:
        InvalidInput: The call is empty or too long.
    """
    count_fault("runs", len(request.runs), RUNS_LIMIT)
    reader = _Reader(find, variables, Findings("runs"), Budget())
    return [reader.read(place, item) for place, item in enumerate(request.runs)]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the items of one call. What it finds wrong with one is gone when the next is read."""

    find: Find
    variables: Variables
    findings: Findings
    budget: Budget

    def read(self, place: int, item: pb.RunSubmission) -> NewRun | Refused:
        findings = self.findings
        findings.place = place
        name = item.workflow
        if not name:
            findings.add("workflow", "no workflow is named; give the name of one")
            return findings.refusal()
        plan = self.find(name, item.version) if item.version >= 0 else None
        if plan is None:
            return Refused("DEFINITION_NOT_FOUND", _not_found(item, self.find, findings))
        new = NewRun(name, plan.version)
        if item.HasField("priority"):
            new.priority = item.priority
            findings.add("priority", outside(item.priority, 1, 10))
        new.inputs_json = _read_inputs(item.inputs_json, plan, findings)
        if plan.variables:
            new.variables_json = self.read_variables(plan)
        findings.add("inputs_json", self.budget.spend(len(new.inputs_json) + len(new.variables_json or "")))
        new.when = read_when(item, findings)
        if item.tags:
            new.tags = read_tags(item.tags, findings)
        read_identity(item, new, findings)
        return findings.refusal() if findings.violations else new

    def read_variables(self, plan: WorkflowVersion) -> str:
        """Returns the variables that the workflow reads, as a JSON object."""
        values: list[str] = []
        for name in sorted(plan.variables):
            variable = self.variables.get(name)
            if variable is None:
                hint = suggestion(name, self.variables)
                sentence = f"workflow {cut(plan.name)} reads the variable {cut(name)}, which is not set; set it.{hint}"
                self.findings.add("workflow", sentence)
            else:
                values.append(f"{json_text.dump(name)}:{variable.value_json}")
        return f"{{{','.join(values)}}}"


def _not_found(item: pb.RunSubmission, find: Find, findings: Findings) -> str:
    name = cut(item.workflow)
    newest = find(item.workflow, 0) if item.version else None
    if newest is None:
        field, sentence = "workflow", f"there is no workflow {name}: apply it first, or name one that exists"
    else:
        field = "version"
        sentence = f"workflow {name} has no version {item.version}; 0 means its newest, which is {newest.version}"
    return f"{findings.path(field)}: {sentence}"


def _read_inputs(text: str, plan: WorkflowVersion, findings: Findings) -> str:
    """Returns the inputs with defaults filled in, as JSON."""
    path = "inputs_json"
    if findings.add(path, _size_fault(text)):
        return text
    try:
        given = json_text.parse_object(text) if text else {}
    except json_text.NotJson as error:
        findings.add(path, str(error))
        return text
    declared = dict(plan.inputs)
    for name in given:
        if name not in declared:
            findings.add(member(path, name), _unknown(name, plan, declared))
    for name, type_ in plan.input_types:
        if name in given:
            findings.add(member(path, name), value_fault(type_, name, given[name], declared[name]))
    missing = [name for name in declared if name not in given]
    if not missing:
        return text or "{}"
    for name in missing:
        default = declared[name]
        if default is None:
            sentence = f"the workflow's input {cut(name)} is missing and has no default; give it"
            findings.add(member(path, name), sentence)
        else:
            given[name] = json_text.parse(default)
    whole = json_text.dump(given)
    findings.add(path, _size_fault(whole))
    return whole


def _size_fault(text: str) -> str | None:
    if not json_text.exceeds(text, json_text.INPUT_BYTES):
        return None
    size = json_text.size(text)
    return f"{size:,} bytes (defaults included) are more than {json_text.INPUT_BYTES:,}; pass large data by reference"


def _unknown(name: str, plan: WorkflowVersion, declared: dict[str, str | None]) -> str:
    if not declared:
        return f"workflow {cut(plan.name)} takes no inputs; leave {cut(name, 60)} out"
    known = ", ".join(cut(each, 60) for each in list(declared)[:10])
    hint = suggestion(name, declared)
    return f"workflow {cut(plan.name)} has no input {cut(name, 60)}; it has {known}.{hint}"
