from __future__ import annotations

import time

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from taskyard_service.metrics import OTHER, TASK_TYPE_LIMIT, Metrics


def test_names_that_dashboards_rely_on() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.observe_task("llm_call", "SUCCESS", 0.7)
    metrics.workers_healthy.set(2)
    text = generate_latest(registry).decode()
    series = 'workflow_task_duration_seconds_bucket{le="%s",status="SUCCESS",task_type="llm_call"} %s'
    buckets = {
        "0.1": "0.0",
        "0.5": "0.0",
        "1.0": "1.0",
        "2.0": "1.0",
        "5.0": "1.0",
        "10.0": "1.0",
        "30.0": "1.0",
    }
    assert [series % pair in text for pair in buckets.items()] == [True] * 7
    assert text.count("workflow_task_duration_seconds_bucket{") == 8
    assert "\nworkflow_workers_healthy 2.0\n" in text
    assert "process_resident_memory_bytes" in text


def test_queue_depths_are_replaced_not_added() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.set_queue_depth({"a": 3, "b": 1})
    metrics.set_queue_depth({"a": 5})
    assert registry.get_sample_value("workflow_queue_depth", {"task_type": "a"}) == 5
    assert registry.get_sample_value("workflow_queue_depth", {"task_type": "b"}) is None


def test_task_types_that_users_invent_do_not_make_series_without_end() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for n in range(TASK_TYPE_LIMIT + 50):
        metrics.observe_task(f"type-{n}", "SUCCESS", 0.1)
    name, labels = "workflow_task_duration_seconds_count", {"status": "SUCCESS"}
    assert registry.get_sample_value(name, labels | {"task_type": "type-3"}) == 1
    assert registry.get_sample_value(name, labels | {"task_type": f"type-{TASK_TYPE_LIMIT + 1}"}) is None
    assert registry.get_sample_value(name, labels | {"task_type": OTHER}) == 50
    metrics.set_queue_depth({f"new-{n}": 2 for n in range(10)})
    assert registry.get_sample_value("workflow_queue_depth", {"task_type": OTHER}) == 20


def test_two_processes_worth_of_metrics_live_beside_each_other() -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    Metrics(first).count_error("/a/B", "NOT_FOUND")
    Metrics(second)
    labels = {"method": "/a/B", "code": "NOT_FOUND"}
    assert first.get_sample_value("workflow_rpc_errors_total", labels) == 1
    assert second.get_sample_value("workflow_rpc_errors_total", labels) is None


def test_counting_a_task_is_cheap() -> None:
    metrics = Metrics(CollectorRegistry())
    best_s = 1.0
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(5_000):
            metrics.observe_task("a", "SUCCESS", 0.3)
        best_s = min(best_s, (time.perf_counter() - begin) / 5_000)
    # Measured: about 1 us; the bound leaves room for a slow machine.
    assert best_s < 10e-6
