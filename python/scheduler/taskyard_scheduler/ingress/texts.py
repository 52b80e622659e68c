"""Rules for single texts of a message: names, ids of requests, keys, free text, trace contexts. Not for JSON.

Each check returns None, or the sentence of a violation. Names that recur with every task are checked once and
remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from taskyard_core.names import NAME_LIMIT, check_name, check_text
from taskyard_core.violations import cut

REQUEST_ID_LIMIT: Final = 128
REASON_LIMIT: Final = 1_000
DESCRIPTION_LIMIT: Final = 10_000
PARAM_KEY_LIMIT: Final = 1_000

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_plain_id = re.compile(r"[!-~]{1,128}").fullmatch
_remembered_name = lru_cache(maxsize=10_000)(check_name)


def name_fault(value: str) -> str | None:
    """Checks a name of a thing: 1 to 200 characters."""
    return _remembered_name(value) if len(value) <= NAME_LIMIT else check_name(value)


def type_fault(value: str) -> str | None:
    """Checks a task type that a task asks for."""
    return _remembered_type(value) if len(value) <= NAME_LIMIT else check_name(value)


def _check_type(value: str) -> str | None:
    if value == "*":
        return "'*' is what a worker offers that runs any type; name the one type that this task is of"
    return check_name(value)


_remembered_type = lru_cache(maxsize=10_000)(_check_type)


def request_id_fault(value: str) -> str | None:
    """Checks a request id; empty is for the caller to judge."""
    return None if _plain_id(value) else _key_fault(value, REQUEST_ID_LIMIT, "a request id")


def idempotency_key_fault(value: str) -> str | None:
    """Checks an idempotency key; empty is for the caller to judge."""
    return _key_fault(value, NAME_LIMIT, "an idempotency key")


def _key_fault(value: str, limit: int, what: str) -> str | None:
    if len(value) > limit:
        return f"{cut(value, 40)} is longer than {what} may be ({limit} characters); shorten it"
    said = check_name(value)
    return said.replace("a name has", f"{what} has") if said else None


def text_fault(value: str, limit: int) -> str | None:
    """Checks a text for people: at most `limit` characters, no NUL."""
    if len(value) > limit:
        return f"{cut(value, 40)} is longer than {limit:,} characters; shorten it"
    return check_text(value)


def traceparent_fault(value: str) -> str | None:
    """Checks a W3C trace context (https://www.w3.org/TR/trace-context/)."""
    if _TRACEPARENT.fullmatch(value):
        return None
    return (
        f"{cut(value)} is no W3C trace context; write version-traceid-parentid-flags in lowercase hex, such as"
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, or leave it out"
    )


def params_fault(params: Mapping[str, str]) -> tuple[str, str] | None:
    """Checks flat parameters. Returns the first key whose entry is wrong, and the sentence."""
    for key, value in params.items():
        if "\0" in value or "\0" in key or not key or len(key) > PARAM_KEY_LIMIT:
            return key, _param_sentence(key, value)
    return None


def _param_sentence(key: str, value: str) -> str:
    if not key:
        return "a parameter has an empty name; give it one"
    if len(key) > PARAM_KEY_LIMIT:
        return f"the parameter's name is longer than {PARAM_KEY_LIMIT:,} characters; shorten it"
    return check_text(key) or check_text(value) or ""
