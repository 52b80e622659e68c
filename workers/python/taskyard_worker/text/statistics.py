"""The operation `statistics`: how much of what a text holds. It counts the text as it is, not cleaned."""

from __future__ import annotations

import re

from taskyard_worker.text.decimals import thousandths
from taskyard_worker.text.sentences import paragraphs, segments
from taskyard_worker.text.source import source
from taskyard_worker.text.tables import tables
from taskyard_worker.text.tokens import Reading, tokens

_LINE = re.compile("[^RN]*+(?:RN|R|N)|[^RN]++\\Z")


def statistics(text: str) -> dict[str, int | str]:
    """Returns the counts of a text; lengths are in code points, averages have three decimals.

    Args:
        text: any string.

    Raises:
        TextInputError: the text is no string.
    """
    whole = source(text)
    reading = Reading.of(whole, tables())
    classes = reading.classes
    words = [unit for token in tokens(reading) for unit in token.units]
    sentences = sum(segment.sentence for segment in segments(whole, classes, tables()))
    return {
        "characters": len(whole),
        "characters_without_spaces": len(whole) - sum(classes.count(code) for code in "SRN"),
        "utf8_bytes": len(whole.encode("utf-8")),
        "letters": classes.count("L"),
        "digits": classes.count("D"),
        "cjk_characters": classes.count("C"),
        "words": len(words),
        "unique_words": len(set(words)),
        "sentences": sentences,
        "paragraphs": paragraphs(classes),
        "lines": sum(1 for _ in _LINE.finditer(classes)),
        "average_word_length": thousandths(sum(map(len, words)), len(words)),
        "average_sentence_words": thousandths(len(words), sentences),
    }
