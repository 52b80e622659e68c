"""Checks values of typed input against a handler's annotations `int`, `float`, `bool`, `str`, and these beside None.

What else is annotated is the handler's business. Not for flat parameters, which are text (`flat`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from inspect import Parameter

from taskyard_worker.errors import InvalidInput

SHOWN = 200
"""Most characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a parameter takes. `types`: exactly these, of which JSON makes values; a bool is no int."""

    types: tuple[type, ...]
    wanted: str
    example: str

    def allows(self, value: object) -> bool:
        """Tell whether the parameter takes the value."""
        return type(value) in self.types

    def refusal(self, name: str, value: object, step: str) -> InvalidInput:
        """Return the error for a value that it does not take; `step`: the step's id, or the empty string."""
        shown = json.dumps(value, ensure_ascii=False)[:SHOWN]
        typed = f"{{{json.dumps(name, ensure_ascii=False)}: {self.example}}}"
        way = f"for example --input '{typed}'"
        if step:
            way = f"in the run's input, or in the workflow file, for example `input: {typed}` of step {step!r}"
        return InvalidInput(
            f"input.{name} is {shown}, but the handler's parameter {name!r} is {self.wanted}; give {self.wanted}, {way}"
        )


_RULES = {
    "int": Rule((int,), "a whole number", "3"),
    "float": Rule((float, int), "a number", "0.5"),
    "bool": Rule((bool,), "true or false", "true"),
    "str": Rule((str,), "a text", '"text"'),
}


def rule_of(parameter: Parameter) -> Rule | None:
    """Return what a parameter takes by its annotation, itself or as text; None: anything.

    None is taken beside `| None`, and where it is the default.
    """
    annotation = parameter.annotation
    name = annotation.__name__ if annotation in (int, float, bool, str) else str(annotation)
    rule = _RULES.get(name.removesuffix(" | None"))
    if rule is None or not (name.endswith(" | None") or parameter.default is None):
        return rule
    return Rule((*rule.types, type(None)), f"{rule.wanted} or null", rule.example)
