"""The report of the demo as Markdown: each question with its answer and the passages that it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from taskyard_cli.demo.reference import PYTHON, reference

ASKED_FOR = "yes"
"""Says of a source that it is one of the sections that answer the question."""


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that was found."""

    topic: str
    title: str
    score: float
    asked_for: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with what came of it. `by`: the model that answered; empty: the text is a summary."""

    question: str
    text: str
    by: str
    sources: Sequence[Source]

    @property
    def found(self) -> bool:
        """Whether a passage was found that has the answer."""
        return any(each.asked_for for each in self.sources)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Reads an answer as the workflow hands it to the step that writes the report."""
        sources = [_source(hit, frozenset(value["about"])) for hit in value["found"]["hits"]]
        return cls(value["question"], value["answer"], value["by"], sources)


def _source(hit: Mapping[str, Any], about: frozenset[str]) -> Source:
    title = hit["text"].partition("\n")[0].removesuffix(":")
    return Source(hit["id"].rpartition("/")[0], title, hit["score"], title in about)


@dataclass(frozen=True, slots=True)
class Index:
    """What was searched: how many passages, and the model of all vectors."""

    passages: int
    model: str


def report_text(index: Index, answers: Sequence[Answer]) -> str:
    """Returns the report."""
    parts = [
        "# Questions on the Python language, answered from its reference",
        _what_was_read(index),
        _how_answered(answers),
        _how_found(answers),
        "## Answers",
        *(_section(each) for each in answers),
    ]
    return "\n\n".join(parts) + "\n"


def _what_was_read(index: Index) -> str:
    return (
        f"The reference is `pydoc_data.topics` of Python {PYTHON}: {len(reference())} topics, cut into "
        f"{index.passages:,} passages. `{index.model}` made the vectors of the passages and of the questions."
    )


def _how_answered(answers: Sequence[Answer]) -> str:
    models = sorted({each.by for each in answers if each.by})
    if models:
        named = ", ".join(f"`{each}`" for each in models)
        return f"The answers were written by {named} (`llm_call`), which was given the passages found."
    return (
        "The answers are summaries: sentences of the best passages found, as they stand there. With an endpoint "
        "(`TASKYARD_LLM_BASE_URL`) a model writes them."
    )


def _how_found(answers: Sequence[Answer]) -> str:
    most = max((len(each.sources) for each in answers), default=0)
    return (
        f'Which sections answer a question was written down beforehand; "{ASKED_FOR}" marks them. For '
        f"{sum(each.found for each in answers)} of {len(answers)} questions one is among the first {most}."
    )


def _section(answer: Answer) -> str:
    rows = [
        f"| `{each.topic}` | {escaped(each.title)} | {each.score:.3f} | {ASKED_FOR if each.asked_for else ''} |"
        for each in answer.sources
    ]
    table = ["| topic | section | score | has the answer |", "|---|---|---|---|", *rows]
    return "\n\n".join([f"### {answer.question}", escaped(answer.text), "\n".join(table)])


def escaped(text: str) -> str:
    """Returns plain text as Markdown that shows it as it is."""
    marked = "".join(f"\\{character}" if character in "\\`*_[]<>#|" else character for character in text)
    return " ".join(marked.split())
