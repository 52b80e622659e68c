"""The workflow of `taskyard demo`, made by a function, since its steps are many of few kinds.

`taskyard workflow show language-reference -o yaml` writes it as a file. Its own task types are in handlers.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from taskyard.v1.workflows_pb2 import Workflow, WorkflowInput, WorkflowStep
from taskyard_cli.demo.questions import QUESTIONS, SOURCES

NAME = "language-reference"
SHARDS = 8
READ_FOR_ANSWER = 3
"""How many of the passages found the summary is made of; a model of a language gets all of them."""

SYSTEM = (
    "You answer questions from passages of Python's language reference and from nothing else, in at most three "
    "sentences. Name the passages that you used by their numbers, as [1]. If none has the answer, say so."
)


def workflow(*, llm: bool) -> Workflow:
    """Returns the workflow.

    Args:
        llm: Answers come from `llm_call`, which needs an endpoint; else they are summaries of what was found.
    """
    shards = range(1, SHARDS + 1)
    questions = range(1, len(QUESTIONS) + 1)
    steps = [_step("split", "reference_split", "Deals the topics out to shards of equal length.", shards=SHARDS)]
    steps += [_passages(n) for n in shards]
    steps += [_embed(n) for n in shards]
    steps.append(_join())
    steps += [_search(n) for n in questions]
    steps += [_ask(n) if llm else _summarize(n) for n in questions]
    steps.append(_report(llm=llm))
    return Workflow(
        name=NAME,
        description="Makes an index of Python's language reference, and answers questions from what it finds there.",
        inputs=[
            WorkflowInput(name="report", description="File that the report is written to. All workers must reach it."),
            WorkflowInput(name="model", description="Makes every vector of the run: of passages and of questions."),
        ],
        steps=steps,
        output_json='"${steps.report.output}"',
    )


def _step(step_id: str, task_type: str, description: str, /, *needs: str, **given: Any) -> WorkflowStep:
    return WorkflowStep(
        id=step_id, task_type=task_type, description=description, needs=needs, input_json=json.dumps(given)
    )


def _passages(shard: int) -> WorkflowStep:
    # The first one fails at its first attempt, since the demo wants to show that; the retry policy is the default:
    # 3 attempts, the second after 1 s.
    fails = {"fail_first": True} if shard == 1 else {}
    topics = f"${{steps.split.output.shards[{shard - 1}]}}"
    about = "Cuts the topics of a shard into passages, each with the title of its section."
    return _step(f"shard_{shard}", "reference_passages", about, "split", topics=topics, **fails)


def _embed(shard: int) -> WorkflowStep:
    about = "Makes a vector of each passage: an index of the shard."
    documents = f"${{steps.shard_{shard}.output}}"
    return _step(f"embed_{shard}", "index", about, f"shard_{shard}", documents=documents, model="${inputs.model}")


def _join() -> WorkflowStep:
    needs = [f"embed_{n}" for n in range(1, SHARDS + 1)]
    indexes = [f"${{steps.{each}.output.index}}" for each in needs]
    return _step("join", "reference_join", "Makes one index of all shards.", *needs, indexes=indexes)


def _search(question: int) -> WorkflowStep:
    asked = QUESTIONS[question - 1].text
    about = "Looks for passages. It is refused if the index is of another model."
    return _step(
        f"search_{question}", "search", about, "join",
        index="${steps.join.output.index}", model="${inputs.model}", query=asked, top_k=SOURCES,
    )  # fmt: skip


def _summarize(question: int) -> WorkflowStep:
    text = "\n\n".join(_found(question, READ_FOR_ANSWER))
    about = "Takes the sentences that say most out of the best passages."
    return _step(
        f"answer_{question}", "text_process", about, f"search_{question}",
        operation="summarize", text=text, max_sentences=3,
    )  # fmt: skip


def _ask(question: int) -> WorkflowStep:
    passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(_found(question, SOURCES), start=1))
    prompt = f"{passages}\n\nQuestion: {QUESTIONS[question - 1].text}"
    about = "Has a model answer from the passages."
    return _step(f"answer_{question}", "llm_call", about, f"search_{question}", system=SYSTEM, prompt=prompt)


def _found(question: int, most: int) -> Iterator[str]:
    return (f"${{steps.search_{question}.output.hits[{n}].text}}" for n in range(most))


def _report(*, llm: bool) -> WorkflowStep:
    numbers = range(1, len(QUESTIONS) + 1)
    answer, by = ("response", "${{steps.answer_{}.output.model}}") if llm else ("result", "")
    answers = [
        {
            "question": QUESTIONS[n - 1].text,
            "about": sorted(QUESTIONS[n - 1].about),
            "found": f"${{steps.search_{n}.output}}",
            "answer": f"${{steps.answer_{n}.output.{answer}}}",
            "by": by.format(n),
        }
        for n in numbers
    ]
    # What it uses of a search it needs too: a step's templates reach no further than its needs.
    needs = [f"{kind}_{n}" for n in numbers for kind in ("search", "answer")]
    return _step(
        "report", "reference_report", "Writes the questions with answers and sources.", "join", *needs,
        report="${inputs.report}", index="${steps.join.output}", answers=answers,
    )  # fmt: skip
