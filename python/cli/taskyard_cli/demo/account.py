"""The account of a run: what the report and the terminal say of it, and whether it shows what it was to show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED, TaskAttempt
from taskyard.v1.workflows_pb2 import RunState
from taskyard_cli.demo.history import History, Step
from taskyard_cli.demo.questions import QUESTIONS, SOURCES
from taskyard_cli.demo.report import ASKED_FOR
from taskyard_cli.durations import show_seconds
from taskyard_cli.show import run_word

HANDLER_ERROR, WORKER_LOST, NEVER_STARTED = "HANDLER_ERROR", "WORKER_LOST", "NEVER_STARTED"

SCHEDULING = "Scheduling is from a step's end to the making of what follows, and from sending a task to its start:"


def events(history: History, killed: str) -> list[str]:
    """Returns a sentence for each attempt that came to nothing, in the order of their ends."""
    wasted = [(each.end_time.ToDatetime(), step, each) for step in history.steps for each in step.wasted]
    return [_event(step, each, killed) for _, step, each in sorted(wasted, key=lambda one: one[0])]


def _event(step: Step, attempt: TaskAttempt, killed: str) -> str:
    worker, kind = attempt.worker_id, attempt.error.kind
    how = f"{worker} was killed (kill -9)" if worker == killed else f"{worker} was lost"
    told = {
        HANDLER_ERROR: f"{step.id} failed at attempt {attempt.attempt} on {worker} ({attempt.error.message})",
        WORKER_LOST: f"{how} while it ran {step.id}",
        NEVER_STARTED: f"{step.id} was sent to {worker}, which never started it",
    }
    return f"{told.get(kind, f'{step.id} ended on {worker} with {kind}')}; {_then(step, attempt)}"


def _then(step: Step, attempt: TaskAttempt) -> str:
    after = next((each for each in step.attempts if each.attempt > attempt.attempt), None)
    if after is None:
        return "no other attempt followed"
    return f"attempt {after.attempt} ran on {after.worker_id}"


def steps_line(history: History) -> str:
    """Returns how many steps and attempts there were."""
    attempts = sum(len(step.attempts) for step in history.steps)
    return f"{history.run.run.steps_ended} of {history.run.run.steps_total}, in {attempts} attempts"


def workers_line(history: History) -> str:
    """Returns which workers did how much."""
    return ", ".join(f"{name} ({good} of {ran} attempts ended well)" for name, (ran, good) in history.used().items())


def answers_line(history: History) -> str:
    """Returns how many questions were answered, and for how many a passage that has the answer was found."""
    told = json.loads(history.run.run.output_json)
    return (
        f"{told['questions']} questions, vectors by {told['model']}; for {told['found']} of them a section with the "
        f"answer is among the {SOURCES} passages found"
    )


def time_rows(history: History) -> list[tuple[str, str]]:
    """Returns where the tasks' time went, each kind with its share of all; history.Phases says what each means."""
    phases = history.phases
    named = (
        ("queued for a free slot", phases.queued),
        ("scheduling", phases.scheduling),
        ("running", phases.running),
        ("in attempts that came to nothing", phases.lost),
        ("waiting before a retry", phases.retrying),
    )
    whole = phases.total or 1.0
    return [(name, f"{show_seconds(spent)} ({100 * spent / whole:.0f} %)") for name, spent in named]


def appendix(history: History, killed: str) -> str:
    """Returns the report's last section: how it was made."""
    run = history.run.run
    story = [f"Steps: {steps_line(history)}", f"Workers: {workers_line(history)}", *events(history, killed)]
    times = [f"| {name} | {time} |" for name, time in time_rows(history)]
    parts = [
        "## How this report was made",
        f"Run `{run.run_id}` of `{run.workflow}`, {run_word(run.state)} after {show_seconds(history.seconds)}.",
        "\n".join(f"- {sentence}." for sentence in story),
        f"The tasks' time, {show_seconds(history.phases.total)} in all, since they run beside each other. {SCHEDULING}",
        "\n".join(["| where it went | time |", "|---|---|", *times]),
        "\n".join(["| step | attempt | worker | status | took |", "|---|---|---|---|---|", *_attempt_rows(history)]),
    ]
    return "\n\n".join(parts) + "\n"


def _attempt_rows(history: History) -> Iterator[str]:
    for step in history.steps:
        for each in step.attempts:
            spent = (each.end_time.ToDatetime() - each.assign_time.ToDatetime()).total_seconds()
            kind = each.error.kind or "SUCCESS"
            yield f"| {step.id} | {each.attempt} | {each.worker_id} | {kind} | {show_seconds(spent)} |"


def excerpt(report: str, question: str) -> str:
    """Returns what the report answers to one question, as plain text: the answer, then a line for each source."""
    lines = _sections(report.splitlines()).get(question, [])
    sources = [f"  {topic}, {title}, {score}" for topic, title, score, _ in _sources(lines)]
    return re.sub(r"\\(.)", r"\1", "\n".join([*_answer(lines), *sources])).replace("`", "")


def shortfalls(history: History, killed: str, report: str | None) -> list[str]:
    """Returns what the demo was to show and did not; empty when it showed everything. `report`: None: there is none."""
    written = ["there is no report"] if report is None else _of_report(report)
    return [*_of_run(history), *_of_failure(history), *_of_kill(history, killed), *written]


def _of_run(history: History) -> Iterator[str]:
    run = history.run.run
    if run.state != RunState.RUN_STATE_SUCCEEDED:
        yield f"the run is {run_word(run.state)}: {run.error_message}"
        failed = (step.task.error.message for step in history.steps if step.task.status == TASK_STATUS_FAILED)
        yield from (f"it said: {message}" for message in dict.fromkeys(failed))
    if not all(step.succeeded for step in history.steps) or len(history.steps) != run.steps_total:
        yield "not every step succeeded"
    if len(history.used()) < 2:
        yield f"only {workers_line(history) or 'no worker'} ran anything"


def _of_failure(history: History) -> Iterator[str]:
    if not any(step.succeeded for step, _ in history.ended_as(HANDLER_ERROR)):
        yield "no step failed at first and succeeded later"


def _of_kill(history: History, killed: str) -> Iterator[str]:
    if not killed:
        yield "no worker was killed"
    lost = [(step, each) for step, each in history.ended_as(WORKER_LOST) if each.worker_id == killed]
    if not lost:
        yield f"{killed or 'no worker'} was killed, and lost nothing"
    for step, _ in lost:
        if not step.succeeded or step.attempts[-1].worker_id == killed:
            yield f"the work of {step.id} did not go to another worker"


def _of_report(report: str) -> Iterator[str]:
    sections = _sections(report.splitlines())
    found = 0
    for question in QUESTIONS:
        lines = sections.get(question.text, [])
        sources = list(_sources(lines))
        if not any(_answer(lines)):
            yield f"the report has no answer to: {question.text}"
        if len(sources) != SOURCES:
            yield f"the report has {len(sources)} sources and not {SOURCES} for: {question.text}"
        found += any(mark == ASKED_FOR for *_, mark in sources)
    if found <= len(QUESTIONS) / 2:
        yield f"for only {found} of {len(QUESTIONS)} questions a passage that answers it was found"


def _answer(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line and not line.startswith("|")]


def _sources(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yields topic, section, score and mark of each row of a table, without its head."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    yield from ([cell.strip() for cell in row] for row in rows[2:])


def _sections(lines: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("### "):
            name = line.removeprefix("### ")
        elif line.startswith("#"):
            name = ""
        else:
            found.setdefault(name, []).append(line)
    return found
