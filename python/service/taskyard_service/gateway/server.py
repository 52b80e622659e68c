"""Serves an ASGI application over HTTP/1.1 in the running event loop: uvicorn's protocol on sockets of our own.

Not uvicorn's server: that takes the process' signals for itself and ends the process when a port is taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import Any

import uvicorn
from structlog.typing import FilteringBoundLogger
from uvicorn.server import ServerState

from taskyard_service.gateway.protocol import LOGGER, BoundedProtocol, Bounds
from taskyard_service.lifecycle import end_tasks
from taskyard_service.server import CannotListen, cannot_listen

BACKLOG = 1_024
DATE_PERIOD_S = 1.0
POLL_S = 0.02
"""How often it is looked at whether the last request has ended: uvicorn tells nobody."""
ABORT_S = 1.0
"""How long an application may take to notice that its connection is gone, in seconds."""


class HttpServer:
    """An HTTP server on one address.

    Args:
        host: Name or address to listen on.
        port: 0 takes a free one.
        app: What answers.
        log: Told of what does not stop.
        on_stop: Called when the server begins to stop: ends what would go on for ever.
        stop_grace_s: How long requests that run may go on after `stop`, in seconds.
        bounds: What one peer may take.
    """

    def __init__(
        self,
        host: str,
        port: int,
        app: Any,
        log: FilteringBoundLogger,
        *,
        on_stop: Callable[[], None] = lambda: None,
        stop_grace_s: float = 5.0,
        bounds: Bounds | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._log = log
        self._on_stop = on_stop
        self._stop_grace_s = stop_grace_s
        self._bounds = bounds or Bounds()
        self._config = uvicorn.Config(
            app, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False, proxy_headers=False,
            reset_contextvars=True,  # who made the last call on a connection is not who makes the next
        )  # fmt: skip
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._date: asyncio.TimerHandle | None = None

    async def start(self) -> int:
        """Begins to serve; returns the port, which is now also in `.port`.

        Raises:
            CannotListen: The address is taken or not ours.
        """
        self._config.load()
        logging.getLogger(LOGGER).setLevel(logging.ERROR)  # what strangers send is no warning of ours
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._connection, self.host, self.port, backlog=BACKLOG)
        except OSError as error:
            raise CannotListen(cannot_listen(self.host, self.port)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._tick(loop)
        return self.port

    async def stop(self) -> None:
        """Takes no more connections, lets running requests end within the grace, then ends them.

        Returns in bounded time whatever they do.
        """
        if self._server is None:
            return
        self._server.close()
        self._on_stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._until_idle(self._stop_grace_s)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._until_idle(ABORT_S)
        await end_tasks(self._state.tasks, self._log, ABORT_S)
        if self._date is not None:
            self._date.cancel()
        try:
            async with asyncio.timeout(ABORT_S):
                await self._server.wait_closed()
        except TimeoutError:
            self._log.warning("connections were left open", port=self.port)

    def _connection(self) -> asyncio.Protocol:
        return BoundedProtocol(self._bounds, config=self._config, server_state=self._state, app_state={})

    async def _until_idle(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._state.connections or self._state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._date = loop.call_later(DATE_PERIOD_S, partial(self._tick, loop))
