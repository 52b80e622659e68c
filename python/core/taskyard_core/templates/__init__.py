"""The one template language: `${inputs.x}`, `${steps.a.output.b}`, `${run.id}`, `${secret:name}` and so on.

Compiled once when a definition is read, rendered when a step becomes ready. It looks values up and does
nothing else: no expressions, no calls. The grammar is in `parser`.
"""

from taskyard_core.templates.check import check, check_workflow
from taskyard_core.templates.errors import RenderError, TemplateError
from taskyard_core.templates.late import fill_input, fill_params
from taskyard_core.templates.parser import escape
from taskyard_core.templates.references import Reference
from taskyard_core.templates.scope import Scope
from taskyard_core.templates.template import Template, ValueTemplate, compile_text, compile_value

__all__ = [
    "Reference",
    "RenderError",
    "Scope",
    "Template",
    "TemplateError",
    "ValueTemplate",
    "check",
    "check_workflow",
    "compile_text",
    "compile_value",
    "escape",
    "fill_input",
    "fill_params",
]
