"""What a handler returned or raised, as text for the scheduler. Limits are those of the contract.

Imports nothing heavy, since the processes of isolated handlers use it; `outcome` makes statuses of it.
"""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

from taskyard_worker.context import clean_text, to_json
from taskyard_worker.errors import NonRetryable, Retryable

MAX_OUTPUT_BYTES = 256 * 1024
"""The most that a result carries itself; a larger output is an artifact."""
MAX_ERROR_BYTES = 64 * 1024
HANDLER_ERROR = "HANDLER_ERROR"

_CUT_MARK = " … [cut]"


def output_text(value: Any) -> str:
    """Return what a handler returned as JSON; nothing for None.

    Raises:
        NonRetryable: JSON cannot hold it.
    """
    if value is None:
        return ""
    try:
        text = to_json(value)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NonRetryable(
            f"the handler returned what JSON cannot hold ({error}); return plain dicts, lists, text and numbers"
        ) from error
    return text


def is_large(output: str) -> bool:
    """Tell whether an output is too large for a result. Hot path: most are short."""
    if len(output) * 4 <= MAX_OUTPUT_BYTES:
        return False
    return (len(output) if output.isascii() else len(output.encode())) > MAX_OUTPUT_BYTES


def failure_text(error: BaseException) -> tuple[str, str]:
    """Return why a handler failed, for people, and the machine-readable reason."""
    if says_all(error):
        return cut(own_text(error) or type(error).__name__), getattr(error, "kind", HANDLER_ERROR)
    return cut(describe(error)), HANDLER_ERROR


def says_all(error: BaseException) -> bool:
    """Tell whether an exception's text is meant for people: neither its class nor a traceback is to be shown."""
    return isinstance(error, NonRetryable | Retryable)


def describe(error: BaseException) -> str:
    """Return an exception in one line, without its traceback."""
    name, text = type(error).__name__, own_text(error)
    return f"{name}: {text}" if text else name


def own_text(error: BaseException) -> str:
    """Return what an exception says of itself; nothing when it cannot."""
    try:
        return str(error)
    except BaseException:  # its own code, which may fail as well
        return ""


def handler_traceback(error: BaseException) -> str:
    """Return the traceback as the handler's author wants it: from the handler's first frame on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def cut(text: str) -> str:
    """Cut a message at 64 KiB of UTF-8, with a mark, and make it valid Unicode."""
    text = clean_text(text)
    if len(text) * 4 <= MAX_ERROR_BYTES:
        return text
    data = text.encode()
    if len(data) <= MAX_ERROR_BYTES:
        return text
    return data[: MAX_ERROR_BYTES - len(_CUT_MARK.encode())].decode(errors="ignore") + _CUT_MARK
