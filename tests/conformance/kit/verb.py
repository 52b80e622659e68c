"""The table of verbs: each is a function whose arguments are the fields that a step may have."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Play = Callable[..., Awaitable[None]]

KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "str": ("text", (str,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "Names": ("a list of names", (list,)),
    "Object": ("a mapping", (dict,)),
    "Anything": ("anything", (object,)),
}
"""How fields are annotated, what that is called, and what YAML makes of it."""

Names = list[str]
Object = dict[str, Any]
Anything = object


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a verb. `required`: a step must have it."""

    kind: str
    required: bool

    def fits(self, value: object) -> bool:
        """Tells whether a step may give this value."""
        if isinstance(value, bool) and self.kind not in ("bool", "Anything"):
            return False
        return isinstance(value, KINDS[self.kind][1])


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb. `schedulers`: with which of them a scenario may use it; `main`: the field that a bare value is."""

    name: str
    play: Play
    schedulers: tuple[str, ...]
    fields: dict[str, Field]
    main: str
    rest: bool

    @property
    def about(self) -> str:
        """What it does, for people."""
        return (self.play.__doc__ or "").partition("\n")[0]


VERBS: dict[str, Verb] = {}


def verb(*schedulers: str) -> Callable[[Play], Play]:
    """Makes a function a verb of scenarios with these schedulers; its parameters after the stage are the fields."""

    def register(play: Play) -> Play:
        name = play.__name__
        parameters = list(inspect.signature(play).parameters.values())[1:]
        rest = any(each.kind is each.VAR_KEYWORD for each in parameters)
        named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
        fields = {each.name: Field(_kind(each.annotation), each.default is each.empty) for each in named}
        VERBS[name] = Verb(name, play, schedulers or ("scripted", "real"), fields, next(iter(fields), ""), rest)
        return play

    return register


def _kind(annotation: str) -> str:
    return annotation.removesuffix(" | None")
