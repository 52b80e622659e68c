"""The digest of a request's payload, by which a repeat is told from another request under the same id."""

from __future__ import annotations

from hashlib import blake2b

from google.protobuf.message import Message

_SHORT_TAG = b"\n"  # field 1, length-delimited
_SHORT_LENGTH = 128  # longer texts have a length of two bytes


def payload_digest(message: Message, request_id: str) -> bytes:
    """Returns 16 bytes of a message whose first field is its request id, without that id.

    Args:
        message: The request.
        request_id: Its `request_id`, field 1.
    """
    head = len(request_id) + 2
    if head < _SHORT_LENGTH and request_id.isascii():
        data = message.SerializeToString(deterministic=True)
        if data.startswith(_SHORT_TAG):
            return blake2b(memoryview(data)[head:], digest_size=16).digest()
    bare = type(message)()
    bare.CopyFrom(message)
    bare.ClearField("request_id")
    return blake2b(bare.SerializeToString(deterministic=True), digest_size=16).digest()
