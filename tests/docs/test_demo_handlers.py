"""The demo's task types, called as functions: nothing is lost between the language reference and its report."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from task_port import Kept

from taskyard_cli.demo.handlers import PASSAGE_CHARACTERS, WantedFailure, join, passages, report, split
from taskyard_cli.demo.reference import is_title, sections
from taskyard_worker import Context, InvalidInput, NonRetryable
from taskyard_worker.artifacts import Artifacts

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
        self.kept = Kept()
        self.artifacts = Artifacts(self.kept)

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
    found = passages(ctx, ["with", "yield"])
    assert cast("Attempt", ctx).told == [(50.0, "with"), (100.0, "yield")]
    assert [each["id"] for each in found if each["id"].endswith("/1")] == ["with/1", "yield/1"]
    assert {each["text"].partition("\n")[0] for each in found} == {'The "with" statement:', 'The "yield" statement:'}


def test_every_word_of_the_reference_below_a_title_is_in_a_passage() -> None:
    found = passages(context(), sorted(TOPICS))
    assert len({each["id"] for each in found}) == len(found)
    assert max(len(each["text"].partition("\n")[2]) for each in found) <= PASSAGE_CHARACTERS
    for name, text in TOPICS.items():
        kept = " ".join(each["text"] for each in found if each["id"].rpartition("/")[0] == name)
        lines = text.splitlines()
        told = [line for line, below in zip(lines, [*lines[1:], ""], strict=True) if not is_title(line, below)]
        assert set(re.findall(r"\w+", "\n".join(told))) - set(re.findall(r"\w+", kept)) == set(), name


def test_sections_have_their_titles() -> None:
    text = "before\n\nA title\n=======\n\none\n\n  Not one\n  =======\n\nAnother\n*******\ntwo\n\nEmpty\n-----\n"
    assert list(sections("topic", text)) == [
        ("topic", "before"), ("A title", "one\n\n  Not one\n  ======="), ("Another", "two")
    ]  # fmt: skip
    assert list(sections("topic", "")) == []
    assert list(sections("topic", "Title\n-----\nx")) == [("Title", "x")]


def test_the_wanted_failure_is_of_the_first_attempt_only() -> None:
    with pytest.raises(WantedFailure):
        passages(context(1), ["await"], fail_first=True)
    assert passages(context(2), ["await"], fail_first=True)
    assert passages(context(1), ["await"])


def test_an_unknown_topic_is_named() -> None:
    with pytest.raises(InvalidInput, match="'walrus'"):
        passages(context(), ["walrus"])


def index(*texts: str, model: str = "m") -> bytes:
    lines = [{"id": f"{text}/1", "text": text, "vector": [1.0]} for text in texts]
    return b"".join(json.dumps(each).encode() + b"\n" for each in [{"model": model, "dimensions": 1}, *lines])


def test_one_index_is_made_of_several_and_a_text_is_in_it_once() -> None:
    ctx = context()
    kept = cast("Attempt", ctx).kept
    output = join(ctx, [kept.put(index("a", "b")), kept.put(index("b", "c"))])
    assert output == {"index": output["index"], "passages": 3, "model": "m", "dimensions": 1}
    assert kept.bytes[output["index"]] == index("a", "b", "c")


def test_vectors_of_two_models_are_not_joined() -> None:
    ctx = context()
    kept = cast("Attempt", ctx).kept
    with pytest.raises(NonRetryable, match=r'"n".*"m".*not mixed'):
        join(ctx, [kept.put(index("a")), kept.put(index("b", model="n"))])


def answers(model: str = "m") -> list[dict[str, Any]]:
    hits = [{"id": "a/b/7", "text": "Title | x:\nText", "score": 0.5}, {"id": "c/1", "text": "T:\ny", "score": 0.25}]
    told = {"about": ["T"], "found": {"hits": hits, "model": model}, "by": ""}
    return [
        {**told, "question": "What?", "answer": "It is *so*."},
        {**told, "question": "Why?", "answer": "_", "about": []},
    ]


def test_the_report_has_each_question_with_its_sources(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    output = report(context(), str(file), {"passages": 3, "model": "m"}, answers())
    assert output == {"questions": 2, "found": 1, "model": "m"}
    text = file.read_text()
    assert "### What?\n\nIt is \\*so\\*.\n\n| topic |" in text
    assert "\n| `a/b` | Title \\| x | 0.500 |  |\n| `c` | T | 0.250 | yes |\n" in text
    assert "1 of 2 questions" in text
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_who_answered_is_named(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    report(context(), str(file), {"passages": 3, "model": "m"}, [{**each, "by": "tiny-1"} for each in answers()])
    assert "written by `tiny-1` (`llm_call`)" in file.read_text()


def test_a_question_that_another_model_embedded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NonRetryable, match="index is of m, and questions were embedded by n"):
        report(context(), str(tmp_path / "report.md"), {"passages": 3, "model": "m"}, answers("n"))
    assert list(tmp_path.iterdir()) == []
