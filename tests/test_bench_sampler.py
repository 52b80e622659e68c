"""The benchmarks' sampler charges the thread and the function that use the processor."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from bench.sampler import Sampler, service_main

BUSY_S = 0.3


@pytest.fixture(autouse=True)
def earlier_handler() -> Iterator[None]:
    earlier = signal.getsignal(signal.SIGPROF)
    yield
    signal.signal(signal.SIGPROF, earlier)


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def burn_elsewhere() -> None:
    burn(BUSY_S)


def test_time_is_charged_to_thread_and_function() -> None:
    thread = threading.Thread(target=burn_elsewhere, name="elsewhere")
    with Sampler() as sampler:
        thread.start()
        burn(BUSY_S)
        thread.join()
    for name in ("MainThread", "elsewhere"):
        functions = sampler.own[name]
        burned = sum(seconds for function, seconds in functions.items() if function.endswith(":burn"))
        assert BUSY_S / 2 < burned < BUSY_S * 1.5
    callers = sampler.total["elsewhere"]
    assert any(function.endswith(":burn_elsewhere") for function in callers)
    text = sampler.text()
    assert "thread elsewhere: in the function itself" in text
    assert sampler.taken_s >= 2 * BUSY_S


def test_a_thread_that_waits_costs_nothing() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="waiting")
    with Sampler() as sampler:
        thread.start()
        burn(BUSY_S)
        stop.set()
        thread.join()
    assert sum(sampler.own["waiting"].values()) < BUSY_S / 10


def test_services_are_found_as_the_command_finds_them() -> None:
    assert service_main("scheduler").__module__ == "taskyard_scheduler.main"
    assert service_main("worker").__module__ == "taskyard_worker.main"
