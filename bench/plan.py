"""How large a benchmark runs and what it does besides measuring: read from the environment, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".bench"
"""Everything that benchmarks leave behind: databases while they run, the peers' environment, profiles."""


WORKFLOWS = FOLDER.parent.parent / "shared" / "data" / "workflows"
"""Recorded workflows, beside the repository: they are others' and no part of it."""


class BadPlan(ValueError):
    """A variable of the benchmark's environment breaks its rule."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one benchmark is to do.

    Attributes:
        scale: Times each number of tasks; 1 is what performance.md says.
        repeats: How often a throughput is measured; the median counts.
        peers: Whether the peers are measured too.
        profile: Services that run under the sampler (`scheduler`, `worker`); figures suffer by some percent.
        anyway: Whether a busy machine is only warned of.
        keep: Whether databases and logs are kept.
        workflows: The folder of recorded workflows that `dag-real` runs.
    """

    scale: float = 1.0
    repeats: int = 3
    peers: bool = True
    profile: frozenset[str] = frozenset()
    anyway: bool = False
    keep: bool = False
    workflows: Path = WORKFLOWS

    def count(self, full: int, *, step: int = 1, least: int = 1) -> int:
        """Returns a number of tasks: `full` at the plan's scale, a multiple of `step` and at least `least`."""
        return max(least, round(full * self.scale / step) * step, step)


def plan_of(environ: Mapping[str, str]) -> Plan:
    """Returns the plan that SCALE, REPEATS, PEERS, PROFILE, ANYWAY, KEEP and WORKFLOWS describe.

    Raises:
        BadPlan: One of them is not what it should be.
    """
    profile = environ.get("PROFILE", "")
    services = {"": "", "0": "", "1": "scheduler"}.get(profile, profile)
    chosen = frozenset(filter(None, services.split(",")))
    if not chosen <= {"scheduler", "worker"}:
        raise BadPlan(f"PROFILE is {profile!r}: give 1, or some of scheduler,worker")
    return Plan(
        scale=_number(environ, "SCALE", 1.0),
        repeats=max(1, round(_number(environ, "REPEATS", 3))),
        peers=environ.get("PEERS", "1") != "0",
        profile=chosen,
        anyway=environ.get("ANYWAY", "0") != "0",
        keep=environ.get("KEEP", "0") != "0",
        workflows=Path(environ.get("WORKFLOWS") or WORKFLOWS),
    )


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "") or str(default)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise BadPlan(f"{name} is {text!r}: give a number above 0 and at most 1000")
    return value
