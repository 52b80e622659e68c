"""Answers that follow a JSON schema: the schema checked, the answer compared with it. No I/O, no remote schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from taskyard_worker.errors import InvalidInput

MAX_SHOWN = 300
FAULTS = 5
"""Most faults of an answer that are told."""
MOST_FAULTS = 1_000
"""No more of them are looked for."""
SMALL = 1_000_000
"""Characters of the schema times characters of the answer up to which a plain comparison is a matter of moments."""
NOT_PLAIN = frozenset(
    ("$ref", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "uniqueItems", "unevaluatedItems",
     "unevaluatedProperties")
)  # fmt: skip
"""Keywords whose comparison may take longer than the sizes of schema and answer multiplied."""


class Misfit(ValueError):
    """An answer does not follow the schema; the text says where, and what the rule is."""


class Schema:
    """A schema that answers must follow.

    Args:
        schema: As in the task's input.

    Raises:
        InvalidInput: It is no JSON schema.
    """

    def __init__(self, schema: Any) -> None:
        if not isinstance(schema, dict):
            raise InvalidInput("'response_schema' must be a JSON schema, which is an object")
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise InvalidInput(f"'response_schema' is no JSON schema: {told(error)}") from error
        self.schema = schema
        self._plain = NOT_PLAIN.isdisjoint(names(schema))
        self._length = len(json.dumps(schema))
        self._validator: Validator = kind(schema, registry=Registry())  # one that fetches nothing

    def request(self) -> dict[str, Any]:
        """Return how an endpoint is asked to follow it."""
        return {"type": "json_schema", "json_schema": {"name": "response", "schema": self.schema}}

    def is_quick(self, text: str) -> bool:
        """Tell whether an answer can be compared where nothing stops the comparison."""
        return self._plain and self._length * len(text) <= SMALL

    def read(self, text: str) -> Any:
        """Return the value of an answer that follows the schema. Raises what `value_of` and `compare` do."""
        value = self.value_of(text)
        self.compare(value)
        return value

    def value_of(self, text: str) -> Any:
        """Return the value of an answer. Raises Misfit: it is no JSON."""
        try:
            return json.loads(unfenced(text), parse_constant=no_number)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"it is no JSON ({error})") from error

    def compare(self, value: Any) -> None:
        """Return when a value follows the schema. May take long, for some schemas for ever.

        Raises:
            Misfit: It does not.
            InvalidInput: The schema refers to what is not in it, or to itself without end.
        """
        try:
            found = islice(self._validator.iter_errors(value), MOST_FAULTS)
            faults = sorted(found, key=lambda error: list(map(str, error.absolute_path)))
        except Unresolvable as error:
            raise InvalidInput(f"'response_schema' refers to what is not in it: {str(error)[:MAX_SHOWN]}") from error
        except RecursionError as error:
            raise InvalidInput("'response_schema' refers to itself without end, or is too deep; correct it") from error
        if faults:
            raise Misfit("; ".join(told(fault) for fault in faults[:FAULTS]))


def names(part: Any) -> Iterator[str]:
    """Iterate over the names in all objects of a schema, keywords or not; without recursion, however deep it is."""
    parts = [part]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            yield from part
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)


def no_number(name: str) -> float:
    """Refuse NaN and the infinities, which Python takes and JSON does not have."""
    raise ValueError(f"{name} is no number of JSON")


def unfenced(text: str) -> str:
    """Return an answer without the Markdown fence that some models put around their JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def told(error: ValidationError | SchemaError) -> str:
    """Return a fault for people: where, and what."""
    deepest = best_match(error.context) if error.context else error
    fault = deepest or error
    message = fault.message
    shown = message if len(message) <= MAX_SHOWN else f"{message[:MAX_SHOWN]}…"
    return f"{fault.json_path}: {shown}"
