"""Workflow definitions: checked whole, every fault named at once, and compiled into what runs need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.dag import Graph, TriggerRule, validate
from taskyard_core.names import check_step_id
from taskyard_core.templates import (
    Reference,
    Template,
    TemplateError,
    ValueTemplate,
    check,
    check_workflow,
)
from taskyard_core.violations import Violation, cut
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress.findings import Findings, outside
from taskyard_scheduler.ingress.input_types import type_fault, value_fault
from taskyard_scheduler.ingress.merging import merge_definitions
from taskyard_scheduler.ingress.steps import StepReader, read_json, read_value
from taskyard_scheduler.ingress.tasks import not_found
from taskyard_scheduler.ingress.texts import (
    DESCRIPTION_LIMIT,
    name_fault,
    text_fault,
)

__all__ = ["compile_stored", "content_hash", "merge_definitions", "read_source", "read_workflow"]

STEPS_LIMIT: Final = 100_000
INPUTS_LIMIT: Final = 1_000
PATH: Final = "workflow"

Definitions = Mapping[str, tasks_pb2.TaskDefinition]

_RULES: Final = {
    workflows_pb2.TRIGGER_RULE_UNSPECIFIED: TriggerRule.ALL_SUCCESS,
    workflows_pb2.TRIGGER_RULE_ALL_SUCCESS: TriggerRule.ALL_SUCCESS,
    workflows_pb2.TRIGGER_RULE_ALL_DONE: TriggerRule.ALL_DONE,
    workflows_pb2.TRIGGER_RULE_ONE_SUCCESS: TriggerRule.ONE_SUCCESS,
    workflows_pb2.TRIGGER_RULE_ONE_FAILED: TriggerRule.ONE_FAILED,
    workflows_pb2.TRIGGER_RULE_NONE_FAILED: TriggerRule.NONE_FAILED,
}


def read_workflow(tenant: str, workflow: workflows_pb2.Workflow, definitions: Definitions) -> WorkflowVersion:
    """Checks a workflow as it was written and compiles it, its definitions merged in.

    Args:
        tenant: Whose it is.
        workflow: The definition; its `version` is taken over.
        definitions: The tenant's task definitions by name.

    Raises:
        InvalidInput: It breaks rules; at most 20 violations, whose fields begin with `workflow.`.
    """
    findings = Findings()
    for place, step in enumerate(workflow.steps):
        if step.task_name and step.task_name not in definitions:
            sentence = f"step {cut(step.id)}: {not_found(step.task_name, definitions)}"
            findings.add(f"{PATH}.steps[{place}].task_name", sentence)
    return _Reader(findings).read(tenant, merge_definitions(workflow, definitions))


def read_source(request: workflows_pb2.ApplyWorkflowRequest) -> str:
    """Returns the set that a workflow is to be put into, empty for where it is.

    Raises:
        InvalidInput: It is no name.
    """
    findings = Findings()
    if request.source:
        findings.add("source", name_fault(request.source))
    findings.raise_any()
    return request.source


def compile_stored(tenant: str, workflow: workflows_pb2.Workflow) -> WorkflowVersion:
    """Compiles a workflow that `merge_definitions` made and that was stored.

    Task definitions are not looked at: what the steps took of them is in the workflow, so that a definition changed
    since does not change a version.

    Raises:
        InvalidInput: A newer release stored it under rules that this one does not know.
    """
    return _Reader(Findings()).read(tenant, workflow)


def content_hash(workflow: workflows_pb2.Workflow) -> bytes:
    """Returns 16 bytes of everything but what the scheduler gives: version, time and set."""
    bare = workflows_pb2.Workflow()
    bare.CopyFrom(workflow)
    bare.ClearField("version")
    bare.ClearField("create_time")
    bare.ClearField("source")
    return blake2b(bare.SerializeToString(deterministic=True), digest_size=16).digest()


@dataclass(slots=True)
class _Reader:
    """Reads one workflow whose definitions are merged in; goes on after a fault, so that all are named at once."""

    findings: Findings
    templates: Sequence[tuple[int, Template | ValueTemplate]] = ()

    def read(self, tenant: str, workflow: workflows_pb2.Workflow) -> WorkflowVersion:
        findings = self.findings
        findings.add(f"{PATH}.name", name_fault(workflow.name))
        findings.add(f"{PATH}.description", text_fault(workflow.description, DESCRIPTION_LIMIT))
        if not 1 <= len(workflow.steps) <= STEPS_LIMIT:
            way = "give at least one" if not workflow.steps else "split it into several workflows"
            findings.add(f"{PATH}.steps", f"{len(workflow.steps):,} steps are outside 1 to {STEPS_LIMIT:,}; {way}")
            findings.raise_any()
        inputs = self._inputs(workflow)
        reader = StepReader(f"{PATH}.steps", findings)
        steps = tuple(reader.read(place, step) for place, step in enumerate(workflow.steps))
        self.templates = reader.templates
        output = None
        if workflow.output_json:
            output = read_value(workflow.output_json, f"{PATH}.output_json", findings, an_object=False)
        graph = self._graph(workflow)
        self._check_references(graph, workflow, dict(inputs), output)
        findings.raise_any()
        if graph is None:
            raise AssertionError("a workflow without a graph has violations")
        references = self._references(output)
        kept = frozenset(graph.index[each.step] for each in references if each.step is not None)
        variables = frozenset(each.variable for each in references if each.variable is not None)
        types = tuple((each.name, each.type) for each in workflow.inputs if each.type)
        return WorkflowVersion(
            tenant, workflow.name, workflow.version, graph, steps, inputs, output, kept, variables, types
        )

    def _inputs(self, workflow: workflows_pb2.Workflow) -> tuple[tuple[str, str | None], ...]:
        findings = self.findings
        if len(workflow.inputs) > INPUTS_LIMIT:
            said = outside(len(workflow.inputs), 0, INPUTS_LIMIT)
            findings.add(f"{PATH}.inputs", said)
        inputs: dict[str, str | None] = {}
        for place, each in enumerate(workflow.inputs):
            path = f"{PATH}.inputs[{place}]"
            said = check_step_id(each.name)
            findings.add(f"{path}.name", said.replace("a step's id", "an input's name") if said else None)
            if each.name in inputs:
                findings.add(f"{path}.name", f"{cut(each.name)} is declared twice; rename or remove one of the two")
            findings.add(f"{path}.description", text_fault(each.description, DESCRIPTION_LIMIT))
            findings.add(f"{path}.type", type_fault(each.type))
            if each.default_json:
                self._default(each, f"{path}.default_json")
            inputs[each.name] = each.default_json or None
        return tuple(inputs.items())

    def _default(self, given: workflows_pb2.WorkflowInput, path: str) -> None:
        before = len(self.findings.violations)
        value = read_json(given.default_json, path, self.findings, an_object=False)
        if len(self.findings.violations) == before and value is not None:
            self.findings.add(path, value_fault(given.type, given.name, value))

    def _graph(self, workflow: workflows_pb2.Workflow) -> Graph | None:
        bare = [(step.id, tuple(step.needs)) for step in workflow.steps]
        found = validate(bare, f"{PATH}.steps", "needs")
        self.findings.extend(found)
        rules = []
        for place, step in enumerate(workflow.steps):
            rule = _RULES.get(step.trigger_rule)
            if rule is None:
                names = ", ".join(each.name.removeprefix("TRIGGER_RULE_") for each in _NAMED)
                sentence = f"step {cut(step.id)}: {step.trigger_rule} is no trigger rule; choose one of {names}"
                self.findings.add(f"{PATH}.steps[{place}].trigger_rule", sentence)
            rules.append(rule or TriggerRule.ALL_SUCCESS)
        if found:
            return None
        return Graph([(id, needs, rule) for (id, needs), rule in zip(bare, rules, strict=True)])

    def _check_references(
        self,
        graph: Graph | None,
        workflow: workflows_pb2.Workflow,
        inputs: Mapping[str, str | None],
        output: ValueTemplate | None,
    ) -> None:
        findings = self.findings
        ids = graph.index if graph is not None else {step.id: 0 for step in workflow.steps}
        if graph is not None:
            findings.extend(check_workflow(self.templates, graph, inputs))
        else:  # without a graph, only what exists nowhere can be told
            for _, template in self.templates:
                findings.extend(check(template, inputs, ids, ids))
        if output is not None:
            findings.extend(check(output, inputs, ids, ids))
            findings.extend(_attempts(output))
        everything = [template for _, template in self.templates] + ([output] if output is not None else [])
        for template in everything:
            findings.extend(_secrets(template))

    def _references(self, output: ValueTemplate | None) -> list[Reference]:
        references = [reference for _, template in self.templates for reference in template.references]
        return references + list(output.references) if output is not None else references


_NAMED: Final = [value for value in workflows_pb2.TriggerRule.DESCRIPTOR.values if value.number]


def _attempts(output: ValueTemplate) -> Iterator[Violation]:
    """Refuses references of the run's output to an attempt: attempts are of steps."""
    for text in output.templates:
        for reference in text.references:
            if reference.of_attempt:
                sentence = "attempts are counted for each step, and this is the output of the run; leave it out"
                yield TemplateError(text.field, text.source, reference.position, sentence).violations[0]


def _secrets(template: Template | ValueTemplate) -> Iterator[Violation]:
    """Refuses references to secrets: nothing keeps any yet, so that such a step could only fail at run time."""
    for text in template.templates if isinstance(template, ValueTemplate) else (template,):
        for reference in text.references:
            if reference.secret is not None:
                sentence = "this scheduler keeps no secrets; let the worker read it from its own environment"
                yield from TemplateError(text.field, text.source, reference.position, sentence).violations
