"""Values from the command line: `key=value`, JSON, `@file`, durations."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from taskyard_cli import strict_json
from taskyard_cli.durations import parse_duration
from taskyard_cli.exits import CliError, Exit

INT32_MAX = 2**31 - 1
"""The largest number that versions and attempts have in the contract."""

_EMPTY = "{} is empty (a shell variable that is not set?); {}"
_TOO_DEEP = "is nested too deeply to be read; make it flatter, or give it as a text"


def not_empty(param: typer.CallbackParam, value: Any) -> Any:
    """Returns the value of an option or argument unless it is empty, as `"$id"` is where that was never set.

    Raises:
        CliError: It is empty, or one of its texts is.
    """
    texts = [value] if isinstance(value, str) else value or ()
    if all(text.strip() for text in texts):
        return value
    if param.param_type_name == "option":
        name, way = max(param.opts, key=len), "give a value, or leave it out"
    else:
        name, way = f"the argument `{param.name}`", "give one"
    raise CliError(_EMPTY.format(name, way), Exit.USAGE)


def _refuse_empty(text: str, option: str) -> None:
    """Refuses an option's text that is empty where only its meaning is looked at. Raises CliError."""
    if not text.strip():
        raise CliError(_EMPTY.format(option, "give a value, or leave it out"), Exit.USAGE)


def only_with(option: str, given: object, other: str, instead: str = "") -> None:
    """Refuses an option that means nothing without another one.

    Args:
        option: The option.
        given: Its value; None and False: it was not given.
        other: What it needs.
        instead: What else the person may have meant.

    Raises:
        CliError: It was given.
    """
    if given is not None and given is not False:
        also = f", or {instead}" if instead else ""
        raise CliError(f"{option} means nothing without {other}: add that{also}", Exit.USAGE)


def only_alone(option: str, given: bool, other: str, why: str) -> None:
    """Refuses an option beside another that it leaves without a meaning.

    Args:
        option: The option that was given.
        given: Whether the other one was given too.
        other: The other one.
        why: Why they do not go together.

    Raises:
        CliError: It was given.
    """
    if given:
        raise CliError(f"{option} and {other} do not go together: {why}; leave one of the two out", Exit.USAGE)


def refuse_options_before(ctx: typer.Context, command: str) -> None:
    """Refuses options of the list in front of another command, which would look at its own only."""
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is not None and source.name == "COMMANDLINE":
            option = next((each for each in param.opts if each.startswith("--")), param.opts[0])  # not its alias
            way = f"options of `{ctx.info_name} {command}` stand behind `{command}`"
            raise CliError(f"{option} in front of `{command}` means nothing: {way}", Exit.USAGE)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Returns `key=value` texts as a mapping.

    Raises:
        CliError: One has no `=` or no key, or a key comes twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        _refuse_empty(text, option)
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CliError(f"{option} {text!r} is not key=value", Exit.USAGE)
        if key in found:
            raise CliError(f"{option} gives `{key}` twice; keep one of them", Exit.USAGE)
        found[key] = value
    return found


def typed(text: str) -> Any:
    """Returns a value as JSON where it is JSON (`5`, `true`, `[1]`, `"5"`), else as the text that it is.

    Raises:
        CliError: It is JSON that cannot be sent.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise CliError(f"--input {_TOO_DEEP}", Exit.REFUSED) from None
    _refuse_half_characters(value, "--input")
    return value


def json_object(text: str, option: str) -> dict[str, Any]:
    """Returns a JSON object from its text, from a file (`@name`) or from stdin (`@-`).

    Raises:
        CliError: The file cannot be read, or it is no JSON object.
    """
    value = json_value(text, option, "a JSON object")
    if not isinstance(value, dict):
        raise CliError(f'{option} must be a JSON object, for example {{"a": 1}}', Exit.REFUSED)
    return value


def json_value(text: str, option: str, wanted: str = "JSON") -> Any:
    """Returns a JSON value, as `json_object` returns an object; `wanted`: what goes there, in words.

    Raises:
        CliError: The file cannot be read, or it is no JSON.
    """
    _refuse_empty(text, option)
    source = text
    if text.startswith("@"):
        source = _read(text[1:], option)
        if not source.strip():
            raise CliError(f"{option}: {text[1:]} is empty; {wanted} goes there, for example {{}}", Exit.REFUSED)
    try:
        value = strict_json.loads(source)
    except ValueError as error:
        raise CliError(f"{option} is no JSON: {error}", Exit.REFUSED) from None
    except RecursionError:
        raise CliError(f"{option} {_TOO_DEEP}", Exit.REFUSED) from None
    _refuse_half_characters(value, option)
    return value


def _read(name: str, option: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{option}: {name} cannot be read: {error}", Exit.REFUSED) from None


def _refuse_half_characters(value: Any, option: str) -> None:
    """Refuses what JSON can escape and UTF-8 cannot hold, one half of a pair of surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise CliError(f"{option} holds {half}, which alone is no character; remove it", Exit.REFUSED) from None
    except RecursionError:
        raise CliError(f"{option} {_TOO_DEEP}", Exit.REFUSED) from None


def seconds(text: str | None, option: str) -> float | None:
    """Returns a duration in seconds; None for None.

    Raises:
        CliError: It is none.
    """
    if text is None:
        return None
    _refuse_empty(text, option)
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise CliError(f"{option}: {error}", Exit.USAGE) from None
