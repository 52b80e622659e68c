"""Python's language reference, by topic, as every CPython ships it, and the sections of a topic.

Not how it is cut into passages and embedded: that is what the demo's workers do.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise

PYTHON = platform.python_version()
_LINE = re.compile(r"([*=\-~^])\1{2,}")


def reference() -> Mapping[str, str]:
    """Returns the text of each topic, by its name."""
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    return topics


def sections(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yields title and text of a topic's sections; what stands before the first title has the topic's name.

    A title is a line that is not indented, with a line of one sign below it that is as long.
    """
    lines = text.splitlines()
    starts = [at for at, (title, line) in enumerate(pairwise(lines)) if is_title(title, line)]
    found = [(name, lines[: starts[0] if starts else None])]
    found += [(lines[at].strip(), lines[at + 2 : end]) for at, end in pairwise([*starts, len(lines)])]
    yield from ((title, body) for title, each in found if (body := "\n".join(each).strip("\n")).strip())


def is_title(title: str, line: str) -> bool:
    """Tells whether a line is a title, by the line below it."""
    same_length = abs(len(title) - len(line)) <= 1
    return bool(title.strip()) and not title[0].isspace() and same_length and _LINE.fullmatch(line) is not None
