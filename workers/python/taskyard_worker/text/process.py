"""The front of the task type `text_process`: picks the operation and checks the names of its options.

Not the task handler: it knows nothing of tasks, attempts or artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from taskyard_worker.text.clean import clean
from taskyard_worker.text.errors import TextInputError
from taskyard_worker.text.keywords import keywords
from taskyard_worker.text.split import split
from taskyard_worker.text.statistics import statistics
from taskyard_worker.text.summarize import summarize

Result = str | list[dict[str, int | str]] | dict[str, int | str]


@dataclass(frozen=True)
class _Operation:
    """A function and the options that it takes beside the text."""

    run: Callable[..., Result]
    options: tuple[str, ...]


OPERATIONS: Mapping[str, _Operation] = {
    "summarize": _Operation(summarize, ("max_sentences",)),
    "split": _Operation(split, ("max_chars", "overlap")),
    "clean": _Operation(clean, ("keep_lines",)),
    "keywords": _Operation(keywords, ("top_k",)),
    "statistics": _Operation(statistics, ()),
}


def process(text: str, operation: object = "summarize", **options: object) -> Result:
    """Returns the result of one operation on a text: what JSON can hold, the same on every worker.

    Args:
        text: any string.
        operation: "summarize", "split", "clean", "keywords" or "statistics".
        **options: the operation's own, as docs/text-operations.md lists them; None counts as left out.

    Raises:
        TextInputError: the text is no string, or an operation, an option's name or its value is not known.
    """
    chosen = OPERATIONS.get(operation) if isinstance(operation, str) else None
    if chosen is None:
        rule = "must be one of " + ", ".join(OPERATIONS)
        raise TextInputError("operation", operation, rule, "Give one of them, or leave it out for summarize.")
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in chosen.options:
            known = ", ".join(chosen.options) or "none"
            rule = f"is no option of {operation}, which has {known}"
            raise TextInputError(name, value, rule, "Leave it out, or correct its name or the operation.")
    return chosen.run(text, **given)


def process_input(task_input: Mapping[str, Any]) -> dict[str, Result]:
    """Returns the task's output, `{"result"}`, for the task's input as it arrived.

    Args:
        task_input: `text`, `operation` and the operation's options; None counts as left out.

    Raises:
        TextInputError: as `process`; a missing text is one, too.
    """
    given = {name: value for name, value in task_input.items() if value is not None}
    text = given.pop("text", None)
    operation = given.pop("operation", "summarize")
    return {"result": process(text, operation, **given)}
