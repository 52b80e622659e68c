"""What holds for every text: an answer, the same one each time, within promised bounds, in linear time."""

from __future__ import annotations

import json
import pickle
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_worker.text import TextInputError, clean, keywords, process, split, statistics, summarize
from taskyard_worker.text.decimals import thousandths
from taskyard_worker.text.tables import tables

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
OPERATIONS = st.sampled_from(["summarize", "split", "clean", "keywords", "statistics"])
LARGEST = 4 * 1024 * 1024
"""Bytes: what a task's input may have at most."""
LARGE = 512 * 1024
"""Bytes: enough that quadratic time would take hours, where linear time takes a second."""
PATIENCE = 90.0
"""Seconds, many times what the slowest machine needs."""

HARD = {
    "prose": "The scheduler assigns a task to the worker. ",
    "one word": "a",
    "full stops": ".",
    "spaces": " ",
    "line ends": "\n",
    "list numbers": "1. ",
    "initials": "J. ",
    "dotted letters": "e.g.",
    "number joiners": "1,",
    "closers": '.")',
    "rules": "*",
    "escapes": "\x1b[0",
    "marks": "\u0301",
    "ideographs": "\u5929\u6c14\u5f88\u597d",
    "emoji": "\U0001f469\u200d",
    "surrogates": "\ud800",
}


@given(ANY_TEXT, OPERATIONS)
@settings(max_examples=300, deadline=None)
def test_every_text_has_one_answer_that_json_can_hold(text: str, operation: str) -> None:
    first = json.dumps(process(text, operation), ensure_ascii=False)

    assert json.dumps(process(text, operation), ensure_ascii=False) == first
    assert first.encode("utf-8").decode("utf-8") == first


@given(ANY_TEXT)
@settings(max_examples=300, deadline=None)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert not set(tables().classes(once)) & set("KIZR")
    assert "  " not in once
    assert "\n\n\n" not in once
    assert once == once.strip(" \n")


@given(ANY_TEXT, st.integers(16, 80), st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_chunks_are_bounded_slices_that_cover_the_text(text: str, limit: int, overlap: int) -> None:
    whole = "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
    chunks: list[dict[str, Any]] = list(split(whole, max_chars=limit, overlap=min(overlap, limit // 2)))
    covered = {at for chunk in chunks for at in range(chunk["start"], chunk["end"])}

    assert all(chunk["text"] == whole[chunk["start"] : chunk["end"]] for chunk in chunks)
    assert all(0 < len(chunk["text"]) <= limit for chunk in chunks)
    assert all(left["end"] < right["end"] for left, right in pairwise(chunks))
    assert all(tables().classes(whole[at]) in "SRN" for at in range(len(whole)) if at not in covered)


@given(ANY_TEXT, st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_keywords_are_ranked_and_bounded(text: str, top_k: int) -> None:
    found: list[dict[str, Any]] = list(keywords(text, top_k=top_k))
    counts = [entry["count"] for entry in found]

    assert len(found) <= top_k
    assert counts == sorted(counts, reverse=True)
    assert len({entry["keyword"] for entry in found}) == len(found)
    assert all(entry["keyword"] not in tables().stop_words for entry in found)


@given(ANY_TEXT, st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_a_summary_is_one_bounded_line(text: str, max_sentences: int) -> None:
    summary = summarize(text, max_sentences=max_sentences)
    assert "\n" not in summary
    assert len(summary) <= max_sentences * 602


@given(st.lists(st.sampled_from(["Cats sleep.", "Dogs bark at cats.", "\u732b\u7761\u4e86\u3002"]), max_size=6))
def test_a_summary_of_all_sentences_is_the_text(sentences: list[str]) -> None:
    distinct = list(dict.fromkeys(sentences))
    assert summarize("\n".join(sentences), max_sentences=10) == " ".join(distinct)


@given(ANY_TEXT)
def test_statistics_agree_with_plain_counting(text: str) -> None:
    counts = statistics(text)
    classes = tables().classes(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    assert counts["letters"] == classes.count("L")
    assert counts["words"] == 0 or counts["unique_words"] != 0
    assert (counts["words"] == 0) == (counts["sentences"] == 0) == (counts["paragraphs"] == 0)


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_a_decimal_is_the_nearest_and_a_tie_is_even(numerator: int, denominator: int) -> None:
    text = thousandths(numerator, denominator)
    units = int(text.replace(".", ""))
    error = abs(units * denominator - numerator * 1000) * 2

    assert text[-4] == "."
    assert error < denominator or (error == denominator and units % 2 == 0)


def test_a_surrogate_pair_of_two_code_points_is_one_character() -> None:
    halves = "\ud83d" + "\ude00"
    assert clean(halves) == "\U0001f600"
    assert clean("\ude00\ud83d" + halves + "\ud83d") == "\ufffd\ufffd\U0001f600\ufffd"


def test_a_refusal_says_field_value_rule_and_way_out() -> None:
    with pytest.raises(TextInputError) as refusal:
        process("One.", "split", max_chars=3)
    assert str(refusal.value) == (
        "text_process: max_chars is 3: must be a whole number from 16 to 1000000. "
        "Give one in that range, or leave it out."
    )
    copy = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - our own bytes, as a process pool sends them
    assert (type(copy), str(copy)) == (TextInputError, str(refusal.value))


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, [0] * 10_000, {1, 2}, float("nan"), pytest.param(10**5000, id="huge"), b"x", "\ud800\x1b"],
)
def test_a_refusal_is_short_and_printable(value: object) -> None:
    with pytest.raises(TextInputError) as refusal:
        process("One.", "split", max_chars=value)
    assert len(str(refusal.value)) < 400
    assert str(refusal.value).isascii()
    assert str(refusal.value).isprintable()


def all_operations(text: str) -> float:
    """Returns how many seconds all operations take together."""
    start = time.monotonic()
    for operation in ("clean", "keywords", "statistics", "summarize"):
        process(text, operation)
    split(text, max_chars=1000, overlap=500)
    return time.monotonic() - start


@pytest.mark.parametrize("unit", HARD.values(), ids=HARD.keys())
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    assert all_operations(unit * (LARGE // len(unit.encode("utf-8", "surrogatepass")))) < PATIENCE


def test_the_largest_input_is_taken() -> None:
    sentences = (f"Worker {number} took task {number % 97} \u5929\u6c14. " for number in range(125_000))
    text = "".join(sentences).encode("utf-8")[:LARGEST].decode("utf-8", "ignore")
    assert len(text.encode("utf-8")) > 0.9 * LARGEST
    assert all_operations(text) < PATIENCE
