"""The model `hashing-v1`: a vector of a text from the words in it, computed anywhere with the same result.

It knows no meaning: texts are near each other that share words, neighbouring words and pieces of words. It needs no
network, no weights and no state. docs/task-types.md specifies it to the last step, and tests/conformance/embedding has
golden vectors.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise

from taskyard_worker.text.source import source
from taskyard_worker.text.tables import Tables, tables
from taskyard_worker.text.tokens import LONGEST_TERM, Reading, tokens

MODEL = "hashing-v1"
DIMENSIONS = 256
MIN_DIMENSIONS, MAX_DIMENSIONS = 16, 4096
DECIMALS = 6
PAIR_WEIGHT = 0.25
PIECE_WEIGHT = 0.5
PIECE = 3
"""Code points of a piece of a word."""
_NAME = re.compile(r"hashing-v1(?:-([1-9][0-9]{1,3}))?")


def is_hashing(model: str) -> bool:
    """Tell whether a model is this one: `hashing-v1`, or `hashing-v1-N` with N dimensions."""
    return dimensions_of(model) is not None


def dimensions_of(model: str) -> int | None:
    """Return how many dimensions a model's vectors have; None when it is another model."""
    found = _NAME.fullmatch(model)
    if found is None:
        return None
    dimensions = int(found[1]) if found[1] else DIMENSIONS
    return dimensions if MIN_DIMENSIONS <= dimensions <= MAX_DIMENSIONS else None


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a text's vector: of length 1, or all zeros when the text has no word."""
    vector = [0.0] * dimensions
    for feature, value in weights(text).items():
        # Pairs are too many to be worth remembering; words and pieces come again.
        number, sign = hashed(feature) if feature[0] == "p" else remembered(feature)
        vector[number % dimensions] += sign * value
    length = math.sqrt(math.fsum(value * value for value in vector))
    if length == 0.0:
        return vector
    return [round(value / length, DECIMALS) for value in vector]


def weights(text: str) -> dict[str, float]:
    """Return the features of a text, each with its weight times the root of how often it occurs."""
    counts = features(words(text))
    return {feature: _WEIGHTS[feature[0]] * math.sqrt(count) for feature, count in counts.items()}


_WEIGHTS = {"w": 1.0, "p": PAIR_WEIGHT, "g": PIECE_WEIGHT}


def features(listed: list[tuple[str, bool]]) -> Counter[str]:
    """Count the features of words: each one, each with the next, and the pieces of all but CJK characters."""
    counts = Counter([f"p {left} {right}" for (left, _), (right, _) in pairwise(listed)])
    for (key, cjk), times in Counter(listed).items():
        counts[f"w {key}"] = times
        if not cjk:
            for piece in pieces(key):
                counts[piece] += times
    return counts


@lru_cache(maxsize=1 << 14)
def pieces(key: str) -> tuple[str, ...]:
    """Return the features of the pieces of a word."""
    framed = f"<{key}>"
    return tuple(f"g {framed[start : start + PIECE]}" for start in range(len(framed) - PIECE + 1))


def words(text: str) -> list[tuple[str, bool]]:
    """Return the keys of the words and CJK characters of a text in order, and whether each is such a character.

    Stop words are left out, unless there is nothing else.
    """
    known = tables()
    listed = [
        (unit[:LONGEST_TERM], token.cjk) for token in tokens(Reading.of(source(text), known)) for unit in token.units
    ]
    kept = [each for each in listed if not stopped(each, known)]
    return kept or listed


def stopped(word: tuple[str, bool], known: Tables) -> bool:
    """Tell whether a word is one that says nothing."""
    key, cjk = word
    return key in (known.stop_characters if cjk else known.stop_words)


def hashed(feature: str) -> tuple[int, int]:
    """Return the number whose remainder is a feature's dimension, and its sign there."""
    digest = sha256(feature.encode()).digest()
    return int.from_bytes(digest[:4], "big"), -1 if digest[4] & 1 else 1


remembered = lru_cache(maxsize=1 << 15)(hashed)
