"""A scripted server and a client of it, for tests of one event loop."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scripted_server import ScriptedServer

from taskyard_client import AsyncClient


@asynccontextmanager
async def served(timeout: float = 30.0) -> AsyncIterator[tuple[ScriptedServer, AsyncClient]]:
    """Yields both, started; both are stopped at the end."""
    server = ScriptedServer()
    async with (
        server,
        AsyncClient(server.address, "secret-token", timeout=timeout, rng=random.Random(1)) as client,
    ):
        yield server, client
