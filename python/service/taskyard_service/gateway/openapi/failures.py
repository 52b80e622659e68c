"""Which errors a call can be answered with, read from its comment in the contract, which lists the codes and why."""

from __future__ import annotations

import re

import grpc

from taskyard_service.gateway.openapi.schemas import Schema
from taskyard_service.status import HTTP_STATUS

_CODES = {code.name: str(HTTP_STATUS[code]) for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
_BEGINS = re.compile(rf"(?:^|(?<=\. ))(?=(?:{'|'.join(_CODES)})\b)")
"""Where a sentence begins with a code."""


def failures(comment: str, content: Schema) -> dict[str, Schema]:
    """Returns a response for each HTTP code that a comment's sentences on errors come to.

    Args:
        comment: A method's; sentences that begin with a code say when it is answered.
        content: What such a response holds.
    """
    found: dict[str, list[str]] = {}
    for sentence in _BEGINS.split(" ".join(comment.split())):
        code = re.match(r"[A-Z_]+", sentence)
        if code is not None and code[0] in _CODES:
            found.setdefault(_CODES[code[0]], []).append(sentence.strip())
    return {status: {"description": "\n\n".join(said), "content": content} for status, said in sorted(found.items())}
