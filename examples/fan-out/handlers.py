"""Counts the words of one file."""

from __future__ import annotations

from pathlib import Path

from taskyard_worker import NonRetryable, task


@task("count_words")
def count_words(path: str) -> dict[str, object]:
    """Returns how many words a file has. A file that is no text is not tried again: it would not become one."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NonRetryable(f"{path} is no UTF-8 text: {error}") from error
    return {"path": path, "words": len(text.split())}
