"""Reads Markdown pages: their fenced blocks with what is said of them after the language.

`sh run` is to be run, `file=NAME` to be written to a file, and `text expect` is what the block before it prints.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: the line in the page where it begins, its language, what else its first line says, its text."""

    page: Path
    line: int
    language: str
    words: frozenset[str]
    options: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, found) for found in _FENCE.finditer(text)]


def _block(page: Path, text: str, found: re.Match[str]) -> Block:
    language, *rest = shlex.split(found["info"]) or [""]
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    words = frozenset(word for word in rest if "=" not in word)
    return Block(page, text.count("\n", 0, found.start()) + 1, language, words, options, found["text"])


def without_blocks(page: Path) -> str:
    """Returns a page's running text."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def missing(expected: str, printed: str) -> str:
    """Returns the first expected line that was not printed after the ones before it; `…` stands for anything."""
    lines = printed.splitlines()
    at = 0
    for wanted in filter(None, map(str.strip, expected.splitlines())):
        pattern = re.compile(r".*".join(re.escape(part.strip()) for part in wanted.split("…")))
        found = next((number for number in range(at, len(lines)) if pattern.search(lines[number])), None)
        if found is None:
            return wanted
        at = found + 1
    return ""
