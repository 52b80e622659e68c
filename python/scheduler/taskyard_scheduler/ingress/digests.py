"""The digest of a request's payload, by which a repeat is told from another request under the same id. Hot path."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from google.protobuf.message import Message

_SHORT_TAG: Final = b"\n"  # field 1, length-delimited
_SHORT_LENGTH: Final = 128  # longer texts have a length of two bytes
_EMPTY: Final = blake2b(digest_size=16)  # copied, which is cheaper than to set up a new one


def payload_digest(message: Message, request_id: str) -> bytes:
    """Returns 16 bytes of a message whose first field is its request id, without that id.

    Args:
        message: The request.
        request_id: Its `request_id`, field 1; not empty.
    """
    digest = _EMPTY.copy()
    digest.update(_payload(message, request_id))
    return digest.digest()


def _payload(message: Message, request_id: str) -> bytes:
    """Returns the serialized message without its first field: cut off, where that is plain to see."""
    head = len(request_id) + 2
    if head < _SHORT_LENGTH and request_id.isascii():
        data = message.SerializeToString(deterministic=True)
        if data.startswith(_SHORT_TAG):
            return data[head:]
    bare = type(message)()
    bare.CopyFrom(message)
    bare.ClearField("request_id")
    return bare.SerializeToString(deterministic=True)
