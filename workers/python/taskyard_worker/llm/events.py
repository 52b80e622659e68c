"""Server-Sent Events out of the bytes of a connection, however these are cut. Knows nothing of what they carry.

As https://html.spec.whatwg.org/multipage/server-sent-events.html reads them, but that the last event counts without the
blank line that should end it: some servers close the connection instead.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event has more than a mebibyte: the server sends something else, or never a blank line."""


class EventReader:
    """Takes bytes in, gives the data of whole events out. Comments (keep-alives) and other fields are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the events that are complete with this piece.

        Raises:
            EventTooLarge: One has grown beyond a mebibyte.
        """
        text = self._rest + piece
        if not self._begun:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._rest = text
                return []
            self._begun = True
            text = text.removeprefix(_BOM)
        # A carriage return at the end may be the first half of a line end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + held
        events = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return events

    def finish(self) -> list[str]:
        """Return the event that the end of the connection completes."""
        events = self.feed(b"\n\n" if self._rest.endswith(b"\r") else b"\n")
        last = self._line(b"")
        return events if last is None else [*events, last]

    def _line(self, line: bytes) -> str | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(value)
        return None

    def _dispatch(self) -> str | None:
        if not self._data:
            return None
        event = b"\n".join(self._data).decode(errors="replace")
        self._data.clear()
        self._size = 0
        return event
