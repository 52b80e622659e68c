"""The task types that every worker offers unless told otherwise: `shell`, `sleep`, `text_process`.

Their inputs and outputs are those of the contract.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any

from taskyard_worker.attempts import Attempt
from taskyard_worker.calling import CallPort
from taskyard_worker.errors import InvalidInput, RegistrationError
from taskyard_worker.processes import ProcessHost
from taskyard_worker.registry import Handler, Mode, TaskRegistry, make_handler
from taskyard_worker.shell import Shell
from taskyard_worker.text import TextInputError, process_input

MAX_SLEEP_S = 30 * 24 * 3600.0


async def sleep(seconds: Any) -> dict[str, float]:
    """Sleep, at most 30 days; what is cancelled wakes at once.

    Raises:
        InvalidInput: `seconds` is no number in range.
    """
    try:
        wait_s = float(seconds)
    except (TypeError, ValueError):
        wait_s = math.nan
    if isinstance(seconds, bool) or not 0 <= wait_s <= MAX_SLEEP_S:
        raise InvalidInput(f"'seconds' is {seconds!r}; it must be a number from 0 to {MAX_SLEEP_S:.0f}")
    await asyncio.sleep(wait_s)
    return {"slept_seconds": wait_s}


def text_process(input: Mapping[str, Any]) -> Any:
    """Process a text; docs/text-operations.md says how.

    Raises:
        InvalidInput: The text, the operation or an option breaks a rule.
    """
    try:
        return process_input(input)
    except TextInputError as error:
        raise InvalidInput(str(error)) from error


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
