"""The built-in task type `text_process`. Loads quickly, since an exclusive task runs it in a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskyard_worker.errors import InvalidInput
from taskyard_worker.text import TextInputError, process_input


def text_process(input: Mapping[str, Any]) -> Any:
    """Process a text; docs/text-operations.md says how.

    Raises:
        InvalidInput: The text, the operation or an option breaks a rule.
    """
    try:
        return process_input(input)
    except TextInputError as error:
        raise InvalidInput(str(error)) from error
