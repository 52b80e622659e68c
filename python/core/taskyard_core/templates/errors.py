"""What goes wrong with templates: at definition time with a place in the source, at run time with a path."""

from __future__ import annotations

import re

from taskyard_core.violations import CoreError, LocatedError

# The whole head of a path in the contract, up to the field of a step or of the workflow that holds the template.
_HEAD = re.compile(r"\A(?:workflow\.)?(?:steps\[\d+\]\.)?(\w+?)(?:_json)?(?![^.\[])")


class TemplateError(LocatedError):
    """A template does not follow the language; raised when a definition or submission is read."""


class RenderError(CoreError):
    """A template found no value at run time, or one that it cannot use.

    Attributes:
        field: Path of the field that holds the template.
        path: The part of the reference that failed, as it would be written.
        sentence: What was there instead.
    """

    def __init__(self, field: str, path: str, sentence: str) -> None:
        self.field = field
        self.path = path
        self.sentence = sentence
        super().__init__(f"{field}: ${{{path}}}: {sentence}")

    def told(self, step: str = "") -> str:
        """Return the message for who wrote the workflow: in a file it is `input`, in the contract `input_json`.

        Args:
            step: Id of the step that holds the template; empty for the workflow's own, which is its output.
        """
        head = f"steps.{step}." if step else ""
        place = _HEAD.sub(lambda found: head + found[1], self.field)
        return f"{place}: ${{{self.path}}}: {self.sentence}"
