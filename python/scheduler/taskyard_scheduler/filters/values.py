"""Literals of the filter language: what a word stands for, and whether it can be a value of the field beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from taskyard_core.violations import cut, suggestion
from taskyard_scheduler.filters.fields import FieldSpec
from taskyard_scheduler.filters.words import Token, Words

INTEGER_LIMIT: Final = 2**63
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A field's name or a literal, as it was written."""

    kind: Literal["word", "string", "integer", "bool", "time"]
    value: str | int
    at: int


def literal(words: Words, spec: FieldSpec, operand: Operand) -> str | int:
    """Returns the value that a field is compared with: text, number, 0 or 1, milliseconds since 1970, an enum's number.

    Raises:
        FilterError: The operand is of another kind than the field.
    """
    if spec.kind == "enum" and operand.kind in ("word", "string"):
        return _enum(words, spec, operand)
    wanted = {"text": "string", "integer": "integer", "bool": "bool", "time": "time"}.get(spec.kind)
    if operand.kind == wanted:
        return operand.value
    expected = {
        "text": 'a text in quotes, as in "abc"',
        "integer": "a whole number",
        "bool": "true or false",
        "time": 'a time, as in timestamp("2025-01-31T12:00:00Z")',
        "enum": "one of " + ", ".join(spec.names or ()),
    }[spec.kind]
    words.fail(f"this field is compared with {expected}, not with {cut(operand.value)}", operand.at)


def _enum(words: Words, spec: FieldSpec, operand: Operand) -> int:
    names = spec.names or {}
    number = names.get(str(operand.value))
    if number is None:
        hint = suggestion(str(operand.value), names)
        words.fail(f"{cut(operand.value)} is not one of {', '.join(names)}.{hint}", operand.at)
    return number


def integer(words: Words, token: Token) -> int:
    """Returns the number that a word stands for; refuses one beyond 64 bits."""
    text = token.text.lower()
    value = int(text, 16) if "x" in text else int(text) if len(text) < 21 else INTEGER_LIMIT
    if not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        words.fail("the number is beyond 64 bits; write a smaller one", token.at)
    return value


def milliseconds(words: Words, text: str, at: int) -> int:
    """Returns a time in milliseconds since 1970; refuses what is none, or has no zone."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("no zone")
        return round(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        words.fail(f'{cut(text)} is no time; write it as in "2025-01-31T12:00:00Z", with a zone', at)


def unescape(words: Words, token: Token) -> str:
    """Returns the text that a word in quotes stands for; refuses NUL and characters that do not exist."""

    def one(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] in "uU" and len(code) > 1:
            number = int(code[1:], 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                words.fail(f"\\{code} is no character; write one that exists", token.at + 1 + found.start())
            return chr(number)
        if code not in _ESCAPES:
            words.fail(f"\\{code} is no escape; write a backslash as two", token.at + 1 + found.start())
        return _ESCAPES[code]

    text = _ESCAPE.sub(one, token.text[1:-1])
    if "\0" in text:
        words.fail("no text holds NUL, so nothing could match; remove it", token.at)
    return text
