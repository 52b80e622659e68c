"""What holds for every test of the repository: skips are named and counted, and no test leaves a task behind.

The servers that tests may ask for are in tests/servers.py; tests/shares.py says which process runs which file.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import AsyncIterator

import hypothesis
import pytest

pytest_plugins = ("servers", "shares")

LEAK_GRACE_S = 1.0
"""How long tasks that are just ending get, once all fixtures of a test are gone, in seconds."""

FINDING = "finding"
"""The property (`record_property`) whose text is printed at the end of the run."""


def skips_are_failures() -> bool:
    """Tells whether this run must show everything: in CI a skip hides what nobody looked at."""
    return os.environ.get("TASKYARD_NO_SKIPS") == "1" or os.environ.get("CI") == "true"


class SkipLedger:
    """Keeps each skipped test with its reason, prints all at the end, fails the run where none is allowed."""

    def __init__(self) -> None:
        self.skipped: list[tuple[str, str]] = []

    def record(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        self.skipped.append((report.nodeid, reason.removeprefix("Skipped: ")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.record(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.record(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.skipped and skips_are_failures() and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.skipped:
            terminalreporter.write_line("nothing was skipped")
            return
        verdict = "not allowed here: the run fails" if skips_are_failures() else "what they show is not shown"
        terminalreporter.section(f"{len(self.skipped)} skipped ({verdict})")
        for name, reason in self.skipped:
            terminalreporter.write_line(f"{name}: {reason}")


class Findings:
    """Prints at the end what tests recorded as their property FINDING: passed or not, someone wants to read it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.lines += [(report.nodeid, str(text)) for name, text in report.user_properties if name == FINDING]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, text in self.lines:
            terminalreporter.write_line(f"{name}:\n{text}")


def answer_interrupts() -> None:
    """Has SIGINT answered where whoever started the run ignores it, as shells do for jobs in the background.

    What is ignored stays so in every process that a test starts, and a test of Ctrl-C would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    answer_interrupts()
    config.pluginmanager.register(SkipLedger(), "skip-ledger")
    config.pluginmanager.register(Findings(), "findings")
    # A deadline per example measures the machine's load, not the code; `timeout` bounds the test as a whole.
    hypothesis.settings.register_profile("taskyard", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("taskyard")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First in the list is set up first and torn down last, when every other fixture has ended its tasks.
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "no_leaked_tasks")


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Fails a test that ends with asyncio tasks still running, and names them."""
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if not left:
        return
    _, running = await asyncio.wait(left, timeout=LEAK_GRACE_S)
    if running:
        pytest.fail("tasks left running: " + ", ".join(sorted(str(task.get_coro()) for task in running)))
