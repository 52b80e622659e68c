"""The bars of the design: what each figure must reach, and below what the design is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.figures import Report


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach. `higher`: more is better. `floor`: beyond it the design is wrong; None: no floor."""

    value: float
    higher: bool = True
    floor: float | None = None

    def judge(self, measured: float) -> dict[str, Any]:
        """Returns bar, floor and verdict: `reached`, `missed` or `below the floor`."""
        verdict = "reached" if self._holds(measured, self.value) else "missed"
        if self.floor is not None and not self._holds(measured, self.floor):
            verdict = "below the floor"
        told = {"bar": self.value, "measured": measured, "verdict": verdict}
        return told if self.floor is None else told | {"floor": self.floor}

    def _holds(self, measured: float, limit: float) -> bool:
        return measured >= limit if self.higher else measured <= limit


VALUE = "value"

BARS: dict[str, dict[str, Bar]] = {
    "throughput": {
        VALUE: Bar(25_000, floor=15_000), "at_default_concurrency": Bar(8_000), "celery_ratio": Bar(15),
        "dramatiq_ratio": Bar(10),
    },
    "throughput-mysql": {VALUE: Bar(12_000, floor=8_000)},
    "submit-single": {VALUE: Bar(5_000, floor=3_000), "raw_unary": Bar(2_000)},
    "latency": {
        VALUE: Bar(2, higher=False, floor=5), "p99_ms": Bar(6, higher=False),
        "normal_p50_ms": Bar(1.5, higher=False), "mariadb_p50_ms": Bar(4, higher=False),
    },
    "runs": {VALUE: Bar(4_000, floor=1_500), "fanout_1000_s": Bar(0.15, higher=False)},
    "dag-chain": {VALUE: Bar(3, higher=False, floor=6)},
    "dag-real": {VALUE: Bar(0.6, higher=False, floor=1.5)},
    "gateway": {VALUE: Bar(1_500), "p50_ms_at_100": Bar(5, higher=False)},
}  # fmt: skip
"""By benchmark, then by figure: `value`, or a member of its detail."""


def judge(report: Report) -> dict[str, Any]:
    """Returns the verdict on each figure of a report that has a bar and was measured."""
    found = {}
    for figure, bar in BARS.get(report.name, {}).items():
        measured = report.value if figure == VALUE else report.detail.get(figure)
        if measured is not None:
            found[figure] = bar.judge(measured)
    return found
