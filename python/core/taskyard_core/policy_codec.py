"""The stored form of a Policy: compact JSON of what differs from the defaults, empty for none."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from taskyard_core.records import Policy
from taskyard_core.retry import RetryPolicy

_DEFAULTS: dict[str, Any] = asdict(Policy())
_STORED = tuple(f.name for f in fields(Policy) if f.init)
_RETRY_DEFAULTS: dict[str, Any] = asdict(RetryPolicy())
_RETRY_FIELDS = tuple(f.name for f in fields(RetryPolicy))


def dump_policy(policy: Policy) -> str:
    """Returns the stored form; equal policies have equal forms."""
    values = {name: value for name, value in asdict(policy).items() if name in _STORED}
    retry = {name: value for name, value in values.pop("retry").items() if value != _RETRY_DEFAULTS[name]}
    changed = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
    if retry:
        changed["retry"] = retry
    return json.dumps(changed, separators=(",", ":"), sort_keys=True) if changed else ""


@lru_cache(maxsize=4096)
def load_policy(text: str) -> Policy:
    """Reads a stored form. Unknown members, written by a newer version, are passed over."""
    if not text:
        return Policy()
    values = json.loads(text)
    retry = {name: value for name, value in values.pop("retry", {}).items() if name in _RETRY_FIELDS}
    known = {name: value for name, value in values.items() if name in _STORED}
    return Policy(**known, retry=RetryPolicy(**retry))
