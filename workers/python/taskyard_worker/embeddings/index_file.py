"""The form of an index: JSON lines, first `{"model", "dimensions"}`, then `{"id", "text", "vector"}` for each document.

Reads and writes lines; not where they are kept, and not what is looked for in them (`ranking`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taskyard_worker.context import to_json
from taskyard_worker.errors import NonRetryable

MAX_LINE_BYTES = 8 * 1024 * 1024


class NotAnIndex(NonRetryable):
    """What was read as an index, or as documents, is none; the message names the line and the rule."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is found. `id`: unique for whoever made the index."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Header:
    """What the vectors of an index are: only those of the same model and length are compared with them."""

    model: str
    dimensions: int


class Lines:
    """Cuts bytes as they come into lines.

    Args:
        what: What they are of, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._rest = b""
        self._count = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that are complete with this piece. Raises NotAnIndex for one that is too long."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._count += len(lines)
        if len(self._rest) > MAX_LINE_BYTES:
            raise NotAnIndex(f"line {self._count + 1} of {self._what} has more than {MAX_LINE_BYTES:,} bytes")
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line where it has no end."""
        return [self._rest] if self._rest else []


def header_line(header: Header) -> bytes:
    """Return the first line of an index."""
    return to_json({"model": header.model, "dimensions": header.dimensions}).encode() + b"\n"


def entry_line(document: Document, vector: Sequence[float]) -> bytes:
    """Return a document's line."""
    return to_json({"id": document.id, "text": document.text, "vector": list(vector)}).encode() + b"\n"


def read_header(line: bytes) -> Header:
    """Read the first line of an index. Raises NotAnIndex."""
    value = read_line(line, 1, "the index")
    model, dimensions = value.get("model"), value.get("dimensions")
    if not isinstance(model, str) or type(dimensions) is not int or dimensions < 1:
        raise NotAnIndex('line 1 of the index must be {"model": …, "dimensions": …}; an `index` task writes such files')
    return Header(model, dimensions)


def read_document(value: Any, place: str, number: int) -> Document:
    """Read a document as an input or a line has it.

    Args:
        value: `{"id", "text"}`; without an id its number is it.
        place: Where it stands, for errors.
        number: Its number, from 0.

    Raises:
        NotAnIndex: It is none.
    """
    known = value.get("id", number) if isinstance(value, dict) else None
    text = value.get("text") if isinstance(value, dict) else None
    if isinstance(known, bool) or not isinstance(known, str | int) or not isinstance(text, str) or not text.strip():
        raise NotAnIndex(f'{place} must be {{"id": …, "text": …}}, the text not empty')
    return Document(str(known), text)


def read_line(line: bytes, number: int, what: str) -> dict[str, Any]:
    """Read a line that is a JSON object. Raises NotAnIndex."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NotAnIndex(f"line {number} of {what} is no JSON object: {line[:100].decode(errors='replace')!r}")
    return value
