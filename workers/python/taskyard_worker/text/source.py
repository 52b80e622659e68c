"""The door of every text operation: what is taken as a text, and its unpaired surrogates repaired."""

from __future__ import annotations

import re

from taskyard_worker.text.errors import TextInputError

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def source(text: object) -> str:
    """Returns the text as a sequence of Unicode scalar values.

    Two surrogates that make a pair are the character they encode, as in UTF-16; any other one is U+FFFD.

    Raises:
        TextInputError: it is no string.
    """
    if not isinstance(text, str):
        raise TextInputError("text", text, "must be a string", "Give the text to process as a string.")
    if not _SURROGATE.search(text):
        return text
    paired = _PAIR.sub(lambda pair: _joined(pair[0]), text)
    return _SURROGATE.sub("\ufffd", paired)


def _joined(pair: str) -> str:
    high, low = map(ord, pair)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
