"""Which handler runs which task type.

Nothing here runs a task; how a function is called is `calling`'s.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from taskyard_worker.calling import Invoke, make_invoke
from taskyard_worker.errors import RegistrationError

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_NAME_CHARACTERS = 200


class Mode(enum.Enum):
    """Where a handler runs."""

    LOOP = "loop"
    """`async def`: on the worker's event loop."""
    THREAD = "thread"
    """`def`: in a thread of its own."""
    PROCESS = "process"
    """`isolated=True`: in a process of its own that can be killed."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered handler. `killable`: it ends by force, whatever the code does, once its grace is over."""

    name: str
    function: Callable[..., Any]
    mode: Mode
    invoke: Invoke
    killable: bool = False


class TaskRegistry:
    """Handlers by task type. Names are unique; a worker offers those that its registry holds when it starts."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether the task type has a handler."""
        return name in self._handlers

    def __iter__(self) -> Iterator[Handler]:
        """Iterate over the handlers in order of registration."""
        return iter(self._handlers.values())

    def __len__(self) -> int:
        """Return how many handlers there are."""
        return len(self._handlers)

    def get(self, name: str) -> Handler | None:
        """Return the handler of a task type, or None."""
        return self._handlers.get(name)

    def add(self, handler: Handler) -> None:
        """Register a handler.

        Raises:
            RegistrationError: The name breaks its rule or is taken.
        """
        name = handler.name
        if not name or len(name) > MAX_NAME_CHARACTERS or "\0" in name or name != name.strip():
            raise RegistrationError(
                f"task type {name[:MAX_NAME_CHARACTERS]!r}: a name has 1 to {MAX_NAME_CHARACTERS} characters, "
                "no NUL and no space at its ends"
            )
        taken = self._handlers.get(name)
        if taken is not None:
            raise RegistrationError(
                f"task type {name!r} has a handler already ({taken.function.__qualname__}); give one another name"
            )
        self._handlers[name] = handler

    def task(self, name: str, *, isolated: bool = False) -> Callable[[Function], Function]:
        """Return a decorator that registers a function as the handler of a task type and leaves it as it is.

        The function gets the attempt's Context in a parameter named `ctx` or `context` (or annotated
        `Context`), the whole input in a parameter named `input`, and in each other parameter the input's
        value of that name. It may leave any of them out; one without a default makes its key required.

        Args:
            name: The task type.
            isolated: Run each attempt in a process of its own, which can be killed and whose crash hurts
                nothing else. The function must then be reachable by its name in its module.

        Raises:
            RegistrationError: The name is taken or no name, or the signature cannot be served.
        """
        given: object = name  # whatever its type says: `@task` without a name gives the function itself
        if not isinstance(given, str):
            about = getattr(given, "__name__", "") if callable(given) else ""
            raise RegistrationError(
                f"@task needs the name of the task type: write @task({about or 'NAME'!r}) above the function"
            )

        def register(function: Function) -> Function:
            self.add(make_handler(name, function, isolated=isolated))
            return function

        return register


default_registry = TaskRegistry()
"""Where the module's `task` decorator puts handlers: what `taskyard worker --tasks` offers after loading a file."""

task = default_registry.task


def make_handler(name: str, function: Callable[..., Any], *, isolated: bool = False) -> Handler:
    """Look at a function's signature and make the handler. Raises RegistrationError."""
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asks what calling does, not whether it can be called
    )
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise RegistrationError(f"task type {name!r}: a handler returns its result, but {function!r} is a generator")
    if isolated and (inspect.ismethod(function) or "<locals>" in getattr(function, "__qualname__", "<locals>")):
        raise RegistrationError(
            f"task type {name!r}: an isolated handler is found by its name in its module, so it cannot be defined "
            "inside another function, nor be a method of an object"
        )
    mode = Mode.PROCESS if isolated else Mode.LOOP if is_async else Mode.THREAD
    return Handler(name, function, mode, make_invoke(name, function), killable=isolated)
