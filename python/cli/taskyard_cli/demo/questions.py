"""The questions that the demo asks, each with the sections of the reference that answer it.

They are asked as people ask. Which passages are found for them is measured, and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = 5
"""How many passages are looked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `about`: titles of sections, any of which has the answer."""

    text: str
    about: frozenset[str]


def _question(text: str, *about: str) -> Question:
    return Question(text, frozenset(about))


QUESTIONS = (
    # Shares hardly a word with its answer. A model that knows meanings finds it, one that knows words does not.
    _question(
        "How do I make sure that a file is closed when a block ends, whatever happens?",
        'The "with" statement', "With Statement Context Managers", 'The "try" statement', '"finally" clause',
    ),
    _question(
        "What does the else clause of a loop do?",
        'The "for" statement', 'The "while" statement', 'The "break" statement',
    ),
    _question("Which operator binds more tightly: what is the order of precedence?", "Operator precedence"),
    _question(
        "How is a generator function written, and what does yield do?",
        "Generator functions", 'The "yield" statement', "Yield expressions",
    ),
    _question(
        "How do I format a number with two decimals in a string?",
        "Format Specification Mini-Language", "Format String Syntax", "Format examples",
    ),
    _question(
        "How are exceptions caught with try and except?", 'The "try" statement', '"except" clause', "Exceptions"
    ),
    _question(
        "How can a class customize what happens when an attribute is read or assigned?",
        "Customizing attribute access", "Implementing Descriptors", "Invoking Descriptors",
    ),
    _question("When are the default values of a function's parameters evaluated?", "Function definitions"),
    _question("How is an object's hash related to its equality?", "Basic customization"),
    _question("Which values count as false in a condition?", "Truth Value Testing", "Boolean operations"),
)  # fmt: skip
