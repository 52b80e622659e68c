"""Registrations, hellos and heartbeats at the door."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.events import Heartbeat, Hello
from taskyard_core.fleet import Registration
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.workers import read_heartbeat, read_hello, read_registration


def request() -> pb.RegisterRequest:
    return pb.RegisterRequest(worker_id="w1", capabilities=["noop"], max_concurrency=10)


def test_a_registration_arrives_whole() -> None:
    given = request()
    given.host, given.port, given.build_id, given.protocol = "host-1", 8080, "1.2", "GRPC"
    given.capabilities.extend(["*", "noop"])
    given.labels.update({"zone": "b", "lang": "python"})
    given.resources.cpu_millis, given.resources.memory_mb, given.resources.gpus = 4_000, 8_192, 1
    assert read_registration(given) == Registration(
        host="host-1", port=8080, capabilities=("noop", "*"), max_concurrency=10, protocol="grpc",
        labels=(("lang", "python"), ("zone", "b")), build_id="1.2", cpu_millis=4_000, memory_mb=8_192, gpus=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "spoil", "said"),
    [
        ("worker_id", lambda r: setattr(r, "worker_id", ""), "the worker's id is empty"),
        ("worker_id", lambda r: setattr(r, "worker_id", "a\0"), "U+0000"),
        ("host", lambda r: setattr(r, "host", "x" * 256), "255"),
        ("port", lambda r: setattr(r, "port", 65_536), "65,535"),
        ("port", lambda r: setattr(r, "port", -1), "0 to"),
        ("max_concurrency", lambda r: setattr(r, "max_concurrency", 0), "1 to 100,000"),
        ("max_concurrency", lambda r: setattr(r, "max_concurrency", 100_001), "1 to 100,000"),
        ("build_id", lambda r: setattr(r, "build_id", "\0"), "NUL"),
        ("protocol", lambda r: setattr(r, "protocol", "http"), "dial its stream"),
        ("protocol", lambda r: setattr(r, "protocol", "carrier-pigeon"), "no protocol"),
        ("callback_url", lambda r: setattr(r, "callback_url", "http://x"), "leave it empty"),
        ("grpc_addr", lambda r: setattr(r, "grpc_addr", "x:1"), "leave it empty"),
        ("capabilities", lambda r: r.ClearField("capabilities"), "'*' for any"),
        ("capabilities[1]", lambda r: r.capabilities.append("a\tb"), "U+0009"),
        ("labels['bad key']", lambda r: r.labels.update({"bad key": "x"}), "cannot name a label"),
        ("labels.lang", lambda r: r.labels.update({"lang": "a b"}), "cannot be the value"),
        ("labels", lambda r: r.labels.update({f"l{n}": "x" for n in range(65)}), "more than 64"),
        ("resources.gpus", lambda r: setattr(r.resources, "gpus", -1), "0 to 1,000"),
    ],
)
def test_each_rule_names_its_field(field: str, spoil: Callable[[pb.RegisterRequest], object], said: str) -> None:
    given = request()
    spoil(given)
    with pytest.raises(InvalidInput) as refused:
        read_registration(given)
    [violation] = refused.value.violations
    assert violation.field == field
    assert said in violation.description


def test_a_hello_names_what_the_worker_holds() -> None:
    stream = object()
    given = pb.Hello(worker_id="w", session_epoch=5, attempts=[pb.HeldAttempt(task_id="t", attempt_token="k")])
    assert read_hello(given, stream) == Hello("w", 5, stream, [("t", "k")])


def test_a_heartbeat_with_odd_figures_is_still_a_sign_of_life() -> None:
    given = pb.HeartbeatRequest(worker_id="w", session_epoch=5, attempt_tokens=["k"], cpu_usage=1.5, memory_mb=64)
    assert read_heartbeat(given) == Heartbeat("w", 5, ["k"], 1.5, 64, [])
    given.cpu_usage, given.memory_mb = float("nan"), -1
    assert read_heartbeat(given) == Heartbeat("w", 5, ["k"], 0.0, 0, [])


def test_a_heartbeat_of_a_held_worker_says_what_was_started() -> None:
    given = pb.HeartbeatRequest(worker_id="w", session_epoch=5, started_tokens=["s", "t"])
    assert read_heartbeat(given) == Heartbeat("w", 5, [], 0.0, 0, ["s", "t"])
