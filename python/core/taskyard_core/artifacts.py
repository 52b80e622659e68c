"""References to artifacts in texts and values: what `artifact://<id>` and what follows `#` mean. Pure.

`docs/artifacts.md` has the rule; the client has its own reader of it, since it imports nothing of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

SCHEME: Final = "artifact://"
MARK: Final = "artifact:"
"""What every text with a reference has in it, also one whose JSON escapes the slashes."""
MARK_BYTES: Final = MARK.encode()

_ID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_IN_TEXT = re.compile(rf"artifact:(?:\\?/){{2}}({_ID})")
_IN_BYTES = re.compile(rf"artifact:(?:\\?/){{2}}({_ID})".encode())
_VALUE = re.compile(rf"artifact://{_ID}#.*", re.DOTALL)
_VALUE_IN_JSON = re.compile(rf'"artifact://{_ID}#')
URI_BYTES: Final = len(SCHEME) + 2 + 36
"""The most bytes that the URI of an artifact's bytes has in JSON."""
is_id = re.compile(_ID).fullmatch


def uri_of(id: str) -> str:
    """Returns the URI of an artifact's bytes."""
    return f"{SCHEME}{id}"


def artifacts_in(texts: Iterable[str | bytes | None]) -> set[str]:
    """Returns the ids of the artifacts that texts refer to, wherever in them."""
    found: set[str] = set()
    for text in texts:
        if isinstance(text, bytes):
            found |= artifacts_in_bytes(text)
        elif text:
            found.update(_IN_TEXT.findall(text))
    return found


def artifacts_in_bytes(data: bytes) -> set[str]:
    """Returns the ids of the artifacts that a part of a JSON file refers to."""
    return {each.decode() for each in _IN_BYTES.findall(data)} if MARK_BYTES in data else set()


def is_value(text: str) -> bool:
    """Tells whether a whole text stands for a value in an artifact: its URI, `#`, and a pointer."""
    return text.startswith(SCHEME) and _VALUE.fullmatch(text) is not None


def holds_value(json_text: str) -> bool:
    """Tells whether a string within JSON stands for a value in an artifact."""
    return SCHEME in json_text and _VALUE_IN_JSON.search(json_text) is not None


def member(uri: str, segment: str | int) -> str:
    """Returns what stands for a member of the value that `uri` stands for (RFC 6901, as a URI's fragment)."""
    token = str(segment).replace("~", "~0").replace("/", "~1")
    return f"{uri}/{quote(token, safe='')}"
