"""Steps of a workflow: each checked and compiled on its own. How they hang together is checked in `workflows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.names import check_step_id
from taskyard_core.templates import Scope, Template, TemplateError, ValueTemplate, compile_text, compile_value
from taskyard_core.violations import cut
from taskyard_core.workflow import StepPlan
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.policies import parts_of, read_policy
from taskyard_scheduler.ingress.tasks import PRIORITY, size_fault
from taskyard_scheduler.ingress.texts import DESCRIPTION_LIMIT, params_fault, text_fault, type_fault

_NOWHERE: Final = Scope({}, {})
_NO_TYPE: Final = "neither a task type nor a definition is named; give one of them"

Params = tuple[tuple[str, Template], ...]


class StepReader:
    """Reads the steps of one workflow, whose definitions are merged in.

    Attributes:
        templates: What is to be rendered, each with its step's place; filled by `read`.
    """

    def __init__(self, path: str, findings: Findings) -> None:
        """Takes where to put what is wrong.

        Args:
            path: Path of the list of steps.
            findings: The workflow's; the steps' violations join them.
        """
        self.templates: list[tuple[int, Template | ValueTemplate]] = []
        self._workflow = findings
        self._findings = Findings(path)
        self._findings.violations = findings.violations

    def read(self, place: int, step: pb.WorkflowStep) -> StepPlan:
        """Returns the compiled step; one with violations is not to be used."""
        findings = self._findings
        if findings.full:
            return StepPlan(step.id, step.task_type)
        findings.place = place
        findings.subject = f"step {cut(step.id)}"
        findings.add("id", check_step_id(step.id))
        if step.task_type or not step.task_name:
            findings.add("task_type", type_fault(step.task_type) if step.task_type else _NO_TYPE)
        findings.add("description", text_fault(step.description, DESCRIPTION_LIMIT))
        priority = PRIORITY
        if step.HasField("priority"):
            priority = step.priority
            findings.add("priority", outside(priority, 1, 10))
        policy = read_policy(parts_of(step))
        findings.extend(policy.violations)
        params, constant_params = self._params(place, step) if step.params else ((), "")
        value, constant_input = self._input(place, step) if step.input_json else (None, "")
        findings.add("params", size_fault(constant_params or "", step.input_json))
        return StepPlan(
            step.id, step.task_type, step.task_name, priority, policy.policy, policy.stored, params, value,
            constant_params, constant_input,
        )  # fmt: skip

    def _params(self, place: int, step: pb.WorkflowStep) -> tuple[Params, str | None]:
        """Returns the templates, and their JSON when nothing is to be rendered."""
        findings = self._findings
        texts = {name: step.params[name] for name in sorted(step.params)}
        fault = params_fault(texts)
        if fault is not None:
            findings.add(member("params", fault[0]), fault[1])
        compiled = tuple(self._compiled(texts, findings.path("params")))
        open_ones = [template for _, template in compiled if not template.is_constant]
        self.templates += [(place, template) for template in open_ones]
        if open_ones:
            return compiled, None
        return compiled, json_text.dump_texts({name: template.literal for name, template in compiled})

    def _compiled(self, texts: Mapping[str, str], path: str) -> Iterator[tuple[str, Template]]:
        for name, source in texts.items():
            try:
                yield name, compile_text(source, member(path, name))
            except TemplateError as error:
                self._workflow.extend(error.violations)

    def _input(self, place: int, step: pb.WorkflowStep) -> tuple[ValueTemplate | None, str | None]:
        """Returns the template, and its JSON when nothing is to be rendered."""
        path = self._findings.path("input_json")
        value = read_value(step.input_json, path, self._workflow, an_object=True)
        if value is None:
            return None, ""
        if value.is_constant:
            return value, json_text.dump(value.render(_NOWHERE))
        self.templates.append((place, value))
        return value, None


def read_value(text: str, path: str, findings: Findings, *, an_object: bool) -> ValueTemplate | None:
    """Reads JSON whose strings may be templates. Returns None for what has violations."""
    before = len(findings.violations)
    value = read_json(text, path, findings, an_object=an_object)
    if len(findings.violations) > before or findings.full:
        return None
    try:
        return compile_value(value, path)
    except TemplateError as error:
        findings.extend(error.violations)
        return None


def read_json(text: str, path: str, findings: Findings, *, an_object: bool) -> object:
    """Reads JSON of at most 4 MiB. Returns None for what has violations."""
    if json_text.exceeds(text, json_text.INPUT_BYTES):
        size = json_text.size(text)
        findings.add(path, f"{size:,} bytes are more than {json_text.INPUT_BYTES:,}; pass large data by reference")
        return None
    try:
        return json_text.parse_object(text) if an_object else json_text.parse(text)
    except json_text.NotJson as error:
        findings.add(path, str(error))
        return None
