"""Checks values of typed input against a handler's annotations `int`, `float`, `bool`, `str`, and these or None.

What else is annotated is the handler's business. Not for flat parameters, which are text (`flat`).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from inspect import Parameter

from taskyard_worker.errors import InvalidInput
from taskyard_worker.flat import plain_name

SHOWN = 200
"""Most characters of a value that are shown."""
EXAMPLE = 40
"""Most characters of a value that is shown as it should be written."""


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
        typed = f"{{{json.dumps(name, ensure_ascii=False)}: {self._example(value)}}}"
        way = f"for example --input {shlex.quote(typed)}"
        if step:
            way = f"in the run's input, or in the workflow file, for example `input: {typed}` of step {step!r}"
        wanted = self.wanted if value is not None else f"{self.wanted}, or leave {name!r} out if it has a default"
        return InvalidInput(
            f"input.{name} is {shown}, but the handler's parameter {name!r} is {self.wanted}; give {wanted}, {way}; "
            f"or have the handler take it: `{name}: {self.annotation(value)}`"
        )

    def _example(self, value: object) -> str:
        """Return how a value is written that it takes: of a number for a text, that number as a text."""
        if str in self.types and isinstance(value, int | float):
            text = json.dumps(json.dumps(value))
            return text if len(text) <= EXAMPLE else self.example
        return self.example

    def annotation(self, value: object) -> str:
        """Return the annotation that would take the value as well, or everything."""
        own = [kind.__name__ for kind in self.types if kind is not type(None)][:1]
        given = {type(None): "None", int: "int", float: "float", bool: "bool", str: "str"}.get(type(value))
        if given is None:
            return "Any"
        return " | ".join([*own, given, *(["None"] if type(None) in self.types else [])])


_RULES = {
    "int": Rule((int,), "a whole number", "3"),
    "float": Rule((float, int), "a number", "0.5"),
    "bool": Rule((bool,), "true or false", "true"),
    "str": Rule((str,), "a text", '"text"'),
}


def rule_of(parameter: Parameter) -> Rule | None:
    """Return what a parameter takes by its annotation, itself or as text; None: anything.

    None is taken where the annotation has it (`int | None`, `Optional[int]`), and where it is the default.
    """
    name, optional = plain_name(parameter.annotation)
    rule = _RULES.get(name)
    if rule is None or not (optional or parameter.default is None):
        return rule
    return Rule((*rule.types, type(None)), f"{rule.wanted} or null", rule.example)
