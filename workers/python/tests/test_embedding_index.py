"""Index files and the nearest in them, against looking at all of them the slow way."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_worker.embeddings import index_file
from taskyard_worker.embeddings.index_file import (
    Document,
    Header,
    Lines,
    NotAnIndex,
    entry_line,
    header_line,
    read_document,
    read_header,
)
from taskyard_worker.embeddings.ranking import Ranking

NUMBERS = st.integers(-3, 3).map(float)
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3)


def line(name: str, vector: list[float]) -> bytes:
    return entry_line(Document(name, f"text of {name}"), vector).rstrip(b"\n")


def cosine(left: list[float], right: list[float]) -> float:
    lengths = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / lengths if lengths else 0.0


@given(VECTORS, st.lists(VECTORS, max_size=12), st.integers(1, 6), st.integers(1, 4))
def test_the_nearest_are_those_of_who_sorts_all(
    query: list[float], vectors: list[list[float]], top_k: int, size: int
) -> None:
    ranking = Ranking(Header("m", 3), query, top_k)
    lines = [line(str(number), vector) for number, vector in enumerate(vectors)]
    for start in range(0, len(lines), size):
        ranking.take(lines[start : start + size])
    scores = [round(hit.score, 5) for hit in ranking.hits()]
    assert scores == [
        pytest.approx(score, abs=1e-4) for score in sorted((cosine(query, v) for v in vectors), reverse=True)[:top_k]
    ]
    assert ranking.count == len(vectors)
    for hit in ranking.hits():
        assert hit.text == f"text of {hit.id}"
        assert hit.score == pytest.approx(cosine(query, vectors[int(hit.id)]), abs=1e-6)


def test_equally_near_ones_are_in_the_order_of_the_index() -> None:
    ranking = Ranking(Header("m", 2), [1.0, 0.0], 3)
    ranking.take([line("a", [1, 0]), line("b", [0, 1]), line("c", [1, 0]), b"", line("d", [1, 0]), line("e", [1, 0])])
    assert [(hit.id, hit.score) for hit in ranking.hits()] == [("a", 1.0), ("c", 1.0), ("d", 1.0)]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"{", "line 3 of the index is no JSON object: '{'"),
        (b"5", "line 3 of the index is no JSON object"),
        (b'{"id": "x", "text": "x"}', "line 3 of the index has no vector of 2 numbers"),
        (b'{"id": "x", "text": "x", "vector": [1]}', "line 3 of the index has no vector of 2 numbers"),
        (b'{"id": "x", "text": "x", "vector": [1, "y"]}', "line 3 of the index is no"),
        (b'{"id": "x", "vector": [1, 2]}', "line 3 of the index is no"),
        (b'{"id": "x", "text": "x", "vector": [1, NaN]}', "line 3 of the index is no"),
        (b'{"id": "x", "text": "x", "vector": [1, 1' + b"0" * 400 + b"]}", "line 3 of the index is no"),
    ],
)
def test_a_line_that_is_none_is_named(bad: bytes, said: str) -> None:
    ranking = Ranking(Header("m", 2), [1.0, 0.0], 3)
    with pytest.raises(NotAnIndex, match=said):
        ranking.take([line("a", [1, 0]), bad])


@given(st.lists(st.text(max_size=5)), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_the_same_whatever_cuts_them(texts: list[str], cuts: list[int]) -> None:
    data = b"".join(json.dumps(text).encode() + b"\n" for text in texts) + b"last"
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    lines = Lines("x")
    pieces = [data[start:end] for start, end in pairwise(places)]
    found = [each for piece in pieces for each in lines.feed(piece)]
    assert [json.loads(each) for each in found] == texts
    assert lines.finish() == [b"last"]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "MAX_LINE_BYTES", 10)
    lines = Lines("the documents")
    assert lines.feed(b"one\ntwo\n") == [b"one", b"two"]
    with pytest.raises(NotAnIndex, match="line 3 of the documents has more than 10 bytes"):
        lines.feed(b"x" * 11)


def test_the_first_line_says_what_the_vectors_are() -> None:
    assert read_header(header_line(Header("modèle", 3))) == Header("modèle", 3)


@pytest.mark.parametrize(
    "first", [b"{}", b'{"model": "m", "dimensions": 0}', b'{"model": "m", "dimensions": true}', b"5", b"\xff"]
)
def test_a_first_line_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(NotAnIndex, match="line 1 of the index"):
        read_header(first)


@pytest.mark.parametrize(
    ("value", "document"),
    [
        ({"id": "a", "text": "x"}, Document("a", "x")),
        ({"id": 5, "text": "x", "start": 1}, Document("5", "x")),
        ({"text": "x"}, Document("7", "x")),
        ({"id": "a", "text": " "}, None), ({"id": None, "text": "x"}, None), ({"id": True, "text": "x"}, None),
        ({"id": "a"}, None), ("x", None), ({"id": "a", "text": 5}, None),
    ],
)  # fmt: skip
def test_a_document_has_a_text_and_may_have_an_id(value: Any, document: Document | None) -> None:
    if document is not None:
        assert read_document(value, "documents[7]", 7) == document
        return
    with pytest.raises(NotAnIndex, match=r"documents\[7\] must be"):
        read_document(value, "documents[7]", 7)
