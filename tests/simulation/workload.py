"""What clients want in one history: tasks and runs of every kind, drawn from the seed before it begins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.pauses_pb2 import PauseScope
from taskyard_client.policies import Placement, Resources, Retry, Timeouts

TASKS = 52
RUNS = 3
SPAN_S = 20.0
"""Over which time the clients' wishes are spread."""
WORKFLOWS = 3
BY_HAND = ("terminate", "requeue", "prioritize", "mark success", "mark skipped")
HANDLED = ("loop", "thread", "alone")
"""Task types that every worker handles that offers them."""
RULES = (
    pb.TRIGGER_RULE_ALL_SUCCESS,
    pb.TRIGGER_RULE_ALL_DONE,
    pb.TRIGGER_RULE_ONE_SUCCESS,
    pb.TRIGGER_RULE_ONE_FAILED,
    pb.TRIGGER_RULE_NONE_FAILED,
)

BEGIN_S = 1_700_001_000.0
"""Unix seconds at the beginning, by clocks that are right."""

Input = dict[str, Any]


@dataclass(slots=True)
class Wish:
    """A task or a run that a client wants. Times are virtual seconds since the beginning.

    `cancel_after`: seconds after the answer; None: never. `by_hand`: what of BY_HAND, and likewise. `repeats`: how
    often it is sent again though answered.
    """

    number: int
    at: float
    client: int
    cancel_after: float | None = None
    retry: bool = False
    repeats: int = 0
    key: str = ""
    by_hand: tuple[str, float] | None = None  # what a person does to it, and how long after the answer
    completed: tuple[str, float] | None = None  # how its result comes from outside, and how long after the answer

    @property
    def request_id(self) -> str:
        """The request id under which it is always sent."""
        return f"wish-{self.number}"


@dataclass(slots=True)
class TaskWish(Wish):
    """A task."""

    task_type: str = "loop"
    input: Input = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def fate(self) -> str:
        """What its handler does."""
        return str(self.input.get("do", "return"))


@dataclass(slots=True)
class RunWish(Wish):
    """A run."""

    workflow: str = ""
    inputs: Input = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    reruns: int = 0  # how often it is taken up again after it has ended


@dataclass(slots=True)
class Hold:
    """Something that is held back from a time on, for so many seconds. `run`: number of the wish whose run it is."""

    at: float
    seconds: float
    scope: PauseScope.ValueType
    name: str = ""
    run: int = 0


@dataclass(slots=True)
class Workload:
    """All wishes, the workflows that runs are of, and what is held back meanwhile."""

    workflows: list[pb.Workflow]
    tasks: list[TaskWish]
    runs: list[RunWish]
    holds: list[Hold]


def draw(rng: random.Random) -> Workload:
    """Draws a workload."""
    workflows = [_workflow(rng, f"flow-{number}") for number in range(WORKFLOWS)]
    tasks = [_task(rng, number) for number in range(TASKS)]
    runs = [_run(rng, TASKS + number, rng.choice(workflows).name) for number in range(RUNS)]
    return Workload(workflows, tasks, runs, [_hold(rng, runs) for _ in range(rng.choice((0, 1, 2, 3)))])


def _hold(rng: random.Random, runs: list[RunWish]) -> Hold:
    """Draws something that is held back for a while. Ready queues are named by what they have to tell them apart."""
    hold = Hold(rng.uniform(0.0, SPAN_S), rng.uniform(0.5, 8.0), rng.choice(PauseScope.values()[1:]))
    if hold.scope in (PauseScope.PAUSE_SCOPE_QUEUE, PauseScope.PAUSE_SCOPE_TASK_TYPE):
        hold.name = rng.choice(HANDLED)
    elif hold.scope == PauseScope.PAUSE_SCOPE_WORKFLOW:
        hold.name = f"flow-{rng.randrange(WORKFLOWS)}"
    elif hold.scope == PauseScope.PAUSE_SCOPE_RUN:
        hold.run = rng.choice(runs).number
    return hold


def _common(rng: random.Random, number: int) -> dict[str, Any]:
    wish: dict[str, Any] = {"number": number, "at": rng.uniform(0.0, SPAN_S), "client": rng.randrange(2)}
    if rng.random() < 0.2:
        wish["cancel_after"] = rng.choice((0.0, rng.uniform(0.0, 1.0), rng.uniform(0.0, 8.0)))
    if rng.random() < 0.25:
        wish["by_hand"] = (rng.choice(BY_HAND), rng.choice((0.0, rng.uniform(0.0, 1.0), rng.uniform(0.0, 6.0))))
    wish["retry"] = rng.random() < 0.3
    wish["repeats"] = rng.choice((0, 0, 0, 0, 1))
    return wish


def _task(rng: random.Random, number: int) -> TaskWish:
    task_type, input = _work(rng)
    wish = TaskWish(**_common(rng, number), task_type=task_type, input=input)
    if rng.random() < 0.1:
        wish.key = f"key-{rng.randrange(4)}"
        wish.task_type, wish.input = "loop", {"do": "return", "s": 0.2, "echo": wish.key}
    if wish.fate == "defer" and rng.random() < 0.8:
        wish.completed = rng.choice(("SUCCESS", "SUCCESS", "FAILED")), rng.uniform(0.0, 12.0)
    forever = wish.fate == "hang" and wish.cancel_after is not None and task_type in HANDLED
    if forever:
        wish.retry = False  # nobody would cancel it a second time
    wish.settings = _settings(rng, wish.task_type, wish.input, forever=forever)
    wish.settings |= _schedule(rng, wish.at, wish.settings["timeouts"].total)
    return wish


def _schedule(rng: random.Random, at: float, total: float | None = None) -> dict[str, Any]:
    """Draws when a task or a run is due, when it expires, and its tags."""
    settings: dict[str, Any] = {"tags": rng.sample(("a", "b", "c"), rng.choice((0, 0, 1, 2)))}
    delay = round(rng.uniform(0.1, 4.0), 3)
    if rng.random() < 0.15 and (total is None or delay < total):
        settings["start_delay"] = delay
    if rng.random() < 0.1:
        settings["expire_time"] = datetime.fromtimestamp(round(BEGIN_S + at + rng.uniform(0.2, 8.0), 3), UTC)
    return settings


def _work(rng: random.Random) -> tuple[str, Input]:
    """Draws a task type and what its handler does."""
    task_type = rng.choice(("loop",) * 6 + ("thread",) * 2 + ("alone",) * 3 + ("nobody", "odd"))
    do = rng.choice(
        ("return",) * 6 + ("fail", "fail_first", "fail_first", "reject", "hang", "hang", "stubborn", "defer", "defer")
        + (("checkpoint", "checkpoint") if task_type == "loop" else ())
    )  # fmt: skip
    input: Input = {"do": do, "s": rng.choice((0, 0, 0.05, round(rng.uniform(0.1, 2.0), 2)))}
    if do == "stubborn":
        input["s"] = round(rng.uniform(1.0, 8.0), 1)
    if do == "return" and task_type == "alone" and rng.random() < 0.4:
        input["s"] = round(rng.uniform(5.0, 25.0), 1)  # as long as leases: what its watchdog is for
    if do == "fail_first":
        input["times"] = rng.randrange(1, 3)
    if do == "defer":
        input["wait"] = round(rng.uniform(1.0, 30.0), 1)
    if do == "checkpoint":
        input.update(times=rng.randrange(2, 5), s=round(rng.uniform(0.1, 1.0), 2))
    return task_type, input


def _settings(rng: random.Random, task_type: str, input: Input, *, forever: bool) -> dict[str, Any]:
    """Draws the policies of a task; `forever`: only a cancel ends it."""
    settings: dict[str, Any] = {
        "retry": Retry(
            max_attempts=rng.randrange(1, 4), first_delay=rng.choice((0.0, 0.2, 1.0, 3.0)), factor=2.0, max_delay=5.0
        ),
        "timeouts": Timeouts() if forever else _timeouts(rng, task_type, input),
        "priority": rng.randrange(1, 11),
    }
    if task_type == "alone" and rng.random() < 0.8:
        settings["exclusive"] = True
    if task_type in HANDLED and rng.random() < 0.08:
        settings["placement"] = Placement(worker_id=f"worker-{rng.randrange(1, 4)}")
        settings["timeouts"] = replace(settings["timeouts"], queued=rng.uniform(4.0, 20.0))
        return settings
    if task_type == "loop" and rng.random() < 0.25:
        settings["resources"] = Resources(rng.choice((0, 500, 1500)), rng.choice((0, 256)), rng.choice((0, 0, 1)))
    if task_type in HANDLED and "resources" not in settings and rng.random() < 0.25:
        selector = rng.choice(("zone=a", "zone in (a,b)", "!gpu"))
        settings["placement"] = Placement(selector, rng.choice(("", "zone=b")), rng.choice(("", "zone")))
    return settings


def _timeouts(rng: random.Random, task_type: str, input: Input) -> Timeouts:
    run = rng.choice((None, None, 3.0, 6.0)) if input["do"] != "hang" else rng.choice((0.001, 0.001, 0.5, 3.0))
    queued = rng.uniform(2.0, 10.0) if task_type == "nobody" or rng.random() < 0.05 else None
    total = rng.uniform(0.3, 12.0) if rng.random() < 0.2 else None
    start = rng.choice((None, None, 0.5, 2.0))
    return Timeouts(queued=queued, start=start, run=run, total=total)


def _run(rng: random.Random, number: int, workflow: str) -> RunWish:
    wish = RunWish(**_common(rng, number), workflow=workflow, inputs={"word": f"word-{number}"})
    wish.settings = _schedule(rng, wish.at)
    wish.reruns = rng.choice((0, 0, 1, 2, 2))
    if rng.random() < 0.1:
        wish.key = "run-key"
    return wish


def _workflow(rng: random.Random, name: str) -> pb.Workflow:
    """Draws a graph: each step needs some of those before it."""
    workflow = pb.Workflow(name=name)
    workflow.inputs.add(name="word", default_json='"nothing"')
    ids: list[str] = []
    for number in range(rng.randrange(4, 8)):
        needs = rng.sample(ids, min(len(ids), rng.choice((0, 1, 1, 2, 3)))) if ids else []
        workflow.steps.append(_step(rng, f"s{number}", needs))
        ids.append(f"s{number}")
    if rng.random() < 0.5:
        workflow.output_json = '{"word": "${inputs.word}"}'
    return workflow


def _step(rng: random.Random, id: str, needs: list[str]) -> pb.WorkflowStep:
    task_type = rng.choice(("loop", "loop", "loop", "thread", "alone"))
    do = rng.choice(("return",) * 7 + ("fail", "fail_first", "reject", "defer"))
    echo = rng.choice(("${inputs.word}", "${inputs.word} ${run.attempt} of ${run.tenant}"))
    rule = rng.choice(RULES)
    if needs and rng.random() < 0.2:
        # Where the step before may not have succeeded, there may be no output: the template then has no value.
        echo = "${steps." + needs[0] + ".output.echo}"
    step = pb.WorkflowStep(id=id, task_type=task_type, needs=needs)
    if needs:
        step.trigger_rule = rule
    seconds = rng.choice((0, 0, 0.1, 0.7))
    step.input_json = f'{{"do": "{do}", "s": {seconds}, "times": 1, "wait": 6, "echo": "{echo}"}}'
    step.retry.CopyFrom(Retry(max_attempts=rng.randrange(1, 3), first_delay=0.1).message())
    step.timeouts.CopyFrom(Timeouts(run=rng.choice((20.0,) * 5 + (0.05,))).message())
    if task_type == "alone":
        step.exclusive = rng.random() < 0.5
    if rng.random() < 0.2:
        step.placement.CopyFrom(Placement(spread="zone").message())
    return step
