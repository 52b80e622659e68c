"""References to artifacts in values: `artifact://<id>` are bytes; with `#` and a JSON pointer, a value in them. Pure.

`docs/artifacts.md` has the rule, which the scheduler's templates follow too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

SCHEME: Final = "artifact://"
MARK: Final = "artifact:"
"""What every JSON text with a reference has in it, also one that escapes slashes."""

_ID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_URI = re.compile(rf"artifact://({_ID})(#.*)?", re.DOTALL)
_is_id = re.compile(_ID).fullmatch
_INDEX = re.compile(r"0|[1-9][0-9]*")
SHOWN = 80


class BadReference(ValueError):
    """A text does not refer to what it should refer to; the message says why."""


@dataclass(frozen=True, slots=True)
class ValueReference:
    """A string that stands for a value in an artifact.

    Attributes:
        text: The string.
        artifact_id: The artifact whose bytes are JSON.
        pointer: Where in it: a JSON pointer (RFC 6901) as a URI's fragment.
    """

    text: str
    artifact_id: str
    pointer: str

    def find(self, value: Any) -> Any:
        """Returns what the pointer points to in the artifact's value.

        Raises:
            BadReference: Nothing.
        """
        pointer = unquote(self.pointer)
        if not pointer:
            return value
        if not pointer.startswith("/"):
            raise BadReference(f"what follows # is {cut(self.pointer)!r}; a pointer is empty or begins with /")
        for token in pointer[1:].split("/"):
            value = _member(value, token.replace("~1", "/").replace("~0", "~"))
        return value


def read_value(text: str) -> ValueReference | None:
    """Returns what a whole string stands for; None when it is any other text, a reference to bytes included."""
    if not text.startswith(SCHEME):
        return None
    found = _URI.fullmatch(text)
    return ValueReference(text, found[1], found[2][1:]) if found and found[2] is not None else None


def read_uri(uri: str) -> str:
    """Returns the id of the artifact whose bytes a URI means.

    Raises:
        BadReference: It is no such URI.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        raise BadReference(f"{cut(uri)!r} is no artifact's URI, which looks like artifact://018f3b5e-7c1a-7abc-…")
    if found[2] is not None:
        raise BadReference(
            f"{cut(uri)!r} stands for a value in an artifact; write {SCHEME}{found[1]}, without #, for its bytes"
        )
    return found[1]


def read_name(text: str) -> str:
    """Returns the id of the artifact that a person names, by its URI or its id.

    Raises:
        BadReference: It is neither.
    """
    return text if _is_id(text) else read_uri(text)


def values_in(value: Any, path: str = "") -> Iterator[tuple[str, ValueReference]]:
    """Yields the references to values among the strings of a value, each with its path, such as `a.b[0]`."""
    if isinstance(value, str):
        reference = read_value(value)
        if reference is not None:
            yield path, reference
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from values_in(member, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from values_in(item, f"{path}[{place}]")


def with_values(value: Any, values: dict[str, Any]) -> Any:
    """Returns a value with each string that is a key of `values` replaced; what is found is not looked into again."""
    if isinstance(value, str):
        return values.get(value, value)
    if isinstance(value, dict):
        return {key: with_values(member, values) for key, member in value.items()}
    if isinstance(value, list):
        return [with_values(item, values) for item in value]
    return value


async def resolved(
    value: Any, load: Callable[[str], Awaitable[Any]], blame: Callable[[str, ValueReference, Exception], Exception]
) -> Any:
    """Returns a value with each string that stands for a value in an artifact replaced by that.

    Args:
        value: As JSON has it.
        load: Returns the JSON value that an artifact's bytes are; called once for each artifact.
        blame: Makes of the path, the reference and what was raised what is raised to the caller.
    """
    loaded: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for path, reference in values_in(value):
        if reference.text in values:
            continue
        try:
            if reference.artifact_id not in loaded:
                loaded[reference.artifact_id] = await load(reference.artifact_id)
            values[reference.text] = reference.find(loaded[reference.artifact_id])
        except Exception as error:
            raise blame(path, reference, error) from error
    return with_values(value, values) if values else value


def cut(text: str) -> str:
    """Returns a text as it is shown in a sentence."""
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _member(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        if token in value:
            return value[token]
        raise BadReference(f"there is no key {cut(token)!r} where the pointer goes")
    if isinstance(value, list):
        if _INDEX.fullmatch(token) and len(token) < 20 and int(token) < len(value):
            return value[int(token)]
        raise BadReference(f"there is a list of {len(value)} where the pointer goes, which has no {cut(token)!r}")
    kind = "null" if value is None else f"a {type(value).__name__}"
    raise BadReference(f"there is {kind} where the pointer goes on with {cut(token)!r}")
