"""The wire between worker and scheduler: carries bytes until it is cut, or swallows them so that nobody is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress

PIECE = 256 * 1024


class Wire:
    """Listens on loopback and carries each connection to `target`, the port of the scheduler of the moment."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.refusing = False
        self._swallowing: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where the worker connects to."""
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def start(self) -> None:
        """Listens."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0, limit=PIECE)

    async def close(self) -> None:
        """Ends every connection and listens no more; one that never listened has nothing to end."""
        if self._server is None:
            return
        self._server.close()
        self.cut()
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Breaks every connection off, so that both sides see it at once."""
        for writer in tuple(self._open):
            writer.transport.abort()

    def swallow(self) -> None:
        """Carries nothing any more on the connections of now, in either direction, and leaves them open."""
        self._swallowing |= self._open

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._open.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            with suppress(OSError, asyncio.CancelledError):  # whoever cancels it waits for its end
                if not self.refusing:
                    far, there = await asyncio.open_connection("127.0.0.1", self.target, limit=PIECE)
                    self._open.add(there)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._copy(reader, writer, there), name="to the scheduler")
                        group.create_task(self._copy(far, there, writer), name="to the worker")
        finally:
            for each in filter(None, (writer, there)):
                self._open.discard(each)
                self._swallowing.discard(each)
                each.transport.abort()
            self._running.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, source: asyncio.StreamWriter, to: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(PIECE):
                if source not in self._swallowing:
                    to.write(data)
                    await to.drain()
        if source not in self._swallowing:
            to.transport.abort()
