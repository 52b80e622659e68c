"""Tokens as people hand them over: white space at the ends goes, and what no call can carry is refused beforehand.

Not for what a token says: the scheduler verifies it.
"""

from __future__ import annotations

import re

_UNFIT = re.compile(r"[^\x21-\x7e]")


class BadToken(Exception):
    """The token cannot be sent; the message is a sentence about it, without its name and its text."""


def clean_token(token: str) -> str:
    """Returns a token without white space at its ends, which it has where it was read from a file.

    Raises:
        BadToken: It holds something else than printable ASCII without spaces, which is all that a header takes.
    """
    clean = token.strip()
    if found := _UNFIT.search(clean):
        raise BadToken(
            f"character {found.start() + 1} of {len(clean)} is U+{ord(found.group()):04X}, and a token has only "
            "letters, digits and signs of ASCII, without spaces; copy it anew (`taskyard token` makes one)"
        )
    return clean
