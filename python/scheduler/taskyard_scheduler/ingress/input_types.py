"""Types of a workflow's inputs: what each takes, and what is said to who gives something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.artifacts import is_value
from taskyard_core.violations import cut
from taskyard_scheduler.ingress import json_text


@dataclass(frozen=True, slots=True)
class InputType:
    """What an input takes: the types that JSON makes of it (a bool is no int), in words, and an example in JSON."""

    types: tuple[type, ...]
    wanted: str
    example: str


_TYPES: Final = {
    pb.INPUT_TYPE_STRING: InputType((str,), "a text", '"text"'),
    pb.INPUT_TYPE_INTEGER: InputType((int,), "a whole number", "3"),
    pb.INPUT_TYPE_NUMBER: InputType((int, float), "a number", "0.5"),
    pb.INPUT_TYPE_BOOLEAN: InputType((bool,), "true or false", "true"),
    pb.INPUT_TYPE_ARRAY: InputType((list,), "a list", '["a", "b"]'),
    pb.INPUT_TYPE_OBJECT: InputType((dict,), "an object", '{"key": "value"}'),
}
_SHOWN: Final = 60


def type_fault(type_: int) -> str | None:
    """Returns what is wrong with the number of a type."""
    if type_ in _TYPES or not type_:
        return None
    names = ", ".join(pb.InputType.Name(each).removeprefix("INPUT_TYPE_") for each in _TYPES)
    return f"{type_} is no type of an input; choose one of {names}"


def value_fault(type_: int, name: str, value: object, default: str | None = None) -> str | None:
    """Returns what is wrong with a value of an input, and how a good one is written.

    Args:
        type_: A number of `taskyard.v1.InputType`.
        name: The input's name.
        value: As JSON has it.
        default: The input's default as JSON; null is taken where it is that.
    """
    known = _TYPES.get(pb.InputType.ValueType(type_))
    if known is None or type(value) in known.types or (value is None and default == "null"):
        return None
    if isinstance(value, str) and is_value(value):
        return None
    example = _as_text(value) if type_ == pb.INPUT_TYPE_STRING else known.example
    word = pb.InputType.Name(pb.InputType.ValueType(type_)).removeprefix("INPUT_TYPE_").lower()
    shown = cut(json_text.dump(value), _SHOWN) if not isinstance(value, str) else f"the text {cut(value, _SHOWN)}"
    return (
        f"{shown} is not {known.wanted}, and the workflow's input {cut(name, _SHOWN)} has the type {word}; give "
        f"{known.wanted} in JSON, for example {example} (`taskyard run -i {_shell(f'{name}={example}')}`)"
    )


def _as_text(value: object) -> str:
    """Returns a value that is no text as one in JSON, if it is short: who wrote 5 most likely meant "5"."""
    text = json_text.dump(value)
    return f'"{text}"' if isinstance(value, int | float) and len(text) <= _SHOWN else '"text"'


def _shell(text: str) -> str:
    return text if text.replace("=", "").replace(".", "").replace("-", "").isalnum() else f"'{text}'"
