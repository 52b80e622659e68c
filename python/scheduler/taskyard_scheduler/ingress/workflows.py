"""Workflow definitions: checked whole, every fault named at once, and compiled into what runs need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.dag import Graph, TriggerRule, validate
from taskyard_core.names import check_step_id
from taskyard_core.records import Policy
from taskyard_core.templates import (
    Scope,
    Template,
    TemplateError,
    ValueTemplate,
    check,
    check_workflow,
    compile_text,
    compile_value,
)
from taskyard_core.violations import Violation, cut
from taskyard_core.workflow import StepPlan, WorkflowVersion
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.merging import merge_definitions
from taskyard_scheduler.ingress.policies import parts_of, read_policy
from taskyard_scheduler.ingress.tasks import PRIORITY, not_found, size_fault
from taskyard_scheduler.ingress.texts import (
    DESCRIPTION_LIMIT,
    name_fault,
    params_fault,
    text_fault,
    type_fault,
)

__all__ = ["compile_stored", "content_hash", "merge_definitions", "read_workflow"]

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
_NOWHERE: Final = Scope({}, {}, "", 1, "")


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
            findings.add(f"{_at(place)}.task_name", f"step {cut(step.id)}: {not_found(step.task_name, definitions)}")
    return _Reader(findings).read(tenant, merge_definitions(workflow, definitions))


def compile_stored(tenant: str, workflow: workflows_pb2.Workflow) -> WorkflowVersion:
    """Compiles a workflow that `merge_definitions` made and that was stored.

    Task definitions are not looked at: what the steps took of them is in the workflow, so that a definition changed
    since does not change a version.

    Raises:
        InvalidInput: A newer release stored it under rules that this one does not know.
    """
    return _Reader(Findings()).read(tenant, workflow)


def content_hash(workflow: workflows_pb2.Workflow) -> bytes:
    """Returns 16 bytes of everything but what the scheduler gives: version and time."""
    bare = workflows_pb2.Workflow()
    bare.CopyFrom(workflow)
    bare.ClearField("version")
    bare.ClearField("create_time")
    return blake2b(bare.SerializeToString(deterministic=True), digest_size=16).digest()


@dataclass(slots=True)
class _Work:
    """What a step is to do, compiled."""

    params: tuple[tuple[str, Template], ...] = ()
    constant_params: str | None = ""
    input: ValueTemplate | None = None
    constant_input: str | None = ""

    def templates(self) -> Iterator[Template | ValueTemplate]:
        yield from (template for _, template in self.params if not template.is_constant)
        if self.input is not None and not self.input.is_constant:
            yield self.input


@dataclass(slots=True)
class _Reader:
    """Reads one workflow whose definitions are merged in; goes on after a fault, so that all are named at once."""

    findings: Findings
    templates: list[tuple[int, Template | ValueTemplate]] = field(default_factory=list)

    def read(self, tenant: str, workflow: workflows_pb2.Workflow) -> WorkflowVersion:
        findings = self.findings
        findings.add(f"{PATH}.name", name_fault(workflow.name))
        findings.add(f"{PATH}.description", text_fault(workflow.description, DESCRIPTION_LIMIT))
        if not 1 <= len(workflow.steps) <= STEPS_LIMIT:
            way = "give at least one" if not workflow.steps else "split it into several workflows"
            findings.add(f"{PATH}.steps", f"{len(workflow.steps):,} steps are outside 1 to {STEPS_LIMIT:,}; {way}")
            findings.raise_any()
        inputs = self._inputs(workflow)
        steps = tuple(self._step(place, step) for place, step in enumerate(workflow.steps))
        output = self._value(workflow.output_json, f"{PATH}.output_json", "") if workflow.output_json else None
        graph = self._graph(workflow)
        self._check_references(graph, workflow, dict(inputs), output)
        findings.raise_any()
        if graph is None:
            raise AssertionError("a workflow without a graph has violations")
        kept = self._kept(graph, output)
        return WorkflowVersion(tenant, workflow.name, workflow.version, graph, steps, inputs, output, kept)

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
            if each.default_json:
                self._json(each.default_json, f"{path}.default_json", f"input {cut(each.name)}")
            inputs[each.name] = each.default_json or None
        return tuple(inputs.items())

    def _step(self, place: int, step: workflows_pb2.WorkflowStep) -> StepPlan:
        findings, path = self.findings, _at(place)
        if findings.full:
            return StepPlan(step.id, step.task_type)
        who = f"step {cut(step.id)}"
        findings.add(f"{path}.id", check_step_id(step.id))
        if not step.task_type and not step.task_name:
            findings.add(f"{path}.task_type", f"{who} names neither a task type nor a definition; give one of them")
        elif step.task_type:
            findings.add(f"{path}.task_type", _told(who, type_fault(step.task_type)))
        findings.add(f"{path}.description", _told(who, text_fault(step.description, DESCRIPTION_LIMIT)))
        if step.HasField("priority"):
            findings.add(f"{path}.priority", _told(who, outside(step.priority, 1, 10)))
        policy, stored = self._policy(step, path)
        work = self._work(step, path, who)
        self.templates += [(place, template) for template in work.templates()]
        return StepPlan(
            step.id,
            step.task_type,
            step.task_name,
            step.priority if step.HasField("priority") else PRIORITY,
            policy,
            stored,
            work.params,
            work.input,
            work.constant_params,
            work.constant_input,
        )

    def _policy(self, step: workflows_pb2.WorkflowStep, path: str) -> tuple[Policy, str]:
        read = read_policy(parts_of(step))
        if read.violations:
            self.findings.extend(read.violations, f"{path}.")
        return read.policy, read.stored

    def _work(self, step: workflows_pb2.WorkflowStep, path: str, who: str) -> _Work:
        work = _Work()
        if step.params:
            params = {name: step.params[name] for name in sorted(step.params)}
            fault = params_fault(params)
            if fault:
                self.findings.add(member(f"{path}.params", fault[0]), _told(who, fault[1]))
            work.params = tuple(self._params(params, path))
            constant = all(template.is_constant for _, template in work.params)
            texts = {name: template.literal for name, template in work.params}
            work.constant_params = json_text.dump_texts(texts) if constant else None
        if step.input_json:
            work.input = self._value(step.input_json, f"{path}.input_json", who)
            if work.input is not None:
                constant = work.input.is_constant
                work.constant_input = json_text.dump(work.input.render(_NOWHERE)) if constant else None
        self.findings.add(f"{path}.params", _told(who, size_fault(work.constant_params or "", step.input_json)))
        return work

    def _params(self, params: Mapping[str, str], path: str) -> Iterator[tuple[str, Template]]:
        for name, source in params.items():
            try:
                yield name, compile_text(source, member(f"{path}.params", name))
            except TemplateError as error:
                self.findings.extend(error.violations)

    def _value(self, text: str, path: str, who: str) -> ValueTemplate | None:
        """Reads JSON whose strings may be templates; a step's must be an object."""
        value = self._json(text, path, who, an_object=bool(who))
        if value is None and text.strip() != "null":
            return None
        try:
            return compile_value(value, path)
        except TemplateError as error:
            self.findings.extend(error.violations)
            return None

    def _json(self, text: str, path: str, who: str, *, an_object: bool = False) -> object:
        if json_text.exceeds(text, json_text.INPUT_BYTES):
            self.findings.add(
                path,
                _told(who, f"{len(text):,} characters are more than 4 MiB; pass large data by reference"),
            )
            return None
        try:
            return json_text.parse_object(text) if an_object else json_text.parse(text)
        except json_text.NotJson as error:
            self.findings.add(path, _told(who, str(error)))
            return None

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
                self.findings.add(f"{_at(place)}.trigger_rule", sentence)
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
        everything = [template for _, template in self.templates] + ([output] if output is not None else [])
        for template in everything:
            findings.extend(_secrets(template))

    def _kept(self, graph: Graph, output: ValueTemplate | None) -> frozenset[int]:
        references = [reference for _, template in self.templates for reference in template.references]
        if output is not None:
            references += output.references
        return frozenset(graph.index[reference.step] for reference in references if reference.step is not None)


_NAMED: Final = [value for value in workflows_pb2.TriggerRule.DESCRIPTOR.values if value.number]


def _secrets(template: Template | ValueTemplate) -> Iterator[Violation]:
    """Refuses references to secrets: nothing keeps any yet, so that such a step could only fail at run time."""
    for text in template.templates if isinstance(template, ValueTemplate) else (template,):
        for reference in text.references:
            if reference.secret is not None:
                sentence = "this scheduler keeps no secrets; let the worker read it from its own environment"
                yield from TemplateError(text.field, text.source, reference.position, sentence).violations


def _at(place: int) -> str:
    return f"{PATH}.steps[{place}]"


def _told(who: str, said: str | None) -> str | None:
    return f"{who}: {said}" if said and who else said
