"""Makes numbers and truth values of flat parameters, which are text, where a handler's annotation asks for them.

Not for typed input, of whose texts no numbers are made (`typed`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from taskyard_worker.errors import InvalidInput

SHOWN = 200
"""Most characters of a value that are shown."""
MAX_DIGITS = 1000
_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_UNION = re.compile(r"(Optional|Union)\[([^\[\]]*)\]")
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}

Reader = Callable[[str, str, str], Any]
"""Makes a value of a parameter's name and text, or raises InvalidInput; third: the step's id, or the empty string."""


def reader_of(annotation: object) -> Reader | None:
    """Return what makes a value of a text for an annotation, itself or as text, or None beside it.

    None: text stays text.
    """
    return _READERS.get(plain_name(annotation)[0])


def plain_name(annotation: object) -> tuple[str, bool]:
    """Return the name of a plain type that an annotation is or has as text, and whether None is taken beside it.

    Taken alike: `int | None`, `None | int`, `Optional[int]`, `Union[int, None]`, themselves and as text. Of what is no
    plain type or is several, the name is none of theirs.
    """
    if isinstance(annotation, str):
        return _name_in(annotation)
    if isinstance(annotation, type):
        return annotation.__name__ if annotation in (int, float, bool, str) else "", False
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    return _one_of([plain_name(choice)[0] if choice is not type(None) else "None" for choice in choices])


def _name_in(text: str) -> tuple[str, bool]:
    text = text.replace(" ", "").removeprefix("typing.")
    if found := _UNION.fullmatch(text):
        return _one_of([*found[2].split(","), *(["None"] if found[1] == "Optional" else [])])
    return _one_of(text.split("|"))


def _one_of(choices: Sequence[str]) -> tuple[str, bool]:
    """Return the one choice beside None, and whether that is there."""
    names = [choice for choice in choices if choice != "None"]
    return (names[0], len(names) < len(choices)) if len(names) == 1 else ("", False)


def whole_number(name: str, text: str, step: str = "") -> int:
    """Read an int. Raises InvalidInput."""
    if not _WHOLE.fullmatch(text.strip()):
        raise _refusal(name, text, step, "a whole number", "3")
    return int(text)


def number(name: str, text: str, step: str = "") -> float:
    """Read a float that is finite. Raises InvalidInput."""
    value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(value):
        raise _refusal(name, text, step, "a number", "0.5")
    return value


def truth(name: str, text: str, step: str = "") -> bool:
    """Read a bool: true, false, yes, no, 1, 0. Raises InvalidInput."""
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise _refusal(name, text, step, "true or false", "true")
    return value


_READERS: dict[str, Reader] = {"int": whole_number, "float": number, "bool": truth}


def _refusal(name: str, text: str, step: str, wanted: str, example: str) -> InvalidInput:
    typed = json.dumps({name: json.loads(example)}, ensure_ascii=False)
    way = f"send typed input: --input '{typed}'"
    if step:
        way = f"correct the run's input, or send typed input in the workflow file: `input: {typed}` of step {step!r}"
    return InvalidInput(
        f"params.{name} is {text[:SHOWN]!r}, but the handler's parameter {name!r} is {wanted}; give {wanted}, "
        f"for example {example}, or {way}"
    )
