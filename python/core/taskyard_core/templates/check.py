"""Checks the references of templates against what a definition offers: its inputs and its steps' order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from taskyard_core.dag import Graph
from taskyard_core.templates.errors import TemplateError
from taskyard_core.templates.references import STEPS, Reference
from taskyard_core.templates.template import Template, ValueTemplate
from taskyard_core.violations import Violation, cut, suggestion

VIOLATIONS_LIMIT = 20
"""Checking stops after so many: an answer carries no more."""


def check(
    template: Template | ValueTemplate,
    inputs: Collection[str] | None,
    upstream: Collection[str],
    steps: Collection[str] = (),
) -> list[Violation]:
    """Return at most 20 references of a template that a definition cannot satisfy.

    Args:
        template: A compiled text or value.
        inputs: Names of the declared inputs; None when any may be given.
        upstream: Ids of the steps that end before the template's step, directly or through others.
        steps: Ids of all steps, to tell a step that is not upstream from one that does not exist.
    """
    found: list[Violation] = []
    for text in template.templates if isinstance(template, ValueTemplate) else (template,):
        for reference in text.references:
            said = _step_fault(reference, upstream, steps) or _input_fault(reference, inputs)
            if said:
                found += TemplateError(text.field, text.source, reference.position, said).violations
                if len(found) == VIOLATIONS_LIMIT:
                    return found
    return found


def check_workflow(
    templates: Sequence[tuple[int, Template | ValueTemplate]], graph: Graph, inputs: Collection[str] | None
) -> list[Violation]:
    """Check the templates of a whole workflow at once, in time that grows about linearly with its size.

    Args:
        templates: Each with the index of the step that it belongs to.
        graph: The workflow's steps.
        inputs: Names of the declared inputs; None when any may be given.

    Returns:
        At most 20 violations, in the templates' order.
    """
    upstream = _upstream_read(templates, graph)
    found: list[Violation] = []
    for step, template in templates:
        found += check(template, inputs, upstream.get(step, ()), graph.index)
        if len(found) >= VIOLATIONS_LIMIT:
            break
    return found[:VIOLATIONS_LIMIT]


def _upstream_read(templates: Iterable[tuple[int, Template | ValueTemplate]], graph: Graph) -> dict[int, set[str]]:
    """Return for each step the ids that its templates read and that are upstream of it."""
    pairs = {
        (graph.index[reference.step], step)
        for step, template in templates
        for reference in template.references
        if reference.step is not None and reference.step in graph.index
    }
    upstream: dict[int, set[str]] = {}
    for above, step in graph.upstream_pairs(pairs):
        upstream.setdefault(step, set()).add(graph.ids[above])
    return upstream


def _step_fault(reference: Reference, upstream: Collection[str], steps: Collection[str]) -> str | None:
    step = reference.step
    if reference.root != STEPS or step is None or step in upstream:
        return None
    if step in steps:
        return (
            f"step {cut(step)} does not end before this one, so its output is not there yet; add it to the"
            " step's needs, or to those of a step upstream"
        )
    hint = suggestion(step, steps or upstream)
    return f"there is no step {cut(step)}; name one of those that this step depends on.{hint}"


def _input_fault(reference: Reference, inputs: Collection[str] | None) -> str | None:
    name = reference.input
    if name is None or inputs is None or name in inputs:
        return None
    hint = suggestion(name, inputs)
    return f"there is no input {cut(name)}; declare it, or name one that is declared.{hint}"
