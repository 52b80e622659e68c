"""Which texts may name a thing: steps, tasks, workflows, task types, workers; and which may be stored at all.

Each check returns None when the value is fine, else the sentence for a violation. Nothing is corrected here.
"""

from __future__ import annotations

import re

from taskyard_core.violations import cut

STEP_ID_LIMIT = 128
NAME_LIMIT = 200

_STEP_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Control characters of C0 and C1, the two Unicode line breaks, and lone surrogates (not UTF-8).
_REFUSED_IN_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_step_id(value: str) -> str | None:
    """Check a step's id: 1 to 128 ASCII letters, digits, `_`, `-` and `.`."""
    if _STEP_ID.fullmatch(value):
        return None
    if not value:
        return "a step's id is empty; give it 1 to 128 letters, digits, '_', '-' or '.'"
    if len(value) > STEP_ID_LIMIT:
        return f"{cut(value, 40)} is longer than a step's id may be ({STEP_ID_LIMIT}); shorten it"
    wrong = next(c for c in value if not _STEP_ID.fullmatch(c))
    return (
        f"{cut(value)} contains {wrong!r}; a step's id has only ASCII letters, digits, '_', '-' and '.':"
        " replace the others"
    )


def check_name(value: str) -> str | None:
    """Check a name: 1 to 200 characters, no control characters, no white space at its ends.

    The last rule is the database's: MySQL and MariaDB compare `utf8mb4_bin` with trailing spaces ignored,
    so `"a"` and `"a "` would be one name there and two on SQLite.
    """
    if not value:
        return f"the name is empty; give it 1 to {NAME_LIMIT} characters"
    if len(value) > NAME_LIMIT:
        return f"{cut(value, 40)} is longer than a name may be ({NAME_LIMIT} characters); shorten it"
    found = _REFUSED_IN_NAME.search(value)
    if found:
        return (
            f"{cut(value)} contains {_code_point(found.group())}; a name has no control characters,"
            " line breaks or lone surrogates: remove it"
        )
    if value[0].isspace() or value[-1].isspace():
        return f"{cut(value)} begins or ends with white space; remove it"
    return None


def check_text(value: str) -> str | None:
    """Check that a text can be stored by every database: no NUL, no lone surrogate (it has no UTF-8 form)."""
    at = value.find("\x00")
    if at >= 0:
        return f"{cut(value)} contains NUL (U+0000) at character {at + 1}, which no text may; remove it"
    if value.isascii():
        return None
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return (
            f"{cut(value)} contains {_code_point(value[error.start])}, half of a surrogate pair, at character"
            f" {error.start + 1}; it has no UTF-8 form: send the whole character"
        )
    return None


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
