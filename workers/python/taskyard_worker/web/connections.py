"""Connections to HTTP servers, one client a task: no cookie and no connection of one task is another's.

Not what is asked (`endpoint`, `tasks.http`).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib import metadata

import httpx

from taskyard_worker.errors import Retryable

CONNECT_S = 10.0
"""How long a server may take to accept a connection, in seconds. Everything else has as long as the attempt may run."""


@cache
def trusted() -> ssl.SSLContext:
    """Return what certificates are checked with: what `SSL_CERT_FILE` or `SSL_CERT_DIR` names, else certifi's."""
    return httpx.create_ssl_context()


@asynccontextmanager
async def connected(headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client whose connections are closed at the end, at once when what uses it is cancelled.

    It follows no redirects, and goes through the proxies that the worker's environment names.

    Args:
        headers: Sent with every request.
    """
    timeout = httpx.Timeout(None, connect=CONNECT_S)
    own = {"user-agent": f"taskyard-worker/{metadata.version('taskyard-worker')}"}
    async with httpx.AsyncClient(headers={**own, **(headers or {})}, timeout=timeout, verify=trusted()) as client:
        yield client


def shown(url: httpx.URL) -> str:
    """Return an address for people: without user, password and query, where secrets may be."""
    port = f":{url.port}" if url.port is not None else ""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{port}{url.path}"


def broken(asked: str, error: httpx.TransportError) -> Retryable:
    """Return the failure of a request whose connection could not be made, or broke.

    Args:
        asked: The request for people: method and address.
        error: What httpx says.
    """
    if isinstance(error, httpx.ConnectTimeout):
        return Retryable(f"{asked}: no connection within {CONNECT_S:g} s")
    detail = f": {error}" if str(error) else ""
    if isinstance(error, httpx.ConnectError):
        return Retryable(f"{asked}: no connection{detail}")
    return Retryable(f"{asked}: the connection broke before the answer was complete{detail}")


async def read_at_most(response: httpx.Response, limit: int, too_long: Callable[[], Exception]) -> bytes:
    """Return the body; raise what `too_long` returns once it has more than `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            raise too_long()
        parts.append(part)
    return b"".join(parts)
