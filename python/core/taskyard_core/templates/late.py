"""The one value that a template cannot have when a step becomes ready: the number of the attempt.

It is rendered as a mark, which JSON writes in one way and no text that clients send can contain (NUL is refused), and
is filled in whenever an attempt is sent or shown.
"""

from __future__ import annotations

from typing import Final

ATTEMPT_MARK: Final = "\0attempt\0"
_IN_TEXT: Final = "\\u0000attempt\\u0000"
_WHOLE: Final = f'"{_IN_TEXT}"'


def fill_params(text: str, attempt: int) -> str:
    """Returns flat parameters, as JSON, with the attempt's number where it was asked for."""
    return text.replace(_IN_TEXT, str(attempt)) if _IN_TEXT in text else text


def fill_input(text: str, attempt: int) -> str:
    """Returns typed input, as JSON, likewise: a value that is the number alone becomes one."""
    return fill_params(text.replace(_WHOLE, str(attempt)), attempt) if _IN_TEXT in text else text
