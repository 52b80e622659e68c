"""Answers of chat completions put together from their pieces, and compared with schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_server import chunk, usage

from taskyard_worker.errors import InvalidInput, NonRetryable, Retryable
from taskyard_worker.llm import answer as module
from taskyard_worker.llm.answer import Answer
from taskyard_worker.llm.schema import Misfit, Schema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def taken(*events: Any) -> Answer:
    answer = Answer()
    for event in events:
        answer.take(event if isinstance(event, str) else json.dumps(event))
    return answer


def test_pieces_make_an_answer() -> None:
    answer = taken(chunk(role="assistant"), chunk("To "), chunk("be"), chunk(finish="stop"), usage(3, 2), "[DONE]")
    assert (answer.text, answer.finish_reason, answer.model) == ("To be", "stop", "tiny-1")
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert answer.complete


def test_what_is_missing_or_odd_does_no_harm() -> None:
    odd = [
        {}, {"choices": None}, {"choices": []}, {"choices": [5]}, {"choices": [{}]}, {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None}}], "usage": {"total_tokens": "5"}, "model": 5, "error": None},
    ]  # fmt: skip
    answer = taken(*odd, chunk("x"))
    assert (answer.text, answer.complete, answer.usage) == ("x", False, {})
    assert taken(chunk("x"), "[DONE]").complete
    assert taken(chunk("x", finish="stop")).complete


def test_halves_of_a_character_are_one() -> None:
    halves = [r'{"choices": [{"delta": {"content": "\ud83d"}}]}', r'{"choices": [{"delta": {"content": "\ude00"}}]}']
    assert taken(*halves).text == "😀"


@pytest.mark.parametrize("event", ["x", "[]", "5", "null", '{"a": ', "[" * 100_000])
def test_what_is_no_piece_of_an_answer_is_said(event: str) -> None:
    with pytest.raises(Retryable, match="no chat completion"):
        Answer().take(event)


def test_an_error_in_the_stream_breaks_it_off() -> None:
    with pytest.raises(Retryable, match=r"the endpoint broke off: .*overloaded"):
        taken(chunk("x"), {"error": {"message": "overloaded"}})


def test_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHARACTERS", 10)
    with pytest.raises(NonRetryable, match="more than 10 characters"):
        taken(chunk("x" * 6), chunk("x" * 6))


# --- schemas ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ['{"name": "Ada", "age": 36}', ' {"name": "Ada", "age": 36}\n', '```json\n{"name": "Ada", "age": 36}\n```']
)
def test_an_answer_that_follows_the_schema_is_its_value(text: str) -> None:
    assert Schema(PERSON).read(text) == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ada", "it is no JSON"),
        ('{"name": NaN}', "it is no JSON .NaN is no number"),
        ("[" * 100_000, "it is no JSON"),
        ('{"age": 36}', r"\$: 'name' is a required property"),
        ('{"name": "Ada", "age": -1}', r"\$\.age: -1 is less than the minimum of 0"),
        ('{"name": 5, "age": "x"}', r"\$\.age: 'x' is not of type 'integer'; \$\.name: 5 is not of type 'string'"),
    ],
)
def test_an_answer_that_does_not_says_where(text: str, said: str) -> None:
    with pytest.raises(Misfit, match=said):
        Schema(PERSON).read(text)


def test_a_long_fault_is_cut() -> None:
    with pytest.raises(Misfit) as caught:
        Schema({"type": "object", "properties": {"a": {"type": "integer"}}}).read(json.dumps({"a": "x" * 10_000}))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("x", "which is an object"),
        ({"type": "text"}, r"'response_schema' is no JSON schema: \$\.type: 'text' is not"),
        ({"minimum": "x"}, "'response_schema' is no JSON schema"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Schema(schema)


def test_a_schema_fetches_nothing() -> None:
    with pytest.raises(InvalidInput, match="refers to what is not in it"):
        Schema({"$ref": "http://127.0.0.1:1/schema.json"}).read("{}")


def test_an_endpoint_is_asked_to_follow_it() -> None:
    asked = Schema(PERSON).request()
    assert (asked["type"], asked["json_schema"]["schema"]) == ("json_schema", PERSON)
