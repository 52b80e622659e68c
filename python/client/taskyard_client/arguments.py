"""Says which argument is of a kind that nothing can be made of. Looked at only once something went wrong."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from taskyard_client.errors import InvalidInput, Violation

P = ParamSpec("P")
T = TypeVar("T")

SHOWN = 100
"""Most characters of a value that are shown."""
_HALF = re.compile("[\ud800-\udfff]")
_WORDS: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "True or False", timedelta: "a timedelta",
    datetime: "a datetime",
    type(None): "None",
}  # fmt: skip


def named(function: Callable[P, T]) -> Callable[P, T]:
    """Has a function that builds a message raise InvalidInput with the name of an argument that does not fit.

    What its annotations say of each argument is what is wanted of it.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            given = _given(function, args, kwargs)
            found = _half(given, "") if isinstance(error, UnicodeEncodeError) else None
            if found := found or _misfit(given, get_type_hints(function), ""):
                raise InvalidInput(found.description, [found]) from None
            raise

    return call


def _given(function: Callable[..., Any], args: Any, kwargs: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # an argument that there is not: Python's own words name it
        return {}


def _half(value: Any, place: str) -> Violation | None:
    """Returns where the first half of a character stands in a value, or in the names in it."""
    if isinstance(value, str):
        half = _HALF.search(value)
        say = "has half a character, {!r}, which no text can be sent with; repair it, or leave it out"
        return Violation(place, say.format(half[0])) if half else None
    if isinstance(value, Mapping):
        inner = [(key, f"{place} (a name)" if place else "name") for key in value]
        inner += [(each, f"{place}.{key}" if place else f"{key}") for key, each in value.items()]
    elif is_dataclass(value) and not isinstance(value, type):
        inner = [(getattr(value, each.name), f"{place}.{each.name}") for each in fields(value)]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = [(each, f"{place}[{at}]") for at, each in enumerate(value)]
    else:
        return None
    return next(filter(None, (_half(each, where) for each, where in inner)), None)


def _misfit(given: Mapping[str, Any], hints: Mapping[str, Any], prefix: str) -> Violation | None:
    """Returns the first of some values that is not what its hint says, looking into mappings and policies."""
    for name, value in given.items():
        field, hint = f"{prefix}{name}", hints.get(name, Any)
        if not _fits(value, hint):
            return Violation(field, f"is {shown(value)}; give {_wanted(hint)}")
        members, their_hints, joint = _members(value, hint)
        if odd := [key for key in members if not isinstance(key, str)]:
            return Violation(field, f"has the key {shown(odd[0])}; give text as keys")
        if found := _misfit(members, their_hints, field + joint):
            return found
    return None


def _members(value: Any, hint: Any) -> tuple[Mapping[Any, Any], Mapping[Any, Any], str]:
    """Returns what is in a value, the hints for it, and what joins its names; keys may be anything."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}, get_type_hints(type(value)), "."
    mapping = next((each for each in _choices(hint) if get_origin(each) is Mapping), None)
    if mapping is not None and isinstance(value, Mapping):
        return value, dict.fromkeys(value, get_args(mapping)[1]), "."
    several = next((each for each in _choices(hint) if get_origin(each) is Iterable), None)
    if several is not None and isinstance(value, list | tuple | set | frozenset):
        items = {f"[{at}]": item for at, item in enumerate(value)}
        return items, dict.fromkeys(items, get_args(several)[0]), ""
    return {}, {}, ""


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_is(value, each) for each in _choices(hint))


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and abs(value) < 1e12  # also not NaN: nothing that is sent may be
    kind = get_origin(kind) or kind
    return isinstance(value, kind) if isinstance(kind, type) else True


def _wanted(hint: Any) -> str:
    named = [_word(each) for each in _choices(hint)]
    return f"{', '.join(named[:-1])} or {named[-1]}" if len(named) > 1 else named[0]


def _word(kind: Any) -> str:
    if is_dataclass(kind) and isinstance(kind, type):
        return f"{kind.__name__}({', '.join(f'{each.name}=…' for each in fields(kind))})"
    if get_origin(kind) is Mapping:
        return "a mapping from text to text" if get_args(kind)[1] is str else "a mapping"
    if get_origin(kind) is Iterable:
        return f"a list of {_word(get_args(kind)[0])}"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def shown(value: Any) -> str:
    """Returns a value and its type as a sentence can show them: cut."""
    try:
        text = repr(value)
    except Exception:  # its own code, which may fail
        text = "what has no words"
    return f"{text if len(text) <= SHOWN else text[:SHOWN] + '…'} ({type(value).__name__})"
