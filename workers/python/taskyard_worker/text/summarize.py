"""The operation `summarize`: the sentences that say most of what a text repeats. It writes nothing new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskyard_worker.text.clean import clean
from taskyard_worker.text.options import Integer
from taskyard_worker.text.sentences import segments
from taskyard_worker.text.split import broken
from taskyard_worker.text.tables import tables
from taskyard_worker.text.tokens import Reading, terms

MAX_SENTENCES = Integer("max_sentences", 1, 1000)
LONGEST_SENTENCE = 600
"""Code points of one sentence that a summary shows."""
_DAMPING = 8


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the cleaned text: its text on one line, its terms, and whether white space follows it."""

    text: str
    terms: tuple[str, ...]
    spaced: bool


def summarize(text: str, *, max_sentences: object = 3) -> str:
    """Returns the best sentences of the cleaned text, in its order, on one line.

    Args:
        text: any string.
        max_sentences: at most how many.

    Raises:
        TextInputError: an argument is not what it must be.
    """
    wanted = MAX_SENTENCES.read(max_sentences)
    sentences = _sentences(clean(text))
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    scores = [_score(sentence, counts, first=index == 0) for index, sentence in enumerate(sentences)]
    chosen = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))[:wanted]
    return _joined([sentences[index] for index in sorted(chosen)])


def _sentences(text: str) -> list[_Sentence]:
    """Returns the distinct sentences, each where it comes first."""
    reading = Reading.of(text, tables())
    found: dict[str, _Sentence] = {}
    for segment in segments(text, reading.classes, tables()):
        line = text[segment.start : segment.end].replace("\n", " ")
        if segment.sentence and line not in found:
            counted = tuple(terms(reading, tables(), segment.start, segment.end))
            found[line] = _Sentence(line, counted, text[segment.end : segment.end + 1] in ("", " ", "\n"))
    return list(found.values())


def _score(sentence: _Sentence, counts: Mapping[str, int], *, first: bool) -> int:
    """Rates a sentence by the counts of its distinct terms, damped by its length; the first by half more."""
    weight = sum(counts[term] for term in set(sentence.terms))
    score = 1000 * weight // (_DAMPING + len(sentence.terms))
    return score + score // 2 if first else score


def _joined(sentences: Sequence[_Sentence]) -> str:
    parts: list[str] = []
    for sentence in sentences:
        parts += [_shortened(sentence.text), " " if sentence.spaced else ""]
    return "".join(parts[:-1])


def _shortened(line: str) -> str:
    if len(line) <= LONGEST_SENTENCE:
        return line
    start, end = next(broken(line, tables().classes(line), (0, len(line)), LONGEST_SENTENCE))
    return line[start:end] + "\u2026"
