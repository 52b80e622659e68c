"""Arithmetic on measurements, and the object that a benchmark prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """What a benchmark found. `value` is its first figure; `detail` and `peers` hold the others by name."""

    name: str
    value: float
    unit: str
    detail: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)

    def line(self) -> str:
        """Returns it as one line of JSON."""
        members = {"name": self.name, "value": self.value, "unit": self.unit}
        return json.dumps(members | {"detail": self.detail, "peers": self.peers})


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns the smallest value that at least `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    """Returns the middle value; of two middle ones the smaller, so that it was really measured."""
    return percentile(values, 50)


def figure(value: float) -> float:
    """Returns a value with as many digits as a measurement can have: four."""
    if value == 0 or not math.isfinite(value):
        return value
    rounded = round(value, 3 - math.floor(math.log10(abs(value))))
    return int(rounded) if abs(rounded) >= 1000 else rounded


def cost_per(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """Returns microseconds of processor time per item and process."""
    return {name: round((after[name] - before[name]) / count * 1e6, 1) for name in before if after[name] > before[name]}
