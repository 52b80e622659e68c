"""Says which `needs` of a file name no step of it, so that a file with other mistakes tells these too."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from taskyard_cli.problems import Problem
from taskyard_cli.workflows.rules import field_name
from taskyard_cli.workflows.yaml_source import Document

HINTED = 200
"""Most steps of a file that are looked through for the one that was meant: each takes time, for each name."""


def unknown_needs(document: Document) -> Iterator[Problem]:
    """Yields each; nothing when a step's id cannot be told, since then it may be the one that is meant.

    The scheduler checks them as well, but a file that breaks the schema never reaches it.

    Args:
        document: Anything that is YAML.
    """
    steps = document.value.get("steps") if isinstance(document.value, dict) else None
    steps = steps if isinstance(steps, list) else []
    known = {_id(step): None for step in steps}
    if None in known:
        return
    names = [each for each in known if each]
    for at, step in enumerate(steps):
        needs = step.get("needs")
        for place, name in enumerate(needs if isinstance(needs, list) else ()):
            if isinstance(name, str) and name not in known:
                path = ("steps", at, "needs", place)
                yield Problem(document.mark(path), field_name(document, path), _sentence(name, names))


def _id(step: Any) -> str | None:
    named = step.get("id") if isinstance(step, dict) else None
    return named if isinstance(named, str) else None


def _sentence(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:200], known, 1) if len(known) <= HINTED else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = json.dumps(name[:60], ensure_ascii=False)
    return f"{shown} is not a step of this workflow; add it, or name one that is.{hint}"
