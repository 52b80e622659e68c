"""The kit on the Python worker, the mutants that it must find, what its command answers and its loader refuses."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.kit import report
from conformance.kit.__main__ import parser
from conformance.kit.matching import difference
from conformance.kit.playing import Outcome, play, play_all
from conformance.kit.scenario import Scenario, ScenarioError, read, read_all
from conformance.kit.verb import VERBS
from conformance.mutants import MUTANTS

WORKERS = Path(__file__).with_name("workers") / "python"
WORKER = [sys.executable, str(WORKERS / "worker.py")]
SCENARIOS = {scenario.name: scenario for scenario in read_all()}
SIDE_BY_SIDE = 4
HASTE_S = 6.0
"""How long a mutant is waited for: what it does not do, it never does."""


@pytest.fixture(scope="module")
def played() -> dict[str, Outcome]:
    """Every scenario, played with the Python worker."""
    outcomes = asyncio.run(play_all(list(SCENARIOS.values()), WORKER, SIDE_BY_SIDE, lambda outcome: None))
    return {outcome.scenario.name: outcome for outcome in outcomes}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_python_worker_conforms(played: dict[str, Outcome], name: str) -> None:
    assert played[name].passed, report.row(played[name]) + "\n" + report.details(played[name])
    assert played[name].history


@pytest.fixture(scope="module")
def mutated() -> dict[str, Outcome]:
    """Every mutant, played on the scenario that must find it."""

    async def all_of_them() -> dict[str, Outcome]:
        places = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(name: str) -> tuple[str, Outcome]:
            async with places:
                command = [sys.executable, str(WORKERS / "mutant.py"), name]
                outcome = await play(SCENARIOS[MUTANTS[name].scenario], command, HASTE_S)
            return name, outcome

        return dict(await asyncio.gather(*map(one, MUTANTS)))

    return asyncio.run(all_of_them())


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_its_scenario_and_the_sentence_says_how(mutated: dict[str, Outcome], name: str) -> None:
    outcome = mutated[name]
    assert MUTANTS[name].sentence in outcome.unmet, outcome.unmet + "\n" + report.details(outcome)


def test_there_are_twenty_mutants_and_each_has_its_scenario() -> None:
    assert len(MUTANTS) >= 20
    assert {mutant.scenario for mutant in MUTANTS.values()} <= SCENARIOS.keys()


# --- the command -----------------------------------------------------------------------------------


def kit(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "conformance.kit", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=100)


def test_the_command_prints_a_table_and_compares_histories(tmp_path: Path) -> None:
    done = kit("--only", "success", "--json", "--", *WORKER)
    assert done.returncode == 0, done.stderr
    [told] = json.loads(done.stdout)
    assert told["passed"] is True
    other = tmp_path / "other.json"
    told["history"][0] = "registered with 9 slots"
    other.write_text(json.dumps([told]))
    done = kit("--only", "success", "--compare", str(other), "--", *WORKER)
    assert done.returncode == 1
    assert "success                            core  passed" in done.stdout
    assert "1 of 1 scenarios passed" in done.stdout
    assert "success: the histories differ" in done.stderr
    assert "other worker: registered with 9 slots" in done.stderr


def test_a_failed_scenario_says_what_is_lost_and_what_the_worker_wrote() -> None:
    done = kit("--only", "registration-refused", "--", sys.executable, "-c", "print('I cannot'); raise SystemExit(3)")
    assert done.returncode == 1
    assert "the worker ended with exit code 3, but must with 72 [line 7: exited]" in done.stdout
    assert "lost with it: A worker that nobody wants" in done.stdout
    assert "I cannot" in done.stdout
    assert "0 of 1 scenarios passed; failed: registration-refused" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "success"], "no worker is given; write its command line as WORKER"),
        (["--only", "sucess", "--", "x"], "there is no scenario 'sucess'; did you mean `success`?"),
        (["--", "no-such-program"], "there is no program 'no-such-program'; is its path right"),
        (["--compare", "no-such-file", "--", "true"], "--compare no-such-file: it is not what --json printed"),
    ],
)
def test_wrong_arguments_are_refused_with_the_way_out(arguments: list[str], sentence: str) -> None:
    done = kit(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_names_each_scenario_with_what_is_lost() -> None:
    lines = kit("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    core = kit("--list", "--core").stdout.splitlines()
    assert [line.split()[0] for line in core] == [name for name, scenario in SCENARIOS.items() if scenario.core]


# --- the loader ------------------------------------------------------------------------------------

HEAD = "about: Something is lost.\ncore: true\nscheduler: scripted\n"


def load(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "01-some.yaml"
    path.write_text(text)
    return read(path)


def test_a_bare_value_is_the_first_field_of_a_verb(tmp_path: Path) -> None:
    scenario = load(tmp_path, HEAD + "steps:\n  - start:\n  - started: a\n  - exited: {code: 3}\n")
    assert scenario.name == "some"
    assert [(step.line, step.verb.name, step.fields) for step in scenario.steps] == [
        (5, "start", {}),
        (6, "started", {"task": "a"}),
        (7, "exited", {"code": 3}),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("about: [", "01-some.yaml: it is no YAML"),
        ("- a", "01-some.yaml:1: a scenario is a mapping with about, core, scheduler, steps"),
        (HEAD, "01-some.yaml:1: the field `steps` is missing"),
        (HEAD + "stpes: []\n", "01-some.yaml:4: a scenario has no field `stpes`; did you mean `steps`?"),
        (HEAD + "core: true\nsteps: [start: ]\n", "01-some.yaml:2: `core` is given twice"),
        (HEAD.replace("true", "maybe") + "steps: [start: ]\n", "01-some.yaml:2: `core` is 'maybe', but must be a bool"),
        (HEAD.replace("scripted", "fake") + "steps: [start: ]\n", "`scheduler` is 'fake'; write one of real, scripted"),
        (HEAD + "steps: []\n", "01-some.yaml:4: `steps` must be a list with at least one step"),
        (HEAD + "steps:\n  - startd: a\n", "01-some.yaml:5: there is no verb `startd`; did you mean `started`?"),
        (HEAD + "steps:\n  - start\n", "01-some.yaml:5: a step is one verb and its fields"),
        (HEAD + "steps:\n  - {start: , kill: }\n", "01-some.yaml:5: a step is one verb and its fields"),
        (HEAD + "steps:\n  - kill: now\n", "01-some.yaml:5: `kill` has no fields; leave 'now' out"),
        (HEAD + "steps:\n  - started: {taks: a}\n", "`started` has no field `taks`; did you mean `task`?"),
        (HEAD + "steps:\n  - started:\n", "01-some.yaml:5: `started` needs the field `task`"),
        (HEAD + "steps:\n  - started: 7\n", "01-some.yaml:5: `started.task` is 7, but must be text"),
        (HEAD + "steps:\n  - exited: true\n", "01-some.yaml:5: `exited.code` is True, but must be a whole number"),
        (
            HEAD + "steps:\n  - started: !!python/name:os.system\n",
            "01-some.yaml:5: the value is none that YAML knows: could",
        ),
        (HEAD + "steps:\n  - started: 2026-13-45\n", "01-some.yaml:5: the value is none that YAML knows: month"),
        (HEAD + "steps:\n  - assign: {task: a, type: t, input: &x {k: *x}}\n", "01-some.yaml:5: the value is none"),
        (HEAD + "steps:\n  - healthy:\n", "the verb `healthy` is for scenarios with `scheduler: real`, not scripted"),
    ],
)
def test_what_nobody_knows_is_refused_with_its_place_and_the_way_out(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, text)
    assert sentence in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "01-some.yaml"
    path.write_bytes(HEAD.encode() + b"# \xfc\n")
    with pytest.raises(ScenarioError, match=r"01-some\.yaml: it cannot be read as a text in UTF-8"):
        read(path)
    with pytest.raises(ScenarioError, match=r"02-other\.yaml: it cannot be read"):
        read(tmp_path / "02-other.yaml")


def test_every_scenario_says_what_is_lost_and_every_verb_is_used() -> None:
    assert all(scenario.about.endswith(".") for scenario in SCENARIOS.values())
    used = {step.verb.name for scenario in SCENARIOS.values() for step in scenario.steps}
    assert VERBS.keys() - used == set()
    assert all(verb.about for verb in VERBS.values())


PAGE = Path(__file__).parents[2] / "docs/write-a-worker.md"


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the table under a heading of the page, without its first two lines."""
    section = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"][2:]


def test_the_page_has_a_rule_for_every_scenario_and_says_which_are_core() -> None:
    told = {
        name: core == "core"
        for _, names, core in rows("The rules, and the scenario that checks each")
        for name in re.findall(r"`([\w-]+)`", names)
    }
    assert told == {name: scenario.core for name, scenario in SCENARIOS.items()}


def test_the_page_has_every_type_that_scenarios_use_and_core_ones_use_core_types() -> None:
    types = {cells[0].strip("`"): cells[1] == "yes" for cells in rows("The types of the kit")}
    handlers = (WORKERS / "handlers.py").read_text()
    assert set(types) == set(re.findall(r'@task\("([\w.]+)"', handlers))
    for scenario in SCENARIOS.values():
        used = {str(step.fields["type"]) for step in scenario.steps if "type" in step.fields} & types.keys()
        assert not scenario.core or all(types[each] for each in used), scenario.name
    assert types.keys() == {
        step.fields["type"] for s in SCENARIOS.values() for step in s.steps if step.fields.get("type") in types
    }


def test_the_page_has_every_option_of_the_command() -> None:
    options = {cell for cells in rows("Run the kit") for cell in re.findall(r"`(-[\w-]+)", cells[0])}
    assert options == {option for action in parser()._actions for option in action.option_strings} - {"-h", "--help"}


@pytest.mark.parametrize(
    ("wanted", "found", "told"),
    [
        ({"a": [1, True]}, {"a": [1, True]}, ""),
        ({"a": "$any"}, {"a": 7}, ""),
        ({"a": 1}, {"a": 1, "b": 2}, "has the keys ['a', 'b'], but must have ['a']"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "at `a.b` is 2, but must be 1"),
        (True, 1, "is 1, but must be true"),
        ("x" * 500, "y", "… (502 characters)"),
    ],
)
def test_a_difference_is_told_with_its_place(wanted: object, found: object, told: str) -> None:
    assert told in difference(wanted, found)
    assert bool(told) == bool(difference(wanted, found))
