"""What the text operations say when an input is not one they take. Not a task's failure in general."""

from __future__ import annotations

import json

SHOWN = 200
"""Characters of a refused value that a message shows."""


class TextInputError(ValueError):
    """An input of a text operation breaks a rule; retrying it unchanged cannot help.

    Attributes:
        field: name of the input or option.
        value: what was given.
        rule: the rule it breaks, one clause without a full stop.
        remedy: what to give instead, one sentence.
    """

    def __init__(self, field: str, value: object, rule: str, remedy: str) -> None:
        """Makes the error; the four are kept as `args` too, so that it survives pickling."""
        super().__init__(field, value, rule, remedy)
        self.field = field
        self.value = value
        self.rule = rule
        self.remedy = remedy

    def __str__(self) -> str:
        """Returns the message for people."""
        return f"text_process: {self.field} is {shown(self.value)}: {self.rule}. {self.remedy}"


def shown(value: object) -> str:
    """Returns the value as ASCII JSON where it has one, cut so that a message stays readable."""
    head = value[: SHOWN + 1] if isinstance(value, str) else value
    try:
        text = json.dumps(head)
    except (TypeError, ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
