"""The benchmarks' arithmetic, their plan, their verdicts and their page."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import machine, results
from bench.bars import BARS, Bar, judge
from bench.command import BENCHMARKS
from bench.figures import Report, cost_per, figure, median, percentile
from bench.plan import BadPlan, Plan, plan_of


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100
    assert sum(value < found for value in values) < len(values) * percent / 100


def test_the_median_was_measured() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0]) == 1.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(25123.4, 25120), (0.0012345, 0.001234), (0.0, 0.0), (1.0, 1.0), (999.96, 1000), (12.346, 12.35)],
)
def test_a_figure_has_four_digits(value: float, shown: float) -> None:
    assert figure(value) == shown


def test_costs_are_microseconds_an_item() -> None:
    before = {"scheduler": 1.0, "database": 0.0}
    assert cost_per(before, {"scheduler": 3.5, "database": 0.0}, 100_000) == {"scheduler": 25.0}


def test_a_report_is_one_line_with_the_members_that_the_design_names() -> None:
    report = Report("latency", 1.5, "ms", {"p99_ms": 4.0}, {})
    assert "\n" not in report.line()
    assert json.loads(report.line()) == {
        "name": "latency", "value": 1.5, "unit": "ms", "detail": {"p99_ms": 4.0}, "peers": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bar", "measured", "verdict"),
    [
        (Bar(10, floor=5), 10, "reached"),
        (Bar(10, floor=5), 7, "missed"),
        (Bar(10, floor=5), 4.9, "below the floor"),
        (Bar(2, higher=False, floor=5), 2, "reached"),
        (Bar(2, higher=False, floor=5), 3, "missed"),
        (Bar(2, higher=False, floor=5), 5.1, "below the floor"),
        (Bar(2, higher=False), 100, "missed"),
    ],
)
def test_a_bar_judges_in_its_direction(bar: Bar, measured: float, verdict: str) -> None:
    assert bar.judge(measured)["verdict"] == verdict


def test_every_benchmark_has_bars_and_only_what_was_measured_is_judged() -> None:
    assert set(BARS) == set(BENCHMARKS)
    report = Report("throughput", 26_000, "tasks/s", {"at_default_concurrency": 7_000})
    judged = judge(report)
    assert {name: told["verdict"] for name, told in judged.items()} == {
        "value": "reached", "at_default_concurrency": "missed",
    }  # fmt: skip


def test_a_plan_scales_counts_in_steps() -> None:
    plan = Plan(scale=0.013)
    assert plan.count(100_000, step=500) == 1500
    assert plan.count(100_000, step=500) % 500 == 0
    assert Plan(scale=0.0001).count(100_000, step=500) == 500
    assert Plan(scale=0.01).count(25, least=3) == 3


def test_the_environment_makes_the_plan() -> None:
    assert plan_of({}) == Plan()
    told = plan_of({"SCALE": "0.5", "REPEATS": "1", "PEERS": "0", "PROFILE": "1", "ANYWAY": "1"})
    assert told == Plan(0.5, 1, False, frozenset({"scheduler"}), True)
    assert plan_of({"PROFILE": "scheduler,worker"}).profile == {"scheduler", "worker"}
    assert plan_of({"WORKFLOWS": "elsewhere"}).workflows == Path("elsewhere")
    assert plan_of({"WORKFLOWS": ""}).workflows == Plan().workflows


@pytest.mark.parametrize("environ", [{"SCALE": "0"}, {"SCALE": "x"}, {"REPEATS": "-1"}, {"PROFILE": "client"}])
def test_a_bad_plan_is_refused_with_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(BadPlan, match=next(iter(environ))):
        plan_of(environ)


def test_a_busy_machine_is_refused_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 80.0)
    with pytest.raises(machine.MachineBusy, match="80 %"):
        machine.look(anyway=False)
    assert machine.look(anyway=True) == 80.0


def test_the_page_has_every_verdict_and_the_profile_of_what_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, profile = tmp_path / "results.md", tmp_path / "latency-scheduler.txt"
    monkeypatch.setattr(results, "RESULTS", page)
    profile.write_text("80 % somewhere\n")
    report = Report("latency", 2.5, "ms", {"p99_ms": 4.0}, {})
    facts = machine.facts(tmp_path, 1.0)
    report.detail |= {"bars": judge(report), "settings": {"machine": facts, "versions": {"grpcio": "1"}}}
    results.write_results({"latency": json.loads(report.line())}, {"latency": [profile]})
    text = page.read_text()
    assert "| latency | **ms** | 2.5 | 2 | 5 | missed |" in text
    assert "| latency | `p99_ms` | 4.0 | 6 |  | reached |" in text
    assert "80 % somewhere" in text
