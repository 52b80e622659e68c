r"""Reads JSON that others wrote, and writes ours. What is stored as JSON text came through here.

Refused, beyond what is no JSON: NaN and infinities (also as `1e999`), nesting beyond 100, integers beyond
4,300 digits. The escape \u0000 is allowed: in the stored text it is six plain characters that every database
takes, and every worker language can hold it. Half a surrogate pair (\ud800) is refused where
`whole_characters` is asked for: it has no UTF-8 form and could not travel on in a parameter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Final, NoReturn

from taskyard_core.names import check_text
from taskyard_core.violations import cut

DEPTH_LIMIT: Final = 100
INPUT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of params and input together, and of a run's inputs."""

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_quote = encode_basestring


class NotJson(Exception):
    """The text is no JSON that can be taken; the message is a sentence for people."""


def parse(text: str, *, whole_characters: bool = True) -> object:
    """Reads a JSON text.

    Raises:
        NotJson: It is none, or one that is refused.
    """
    try:
        value: object = _decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise NotJson(f"{cut(text)} is not JSON: {error.msg} at {place}; correct it") from error
    except RecursionError as error:
        raise NotJson(_TOO_DEEP) from error
    except ValueError as error:  # ours, or an integer beyond Python's limit
        raise NotJson(f"{cut(text)}: {error}") from error
    if len(text) > 2 * DEPTH_LIMIT and text.count("[") + text.count("{") > DEPTH_LIMIT and _is_deep(value):
        raise NotJson(_TOO_DEEP)
    if whole_characters and "\\u" in text and _ESCAPED_SURROGATE.search(text):
        said = check_text(dump(value))
        if said:
            raise NotJson(said)
    return value


def parse_object(text: str) -> dict[str, object]:
    """Reads a JSON object.

    Raises:
        NotJson: It is none, or one that is refused.
    """
    value = parse(text)
    if isinstance(value, dict):
        return value
    raise NotJson(f'{cut(text)} is JSON but no object; write members in braces, as in {{"text": "hello"}}')


def dump(value: object) -> str:
    """Returns the compact JSON text of a value that `parse` returned or that is made of such."""
    return _ENCODER.encode(value)


def dump_texts(texts: Mapping[str, str]) -> str:
    """Returns the compact JSON text of a flat map; "" for an empty one."""
    if not texts:
        return ""
    if len(texts) == 1:
        [(key, value)] = texts.items()
        return f"{{{_quote(key)}:{_quote(value)}}}"
    return "{" + ",".join([f"{_quote(key)}:{_quote(texts[key])}" for key in sorted(texts)]) + "}"


def size(text: str) -> int:
    """Returns how many bytes a text takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def exceeds(text: str, limit: int) -> bool:
    """Tells whether a text takes more than `limit` bytes, without encoding one that cannot."""
    return len(text) * 4 > limit and size(text) > limit


_TOO_DEEP: Final = f"lists and objects are nested deeper than {DEPTH_LIMIT}; flatten the value"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; send null or leave it out")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{cut(digits, 40)} is beyond what a floating-point number holds; send it as text")
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_scan: Final = _DECODER.scan_once  # type: ignore[attr-defined]  # typeshed leaves it out


def _decode(text: str) -> object:
    """Reads a text; a plain one without the decoder's own detours."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _DECODER.decode(text)  # white space before the value, or no value
    return value if end == len(text) else _DECODER.decode(text)


def _is_deep(value: object) -> bool:
    """Tells whether a value is nested beyond the limit, without recursion."""
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True
