"""What goes wrong with templates: at definition time with a place in the source, at run time with a path."""

from __future__ import annotations

from taskyard_core.violations import CoreError, LocatedError


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
