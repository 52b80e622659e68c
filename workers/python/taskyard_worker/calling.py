"""How a handler's function is called: which of its parameters get the context, the whole input, or keys of it.

Looked at once, at registration. Nothing here runs a task.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from inspect import Parameter
from typing import Any, Protocol

from taskyard_worker.context import AttemptPort, Context
from taskyard_worker.errors import InvalidInput, RegistrationError
from taskyard_worker.flat import SHOWN, reader_of
from taskyard_worker.typed import rule_of


class CallPort(AttemptPort, Protocol):
    """An attempt that also knows its input."""

    def input(self) -> dict[str, Any]:
        """Return the task's input: typed input over flat parameters. Raises InvalidInput."""
        ...

    def is_flat(self, name: str) -> bool:
        """Tell whether the input's value of this name is a flat parameter, which is text, and no typed input."""
        ...


Function = Callable[..., Any]
Invoke = Callable[[CallPort], Any]


def make_invoke(task_type: str, function: Function) -> Invoke:
    """Return how to call a function with an attempt.

    Raises:
        RegistrationError: A parameter cannot be given by name.
    """
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise RegistrationError(
                f"task type {task_type!r}: parameter {parameter.name!r} cannot be given by name; handlers are called "
                "with ctx, input, or keys of the input"
            )
    context = next((parameter.name for parameter in parameters if is_context(parameter)), None)
    keys = [parameter for parameter in parameters if parameter.name != context]
    if not keys:
        return without_input(function, context)
    if len(keys) == 1 and keys[0].name == "input" and keys[0].kind is not Parameter.VAR_KEYWORD:
        in_order = all(parameter.kind is Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        return whole_input(function, context, in_order=in_order and parameters[-1].name == "input")
    return by_key(function, context, keys)


def is_context(parameter: Parameter) -> bool:
    """Tell whether a parameter wants the Context: by its annotation, or without one by its name."""
    annotation = parameter.annotation
    if annotation is Parameter.empty:
        return parameter.name in ("ctx", "context")
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == Context.__name__
    return annotation is Context


def without_input(function: Function, context: str | None) -> Invoke:
    """Call a function that looks at no input."""
    if context is None:
        return lambda attempt: function()
    return lambda attempt: function(**{context: Context(attempt)})


def whole_input(function: Function, context: str | None, *, in_order: bool) -> Invoke:
    """Call a function with the input as one mapping; `in_order`: the quick way, by position."""
    if context is None:
        return lambda attempt: function(input=attempt.input())
    if in_order:
        return lambda attempt: function(Context(attempt), attempt.input())
    return lambda attempt: function(**{context: Context(attempt), "input": attempt.input()})


def by_key(function: Function, context: str | None, keys: list[Parameter]) -> Invoke:
    """Call a function with the input's values of its parameters' names, which are of the types that they say."""
    named = [key for key in keys if key.kind is not Parameter.VAR_KEYWORD]
    takes_rest = len(named) < len(keys)
    known = {key.name for key in named}
    required = [key.name for key in named if key.default is Parameter.empty]
    rules = {key.name: (rule, reader_of(key.annotation)) for key in named if (rule := rule_of(key)) is not None}

    def invoke(attempt: CallPort) -> Any:
        values: Mapping[str, Any] = attempt.input()
        for name in required:
            if name not in values:
                raise lacking(name, [given for given in values if given not in known])
        arguments = {name: value for name, value in values.items() if takes_rest or name in known}
        for name, (rule, read) in rules.items():
            if name not in arguments or rule.allows(value := arguments[name]):
                continue
            if not attempt.is_flat(name):
                raise rule.refusal(name, value, attempt.step_id)
            if read is not None and isinstance(value, str):
                arguments[name] = read(name, value, attempt.step_id)
        if context is not None:
            arguments[context] = Context(attempt)
        return function(**arguments)

    return invoke


def lacking(name: str, unknown: Collection[str]) -> InvalidInput:
    """Return the error for a required key that the input lacks, with the unknown one that may be meant by it."""
    text = f"the input lacks {name!r}, which the handler requires"
    if not unknown:
        return InvalidInput(text)
    near = difflib.get_close_matches(name, [key[:SHOWN] for key in unknown], 1)
    if near:
        return InvalidInput(f"{text}; it has {near[0]!r}, which the handler does not know: did you mean {name!r}?")
    return InvalidInput(f"{text}; it has {next(iter(unknown))[:SHOWN]!r}, which is none of the handler's parameters")
