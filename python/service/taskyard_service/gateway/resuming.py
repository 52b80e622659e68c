"""How a stream is resumed, from descriptors alone: which fields of a response say how far its reader has come.

The convention, as the contract's comments have it: an integer field `after_X` of the request takes X from the
response's field X, or from the last element of the response's one repeated message field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from taskyard_service.errors import FieldViolation, InvalidArgument
from taskyard_service.gateway.methods import Method
from taskyard_service.status import cut

PREFIX = "after_"
_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)  # fmt: skip
_DIGITS = re.compile(r"[0-9]{1,19}")


class Resumption:
    """The ids of a stream's events: made from responses, and turned back into a request.

    Args:
        method: An RPC that streams.
    """

    def __init__(self, method: Method) -> None:
        request: Descriptor = method.request.DESCRIPTOR
        response: Descriptor = method.response.DESCRIPTOR
        self._fields = [
            field.name for field in request.fields
            if field.name.startswith(PREFIX) and field.cpp_type in _INTEGERS and not field.is_repeated
        ]  # fmt: skip
        names = [name.removeprefix(PREFIX) for name in self._fields]
        found = _source(response, names) if names else None
        self._position: Callable[[Any], Any] = found or (lambda _response: None)
        self._names = names
        self.possible = found is not None

    def id_of(self, response: Message) -> str:
        """Returns the id of a response's event; empty: it has none."""
        place = self._position(response)
        return "" if place is None else ".".join(str(getattr(place, name)) for name in self._names)

    def resume(self, request: Message, last_event_id: str) -> None:
        """Sets where a request goes on from.

        Raises:
            InvalidArgument: The id is none of this stream's.
        """
        parts = last_event_id.split(".")
        if not self.possible or len(parts) != len(self._fields) or not all(map(_DIGITS.fullmatch, parts)):
            raise _bad_id(last_event_id)
        try:
            for name, part in zip(self._fields, parts, strict=True):
                setattr(request, name, int(part))
        except ValueError:  # too large for its field
            raise _bad_id(last_event_id) from None


def _bad_id(text: str) -> InvalidArgument:
    said = f"{cut(text)!r} is no id of this stream's events: send one as it came, or leave the header out"
    return InvalidArgument([FieldViolation("Last-Event-ID", said)])


def _source(response: Descriptor, names: list[str]) -> Callable[[Any], Any] | None:
    """Returns what finds the message that has all the names; None: nothing has."""
    if _has_all(response, names):
        return lambda message: message
    lists = [field for field in response.fields if field.is_repeated and field.message_type is not None]
    if len(lists) == 1 and _has_all(lists[0].message_type, names):
        name = lists[0].name

        def last(message: Any) -> Any:
            elements = getattr(message, name)
            return elements[-1] if elements else None

        return last
    return None


def _has_all(descriptor: Any, names: list[str]) -> bool:
    fields = descriptor.fields_by_name
    return all(name in fields and fields[name].cpp_type in _INTEGERS for name in names)
