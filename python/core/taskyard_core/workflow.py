"""One version of a workflow, compiled once and shared by its runs. Validation and the wire form are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from taskyard_core.dag import Graph
from taskyard_core.records import Policy
from taskyard_core.templates import Template, ValueTemplate


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What becomes of a step when it is ready.

    `params` are the flat parameters' templates, `input` the typed input's; None for none. `constant_params` and
    `constant_input` are their JSON when nothing in them is to be rendered, so that a run need not look at them.
    """

    id: str
    task_type: str
    task_name: str = ""
    priority: int = 5
    policy: Policy = field(default_factory=Policy)
    policy_json: str = ""
    params: tuple[tuple[str, Template], ...] = ()
    input: ValueTemplate | None = None
    constant_params: str | None = ""
    constant_input: str | None = ""


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """A workflow as runs need it.

    `inputs` are (name, default as JSON or None when a run must give it). `kept` are the steps whose outputs some
    template reads: a run in memory keeps those and no others. `variables` are the names of the tenant's variables that
    some template reads. `input_types` are the inputs that say of which type they are, and the number of that in
    `taskyard.v1.InputType`.
    """

    tenant: str
    name: str
    version: int
    graph: Graph
    steps: tuple[StepPlan, ...]
    inputs: tuple[tuple[str, str | None], ...] = ()
    output: ValueTemplate | None = None
    kept: frozenset[int] = frozenset()
    variables: frozenset[str] = frozenset()
    input_types: tuple[tuple[str, int], ...] = ()
