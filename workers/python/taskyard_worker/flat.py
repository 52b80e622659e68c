"""Makes numbers and truth values of flat parameters, which are text, where a handler's annotation asks for them.

Not for typed input, of whose texts no numbers are made (`typed`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from taskyard_worker.errors import InvalidInput

SHOWN = 200
"""Most characters of a value that are shown."""
MAX_DIGITS = 1000
_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}

Reader = Callable[[str, str, str], Any]
"""Makes a value of a parameter's name and text, or raises InvalidInput; third: the step's id, or the empty string."""


def reader_of(annotation: object) -> Reader | None:
    """Return what makes a value of a text for an annotation, itself or as text, or None beside it.

    None: text stays text.
    """
    plain = annotation in (int, float, bool)
    name = getattr(annotation, "__name__", "") if plain else str(annotation)
    return _READERS.get(name.removesuffix(" | None"))


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
