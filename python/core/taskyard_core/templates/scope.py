"""What templates can see at run time, and how a reference finds its value in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskyard_core.artifacts import holds_value, is_value, member
from taskyard_core.templates.errors import RenderError
from taskyard_core.templates.late import ATTEMPT_MARK
from taskyard_core.templates.references import INPUTS, RUN, SECRET, STEPS, VARS, Reference, Segment
from taskyard_core.violations import cut, suggestion

RENDER_LIMIT: Final = 4 * 1024 * 1024
"""Characters that one rendering may produce; the limit of a task's input (which counts bytes)."""
UNWEIGHED: Final = 8
"""So many values taken over whole are not weighed; together they stay within a small multiple of one."""
KEYS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Scope:
    """The values that the templates of one step can see.

    Attributes:
        inputs: The run's inputs by name.
        steps: Output by step id, of the steps that succeeded; each output is a JSON-like value.
        run: What is known of the run itself, by the fields of `${run...}`; the attempt is filled in later.
        trigger_time: The time that the run stands for, as text (RFC 3339).
        variables: The tenant's variables by name, those that the workflow reads.
        secrets: Values by name, where they may be resolved; None elsewhere.
        begun: False before the run has begun: a reference to what only comes then (a step's output, the attempt)
            renders as it was written.
    """

    inputs: Mapping[str, object]
    steps: Mapping[str, object]
    run: Mapping[str, object] = field(default_factory=dict)
    trigger_time: str = ""
    variables: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] | None = None
    begun: bool = True


class Rendering:
    """One rendering in progress: the scope, and how much text it may still produce."""

    __slots__ = ("_left", "_limit", "_taken", "_weights", "scope")

    def __init__(self, scope: Scope, limit: int) -> None:
        self.scope = scope
        self._limit = limit
        self._left = limit
        self._taken = 0
        self._weights: dict[tuple[str, tuple[Segment, ...]], int] = {}

    def charge(self, size: int, field: str, reference: Reference) -> None:
        """Count characters that a reference produced.

        Raises:
            RenderError: They are too many, together with those before.
        """
        self._left -= size
        if self._left < 0:
            sentence = f"the rendered value passes {self._limit} characters; pass large values as artifacts"
            raise RenderError(field, reference.text(), sentence)

    def charge_value(self, value: object, field: str, reference: Reference) -> None:
        """Count a value that is taken over whole. The first few are free: weighing costs time.

        Raises:
            RenderError: It is too large, together with those before.
        """
        self._taken += 1
        if self._taken <= UNWEIGHED:
            return
        key = (reference.root, reference.path)
        if key not in self._weights:
            self._weights[key] = len(as_text(value, field, reference))
        self.charge(self._weights[key], field, reference)


def as_part(value: object, field: str, reference: Reference) -> str:
    """Return a value as a part of a longer text.

    Raises:
        RenderError: It is, or holds, an output that is too large for that.
    """
    text = as_text(value, field, reference)
    if is_value(text) if isinstance(value, str) else holds_value(text):
        sentence = (
            "the output is too large to be put into text: it is or holds an artifact, no part of which can stand in a"
            f" longer text; give it a value of its own, for example `value: ${{{reference.text()}}}`, and build the"
            " text in the handler"
        )
        raise RenderError(field, reference.text(), sentence)
    return text


def as_text(value: object, field: str, reference: Reference) -> str:
    """Return a value as it stands in text: a string as it is, all else as compact JSON (null as `null`)."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        sentence = f"the value has no JSON form ({type(error).__name__}: {error})"
        raise RenderError(field, reference.text(), sentence) from error


def resolve(reference: Reference, scope: Scope, field: str) -> object:
    """Return the value that a reference names.

    Raises:
        RenderError: There is none; the error names the first part of the path that is missing.
    """
    path = reference.path
    if not scope.begun and (reference.root == STEPS or reference.of_attempt):
        return f"${{{reference.text()}}}"
    if reference.root == STEPS:
        step = path[0]
        if step not in scope.steps:
            sentence = f"step {step!r} has no output: it has not succeeded in this run"
            raise RenderError(field, reference.text(2), sentence)
        return _walk(scope.steps[str(step)], reference, 2, field)
    if reference.root == INPUTS:
        return _walk(scope.inputs, reference, 0, field)
    if reference.root == SECRET:
        return _secret(str(path[0]), reference, scope, field)
    if reference.root == VARS:
        return _walk(scope.variables, reference, 0, field)
    if reference.root == RUN:
        return ATTEMPT_MARK if reference.of_attempt else scope.run[str(path[0])]
    return scope.trigger_time


def _walk(value: object, reference: Reference, start: int, field: str) -> object:
    for place in range(start, len(reference.path)):
        segment = reference.path[place]
        if isinstance(value, str) and is_value(value):
            value = member(value, segment)  # what is in it is found where it is read
        elif isinstance(segment, str):
            if not isinstance(value, Mapping) or segment not in value:
                raise RenderError(field, reference.text(place + 1), _missing_key(value, segment))
            value = value[segment]
        else:
            if not isinstance(value, list) or segment >= len(value):
                raise RenderError(field, reference.text(place + 1), _missing_index(value, segment))
            value = value[segment]
    return value


def _secret(name: str, reference: Reference, scope: Scope, field: str) -> str:
    if scope.secrets is None:
        raise RenderError(field, reference.text(), "secrets cannot be resolved here; none was handed over")
    if name not in scope.secrets:
        raise RenderError(field, reference.text(), f"there is no secret {name!r}; create it, or name another")
    return scope.secrets[name]


def _missing_key(value: object, key: str) -> str:
    if not isinstance(value, Mapping):
        return f"there is {_kind(value)}, which has no key {cut(key)}"
    if not value:
        return f"there is an object without keys, so no {cut(key)}"
    keys = [str(each) for each in value]
    shown = ", ".join(cut(each, 40) for each in keys[:KEYS_SHOWN])
    more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    return f"there is no key {cut(key)}; the object has {shown}{more}.{suggestion(key, keys)}"


def _missing_index(value: object, index: int) -> str:
    if not isinstance(value, list):
        return f"there is {_kind(value)}, which has no index {index}"
    if not value:
        return f"there is an empty list, so no index {index}"
    return f"there is a list of {len(value)}, whose last index is {len(value) - 1}, not {index}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return f"the text {cut(value, 40)}"
    return f"the {'boolean' if isinstance(value, bool) else 'number'} {json.dumps(value)}"
