"""The demo's workflow, made for both kinds of answers, and how good its searches are."""

from __future__ import annotations

import json
from operator import mul
from typing import Any, cast

import pytest

from docs.test_demo_handlers import context
from taskyard.v1.workflows_pb2 import WorkflowStep
from taskyard_cli.demo.command import HASHING, embeds, speaks
from taskyard_cli.demo.handlers import once, passages
from taskyard_cli.demo.questions import QUESTIONS, SOURCES
from taskyard_cli.demo.reference import reference
from taskyard_cli.demo.workflow import SHARDS, workflow
from taskyard_scheduler.ingress.workflows import read_workflow
from taskyard_worker.embeddings.hashing import embed

FOUND = 8
"""Of 10 questions. One shares hardly a word with its answer, so a model of words misses it; one more is left for the
reference of another version of Python."""


def steps(*, llm: bool = False) -> dict[str, WorkflowStep]:
    return {each.id: each for each in workflow(llm=llm).steps}


def given(step: WorkflowStep) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(step.input_json))


@pytest.mark.parametrize("llm", [True, False])
def test_it_is_one_that_the_scheduler_takes(llm: bool) -> None:
    made = workflow(llm=llm)
    assert len(read_workflow("t", made, {}).steps) == len(made.steps) == 3 + 2 * SHARDS + 2 * len(QUESTIONS)


def test_every_shard_is_cut_embedded_and_joined() -> None:
    made = steps()
    assert given(made["split"]) == {"shards": SHARDS}
    for number in range(1, SHARDS + 1):
        assert given(made[f"shard_{number}"])["topics"] == f"${{steps.split.output.shards[{number - 1}]}}"
        assert given(made[f"embed_{number}"])["documents"] == f"${{steps.shard_{number}.output}}"
        assert f"${{steps.embed_{number}.output.index}}" in given(made["join"])["indexes"]
    assert [each.id for each in made.values() if given(each).get("fail_first")] == ["shard_1"]


@pytest.mark.parametrize("llm", [True, False])
def test_every_vector_is_of_the_model_that_the_run_names(llm: bool) -> None:
    embedding = [each for each in steps(llm=llm).values() if each.task_type in ("index", "search", "embedding")]
    assert len(embedding) == SHARDS + len(QUESTIONS)
    assert {given(each)["model"] for each in embedding} == {"${inputs.model}"}


def test_answers_come_from_an_endpoint_where_there_is_one() -> None:
    assert {each.task_type for name, each in steps().items() if name.startswith("answer")} == {"text_process"}
    asking = [each for name, each in steps(llm=True).items() if name.startswith("answer")]
    assert {each.task_type for each in asking} == {"llm_call"}
    for number, (step, question) in enumerate(zip(asking, QUESTIONS, strict=True), start=1):
        assert question.text in given(step)["prompt"]
        assert given(step)["prompt"].count(f"${{steps.search_{number}.output.hits[") == SOURCES


def test_the_environment_says_which() -> None:
    assert (speaks({}), embeds({})) == (False, HASHING)
    environ = {"TASKYARD_LLM_BASE_URL": "http://h/v1", "TASKYARD_EMBEDDING_MODEL": " small "}
    assert (speaks(environ), embeds(environ)) == (True, "small")


def test_most_questions_find_a_section_that_has_the_answer() -> None:
    lines = [json.dumps(each).encode() for each in passages(context(), sorted(reference()))]
    texts = [json.loads(line)["text"] for line in once(lines, set())]
    vectors = [embed(text) for text in texts]
    found = [bool(question.about & best(question.text, texts, vectors)) for question in QUESTIONS]
    assert len(QUESTIONS) == 10
    assert sum(found) >= FOUND, [each.text for each, good in zip(QUESTIONS, found, strict=True) if not good]


def best(question: str, texts: list[str], vectors: list[list[float]]) -> set[str]:
    """Returns the titles of the nearest passages."""
    asked = embed(question)
    near = sorted(zip(vectors, texts, strict=True), key=lambda each: -sum(map(mul, asked, each[0])))
    return {text.partition(":\n")[0] for _, text in near[:SOURCES]}
