"""Holds a document against the JSON Schema of workflow files and says what breaks it, at its place, for people."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from taskyard_cli.durations import HOW, PATTERN
from taskyard_cli.problems import Mark, Problem
from taskyard_cli.workflows.yaml_source import Document, Path

if TYPE_CHECKING:
    import jsonschema

_NAMES = {
    "object": "a mapping", "array": "a list", "string": "a text", "number": "a number", "integer": "a whole number",
    "boolean": "true or false", "null": "nothing",
}  # fmt: skip
_CONTRACT_KEYS = {
    "task_type": "type", "task_name": "task", "input_json": "input", "output_json": "output",
    "default_json": "default", "depends_on": "needs", "run_timeout": "timeouts: {run_timeout: ...}",
    "timeout": "timeouts: {run_timeout: ...}", "retries": "retry: {max_attempts: ...}",
    "max_attempts": "retry: {max_attempts: ...}", "attempts": "max_attempts", "delay": "first_delay",
    "queued": "queued_timeout", "start": "start_timeout", "run": "run_timeout", "total": "total_timeout",
}  # fmt: skip
_AMOUNTS = {
    **dict.fromkeys(("cpu", "cpus", "cores", "vcpus"), ("cpu_millis", 1_000, "thousandths of a core")),
    **dict.fromkeys(("memory", "mem", "ram", "memory_mib", "mb"), ("memory_mb", 1, "MiB")),
    **dict.fromkeys(("memory_gb", "memory_gib", "gb"), ("memory_mb", 1_024, "MiB")),
    **dict.fromkeys(("gpu",), ("gpus", 1, "whole GPUs")),
}
"""What people call resources: the key of the contract, how much of its unit theirs is, and its unit."""
_GIVEN = {"version", "create_time", "source"}


@functools.cache
def workflow_schema() -> dict[str, Any]:
    """Returns the JSON Schema of workflow files."""
    text = importlib.resources.files("taskyard_cli.workflows").joinpath("workflow.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def broken_rules(document: Document) -> list[Problem]:
    """Returns what breaks the schema, in the order of the file."""
    import jsonschema  # here, since it takes longer to import than most commands take

    validator = jsonschema.Draft202012Validator(workflow_schema())
    found = (problem for error in validator.iter_errors(document.value) for problem in _problems(error, document))
    # Each once: of a thing that lacks two fields there are two errors, and either tells both.
    return in_order(dict.fromkeys(found))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Returns problems as they come in the file."""
    return sorted(problems, key=_order)


def _order(problem: Problem) -> tuple[int, int, str]:
    mark = problem.mark or Mark(0, 0)
    return mark.line, mark.column, problem.message


def field_name(document: Document, path: Path) -> str:
    """Returns a path as the scheduler writes it: list items that have an id or a name by that."""
    value, text = document.value, ""
    for part in path:
        value = _part(value, part)
        label = value.get("id", value.get("name")) if isinstance(value, dict) else None
        if not isinstance(part, int):
            text += f".{part}" if text else part
        elif isinstance(label, str) and label:
            text += f".{label}"
        else:
            text += f"[{part}]"
    return text


def _part(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def _problems(error: jsonschema.ValidationError, document: Document) -> Iterator[Problem]:
    path: Path = tuple(error.absolute_path)
    schema, wanted = _rules(error), _wanted(error)
    instance: Any = error.instance
    if error.validator == "additionalProperties":
        known = list(schema.get("properties", {}))
        for key in instance:
            if key not in known:
                yield _at(document, (*path, key), _amount(key, instance[key], known) or _unknown(str(key), known))
    elif error.validator == "required":
        for missing in wanted:
            if missing not in instance:
                yield _at(document, path, f"`{missing}` is missing; every {_thing(path)} has one")
    else:
        yield _at(document, path, _sentence(error))


def _rules(error: jsonschema.ValidationError) -> dict[str, Any]:
    rules: Any = error.schema
    return dict(rules)


def _wanted(error: jsonschema.ValidationError) -> Any:
    return error.validator_value


def _at(document: Document, path: Path, message: str) -> Problem:
    return Problem(document.mark(path), field_name(document, path), message)


def _thing(path: Path) -> str:
    return {"steps": "step", "inputs": "input"}.get(str(path[0]) if path else "", "workflow")


def _amount(key: object, value: object, known: list[str]) -> str:
    """Returns how a resource is written that has another name here, with what was meant in its unit; else nothing."""
    name, factor, unit = _AMOUNTS.get(str(key), ("", 0, ""))
    if name not in known:
        return ""
    counts = isinstance(value, int | float) and not isinstance(value, bool)
    meant = f"{name}: {round(value * factor)}" if counts else name  # type: ignore[operator]  # it is a number
    return f"`{_short(key)}` is not known here; write `{meant}` ({unit})"


def _unknown(key: str, known: list[str]) -> str:
    if key in _GIVEN and "steps" in known:
        whose = "with `taskyard workflow apply --source`" if key == "source" else "by the scheduler"
        return f"`{key}` is given {whose}; leave it out"
    meant = _CONTRACT_KEYS.get(key)
    if meant is None or meant.partition(":")[0] not in known:
        meant = next(iter(difflib.get_close_matches(key, known, 1, 0.6)), None)
    hint = f"did you mean `{meant}`?" if meant else f"known here: {', '.join(sorted(known))}"
    return f"`{_short(key)}` is not known here; {hint}"


def _sentence(error: jsonschema.ValidationError) -> str:
    value: Any = error.instance
    rule, wanted, schema = error.validator, _wanted(error), _rules(error)
    if schema.get("pattern") == PATTERN:
        return f"`{_short(value)}` is no duration; {HOW}"
    if rule == "type":
        return _wrong_type(value, wanted)
    if rule == "enum":
        near = difflib.get_close_matches(str(value).lower(), wanted, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"write one of: {', '.join(wanted)}"
        return f"`{_short(value)}` is none of the words that go here; {hint}"
    if rule == "pattern":
        return f"`{_short(value)}` is no name; use 1 to 128 of the letters A to Z and a to z, digits, `_`, `-`, `.`"
    if rule in {"minimum", "maximum"}:
        low, high = schema["minimum"], schema["maximum"]
        return f"{_short(value)} is not from {low:,} to {high:,}"
    if rule in {"minLength", "minItems"}:
        return "is empty; give at least one" if rule == "minItems" else "is empty; give a text"
    if rule in {"maxLength", "maxItems"}:
        return f"is too long: {len(value):,}, at most {wanted:,}"
    raise AssertionError(f"the schema of workflow files has a rule without a sentence: {rule}")


def _wrong_type(value: Any, wanted: str | list[str]) -> str:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    names = " or ".join(_NAMES[kind] for kind in kinds)
    if kinds == ["string"] and isinstance(value, int | float):
        return f"{_short(value)} is {_kind(value)}; put it in quotes, since a text goes here"
    if kinds == ["array"] and isinstance(value, str):
        return f"`{_short(value)}` is a text; write a list: [{_short(value)}]"
    return f"{_short(value)} is {_kind(value)}; {names} goes here"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (dict, "a mapping"), (list, "a list"), (str, "a text"), ((int, float), "a number"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "nothing")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"
