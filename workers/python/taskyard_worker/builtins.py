"""The task types that every worker offers unless told otherwise: `shell`, `sleep`, `text_process`.

Their inputs and outputs are those of the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from taskyard_worker.attempts import Attempt
from taskyard_worker.basics import sleep, text_process
from taskyard_worker.calling import CallPort
from taskyard_worker.errors import RegistrationError
from taskyard_worker.processes import ProcessHost
from taskyard_worker.registry import Handler, Mode, TaskRegistry, make_handler
from taskyard_worker.shell import Shell


def shell_handler(host: ProcessHost, environ: Mapping[str, str]) -> Handler:
    """Return the handler of `shell`."""
    shell = Shell(host, environ)

    def invoke(attempt: CallPort) -> Any:
        if not isinstance(attempt, Attempt):
            raise TypeError("shell runs in the worker itself")
        return shell.run(attempt)

    return Handler("shell", shell.run, Mode.LOOP, invoke, killable=True)


def builtin_handlers(host: ProcessHost, environ: Mapping[str, str]) -> list[Handler]:
    """Return all of them."""
    return [
        shell_handler(host, environ),
        make_handler("sleep", sleep),
        make_handler("text_process", text_process),
    ]


def offered(own: TaskRegistry, builtin: Iterable[Handler], only: Iterable[str] | None) -> TaskRegistry:
    """Return what a worker offers: its own handlers, and built-in ones whose names these have not taken.

    Args:
        own: The handlers that were loaded.
        builtin: The built-in handlers to offer.
        only: Offer these task types and no others; None: all.

    Raises:
        RegistrationError: A name of `only` has no handler, or nothing is left to offer.
    """
    handlers = {handler.name: handler for handler in builtin}
    handlers.update((handler.name, handler) for handler in own)
    names = list(handlers) if only is None else list(dict.fromkeys(only))
    result = TaskRegistry()
    for name in names:
        if name not in handlers:
            known = ", ".join(sorted(handlers)) or "none"
            raise RegistrationError(f"there is no handler for task type {name!r}; known here: {known}")
        result.add(handlers[name])
    if not len(result):
        raise RegistrationError("this worker would offer no task type; load handlers with --tasks")
    return result
