"""The demo's task types, called as functions: nothing is lost between the language reference and its index."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from taskyard_cli.demo.handlers import WantedFailure, join, shard, split
from taskyard_cli.workflow_file import read_workflow
from taskyard_worker import Context, InvalidInput

TOPICS: dict[str, str] = import_module("pydoc_data.topics").topics


class Log:
    def info(self, *_: object) -> None: ...
    def warning(self, *_: object) -> None: ...


class Attempt:
    """What the handlers use of a context."""

    def __init__(self, attempt: int = 1) -> None:
        self.attempt = attempt
        self.log = Log()
        self.told: list[tuple[float, str]] = []

    def raise_if_cancelled(self) -> None: ...

    def progress_sync(self, percent: float, message: str) -> None:
        self.told.append((percent, message))


def context(attempt: int = 1) -> Context:
    return cast("Context", Attempt(attempt))


@pytest.mark.parametrize("shards", [1, 7, 12])
def test_every_topic_is_dealt_once_and_evenly(shards: int) -> None:
    dealt = split(context(), shards)["shards"]
    assert sorted(name for names in dealt for name in names) == sorted(TOPICS)
    lengths = [sum(len(TOPICS[name]) for name in names) for names in dealt]
    assert max(lengths) - min(lengths) <= max(len(text) for text in TOPICS.values())


def test_a_shard_says_how_far_it_is() -> None:
    ctx = context()
    entries = shard(ctx, ["with", "yield"])
    assert cast("Attempt", ctx).told == [(50.0, "with"), (100.0, "yield")]
    assert [(each["name"], each["title"]) for each in entries] == [
        ("with", 'The "with" statement'), ("yield", 'The "yield" statement')
    ]  # fmt: skip
    assert all(len(each["keywords"]) == 6 and each["words"] > 50 and each["summary"] for each in entries)


def test_the_wanted_failure_is_of_the_first_attempt_only() -> None:
    with pytest.raises(WantedFailure):
        shard(context(1), ["await"], fail_first=True)
    assert shard(context(2), ["await"], fail_first=True)
    assert shard(context(1), ["await"])


def test_an_unknown_topic_is_named() -> None:
    with pytest.raises(InvalidInput, match="'walrus'"):
        shard(context(), ["walrus"])


def test_the_index_is_by_name_whatever_the_shards(tmp_path: Path) -> None:
    one, two = shard(context(), ["yield", "assert"]), shard(context(), ["if"])
    found: list[dict[str, Any]] = []
    for number, shards in enumerate(([one, two], [two, one])):
        file = tmp_path / f"{number}.md"
        found.append(join(context(), str(file), shards))
    assert found[0] == found[1]
    assert found[0]["topics"] == 3
    text = (tmp_path / "0.md").read_text()
    assert text == (tmp_path / "1.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("### ")] == ["### assert", "### if", "### yield"]
    assert "\\_\\_debug\\_\\_" in text


def test_the_workflow_has_a_step_for_every_shard() -> None:
    workflow, _ = read_workflow(
        str(Path(str(import_module("taskyard_cli.demo").__file__)).with_name("language-reference.yaml"))
    )
    shards = [each for each in workflow.steps if each.task_type == "reference_shard"]
    assert workflow.steps[0].input_json == f'{{"shards":{len(shards)}}}'
    for at, each in enumerate(shards):
        assert f"${{steps.split.output.shards[{at}]}}" in each.input_json
        assert f"${{steps.{each.id}.output}}" in workflow.steps[-1].input_json
    assert list(workflow.steps[-1].needs) == [each.id for each in shards]
