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


def burned_by(sampler: Sampler, thread: str) -> float:
    return sum(seconds for function, seconds in sampler.own[thread].items() if function.endswith(":burn"))


def test_time_is_charged_to_thread_and_function() -> None:
    thread = threading.Thread(target=burn_elsewhere, name="elsewhere")
    start = time.thread_time()
    with Sampler() as sampler:
        thread.start()
        while thread.is_alive():  # only a main thread that runs can look
            burn(BUSY_S / 10)
    burned = time.thread_time() - start
    assert BUSY_S / 2 < burned_by(sampler, "elsewhere") < BUSY_S * 1.5
    assert burned / 2 < burned_by(sampler, "MainThread") < burned * 1.5
    assert any(function.endswith(":burn_elsewhere") for function in sampler.total["elsewhere"])
    assert "thread elsewhere: in the function itself" in sampler.text()


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
