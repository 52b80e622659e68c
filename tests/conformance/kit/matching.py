"""Compares what was expected with what was seen, and says where they differ."""

from __future__ import annotations

import json
from typing import Any

ANY = "$any"
SHOWN = 120


def difference(wanted: Any, found: Any, at: str = "") -> str:
    """Returns how `found` differs, as the end of a sentence; the empty string: it does not. `$any` is anything."""
    where = f"at `{at}` " if at else ""
    if wanted == ANY:
        return ""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            return f"{where}has the keys {sorted(found)}, but must have {sorted(wanted)}"
        return next(filter(None, (difference(wanted[key], found[key], f"{at}.{key}".strip(".")) for key in wanted)), "")
    if isinstance(wanted, bool) is isinstance(found, bool) and wanted == found:
        return ""
    return f"{where}is {shown(found)}, but must be {shown(wanted)}"


def shown(value: Any) -> str:
    """Returns a value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
