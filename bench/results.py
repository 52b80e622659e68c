"""Writes results.md from the reports of all benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results.md"
PROFILE_LINES = 45

HEAD = """# Results

Written by `make bench`; what each figure means is in [README.md](README.md). One machine, everything on it together:
client, scheduler, database, worker and, in the same run, the peers.
"""


def write_results(reports: dict[str, dict[str, Any]], profiles: dict[str, list[Path]]) -> None:
    """Writes the page.

    Args:
        reports: By benchmark, as it printed them.
        profiles: Files that say where the time goes, by benchmark that missed a bar.
    """
    parts = [HEAD, _machine(next(iter(reports.values()))), _table(reports)]
    parts += [_section(name, report) for name, report in reports.items()]
    parts += [_profile(path) for paths in profiles.values() for path in paths]
    RESULTS.write_text("\n".join(parts), encoding="utf-8")


def _machine(report: dict[str, Any]) -> str:
    settings = report["detail"]["settings"]
    facts = settings["machine"]
    here, there = facts["bare_grpc"], facts["bare_grpc_where_bars_were_set"]
    versions = ", ".join(f"{name} {version}" for name, version in settings["versions"].items())
    return (
        f"{facts['cores']} cores of {facts['processor']}, {facts['memory_gib']} GiB, {facts['system']},"
        f" Python {facts['python']}. Databases on {facts['filesystem']}, where a durable append of 4 KiB takes"
        f" {facts['fsync_ms']} ms. {versions}.\n\n"
        f"A bare gRPC call between two Python processes takes {here['unary_ms']} ms here and {there['unary_ms']} ms on"
        f" the machine that the bars were set on; 64 at once make {here['unary_per_s']:,} a second here and"
        f" {there['unary_per_s']:,} there.\n"
    )


def _table(reports: dict[str, dict[str, Any]]) -> str:
    rows = ["| benchmark | figure | measured | bar | floor | |", "|---|---|---|---|---|---|"]
    for name, report in reports.items():
        for figure, told in report["detail"]["bars"].items():
            shown = f"**{report['unit']}**" if figure == "value" else f"`{figure}`"
            cells = (name, shown, told["measured"], told["bar"], told.get("floor", ""), told["verdict"])
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def _section(name: str, report: dict[str, Any]) -> str:
    return f"## {name}\n\n```json\n{json.dumps(report, indent=1)}\n```\n"


def _profile(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()[:PROFILE_LINES]
    return "\n".join([f"## Where the time goes: {path.stem}", "", "```", *lines, "```", ""])
