"""The model `hashing-v1`: its golden vectors, and the same by an implementation that is too simple to be wrong."""

from __future__ import annotations

import hashlib
import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_worker.embeddings.hashing import dimensions_of, embed, is_hashing

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "conformance" / "embedding" / "hashing-v1.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text("utf-8"))["cases"]
STOP_WORDS = {"the", "of", "a", "is"}
WORDS = st.sampled_from(["the", "of", "a", "is", "task", "tasks", "worker", "42", "zebra", "x"])


def cosine(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_a_text_has_the_vector_that_the_file_says(case: dict[str, Any]) -> None:
    vector = embed(case["text"], case["dimensions"])
    assert len(vector) == case["dimensions"]
    wanted = [case["vector"].get(str(number), 0.0) for number in range(len(vector))]
    assert vector == pytest.approx(wanted, abs=1e-6)


def test_the_file_has_what_other_languages_stumble_over() -> None:
    texts = "".join(case["text"] for case in CASES)
    assert len(CASES) >= 12
    assert {case["dimensions"] for case in CASES} >= {16, 256}
    assert re.search("[\u4e00-\u9fff]", texts)
    assert "😀" in texts
    assert any(not case["vector"] for case in CASES)


def by_the_page(text: str, dimensions: int) -> list[float]:
    """Follows docs/task-types.md word for word, for texts of ASCII letters, digits and spaces."""
    words = [word for word in text.lower().split() if word not in STOP_WORDS] or text.lower().split()
    listed = [f"w {word}" for word in words] + [f"p {a} {b}" for a, b in pairwise(words)]
    for word in words:
        framed = f"<{word}>"
        listed += [f"g {framed[at : at + 3]}" for at in range(len(framed) - 2)]
    vector = [0.0] * dimensions
    for feature in set(listed):
        digest = hashlib.sha256(feature.encode()).digest()
        weight = {"w": 1.0, "p": 0.25, "g": 0.5}[feature[0]] * math.sqrt(listed.count(feature))
        vector[int.from_bytes(digest[:4], "big") % dimensions] += -weight if digest[4] % 2 else weight
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector


@given(st.lists(WORDS, max_size=30).map(" ".join), st.sampled_from([16, 256]))
def test_it_is_what_the_page_says(text: str, dimensions: int) -> None:
    assert embed(text, dimensions) == pytest.approx(by_the_page(text, dimensions), abs=1e-6)


@given(st.text(max_size=200))
def test_any_text_has_a_vector_of_length_one_or_zero(text: str) -> None:
    vector = embed(text)
    length = math.sqrt(sum(value * value for value in vector))
    assert length == 0 or abs(length - 1) < 1e-4
    assert vector == embed(text)


def test_texts_that_share_words_are_near_each_other() -> None:
    passage = embed("A worker sends a heartbeat to the scheduler every ten seconds.")
    near, far = embed("How often do workers send heartbeats?"), embed("Bake the bread for forty minutes.")
    assert cosine(passage, near) > 0.2 > cosine(passage, far)
    assert cosine(embed("Task TASKS"), embed("task tasks")) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [
        ("hashing-v1", 256), ("hashing-v1-16", 16), ("hashing-v1-4096", 4096), ("hashing-v1-512", 512),
        ("hashing-v1-15", None), ("hashing-v1-4097", None), ("hashing-v1-016", None), ("hashing-v2", None),
        ("hashing-v1-", None), ("text-embedding-3-small", None), ("hashing-v1\n", None), ("hashing-v1-٣٢", None),
    ],
)  # fmt: skip
def test_its_name_says_how_many_dimensions(name: str, dimensions: int | None) -> None:
    assert dimensions_of(name) == dimensions
    assert is_hashing(name) == (dimensions is not None)
