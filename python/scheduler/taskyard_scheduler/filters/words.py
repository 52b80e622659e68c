"""The words of the filter language, read one by one; what only CEL has is known here, to be refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from taskyard_core.violations import LocatedError

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<float>-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+)
      | (?P<integer>-?(?:0[xX][0-9a-fA-F]+|\d+))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<op>==|!=|<=|>=|&&|\|\||[<>()\[\],!+\-*/%?:={}.|&])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)

_WRITE: Final = "join comparisons with '&&', as in status == \"FAILED\" && priority <= 3"
_REFUSED: Final = {
    "||": f"'||' (or) is not offered; write 'in' for one field, as in status in [FAILED, TIMEOUT], else {_WRITE}",
    "!": "'!' (not) is not offered; write the opposite comparison, as in status != SUCCESS",
    "?": f"'? :' (conditions) are not offered; {_WRITE}",
    "+": f"arithmetic ('+') is not offered; write the value itself, or {_WRITE}",
    "-": f"arithmetic ('-') is not offered; write the value itself, or {_WRITE}",
    "*": f"arithmetic ('*') is not offered; write the value itself, or {_WRITE}",
    "/": f"arithmetic ('/') is not offered; write the value itself, or {_WRITE}",
    "%": f"arithmetic ('%') is not offered; write the value itself, or {_WRITE}",
    "[": "an index ('[') is not offered; compare a whole field",
    "{": "a map or message ('{') is not offered; compare with a text, a number or a timestamp",
    "=": "'=' is no comparison; write '=='",
    "&": "'&' is not offered; write '&&'",
    "|": "'|' is not offered; write 'in' for one field, as in status in [FAILED, TIMEOUT]",
}


class FilterError(LocatedError):
    """A filter does not follow its language, or uses what lists cannot look for."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its kind, a group of the pattern; its text; its offset in the filter, from 0."""

    kind: str
    text: str
    at: int


class Words:
    """A filter from left to right with one word of look-ahead, `token`; every error knows its place.

    Args:
        source: The filter.
        where: Path of the field that holds it, for errors.

    Raises:
        FilterError: It begins with no word of the language; so does every step to the next.
    """

    def __init__(self, source: str, where: str) -> None:
        self._source = source
        self._where = where
        self.token = self._scan(0)

    def take(self, text: str) -> bool:
        """Steps over an operator, if it is the next word; returns whether it was."""
        if self.token.kind != "op" or self.token.text != text:
            return False
        self.advance()
        return True

    def advance(self) -> None:
        """Steps to the next word."""
        self.token = self._scan(self.token.at + len(self.token.text))

    def unexpected(self, expected: str) -> NoReturn:
        """Refuses the next word: by its name where CEL has it and lists do not, else by what is expected."""
        token = self.token
        if token.kind == "op" and token.text in _REFUSED:
            self.fail(_REFUSED[token.text])
        if token.kind == "integer" and token.text.startswith("-"):
            self.fail(_REFUSED["-"])
        self.fail(f"{expected}; {_WRITE}")

    def fail(self, sentence: str, at: int | None = None) -> NoReturn:
        """Refuses the filter at an offset, or at the next word."""
        raise FilterError(self._where, self._source, self.token.at if at is None else at, sentence)

    def _scan(self, at: int) -> Token:
        found = _TOKEN.match(self._source, at)
        if found is None or found.lastgroup is None:
            while self._source[at : at + 1] in (" ", "\t", "\r", "\n"):
                at += 1
            unclosed = self._source[at] in "\"'"
            self.fail(
                "the text has no end; close its quote" if unclosed else f"{self._source[at]!r} belongs to no filter",
                at,
            )
        return Token(found.lastgroup, found.group(found.lastgroup), found.start(found.lastgroup))
