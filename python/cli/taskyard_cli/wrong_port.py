"""Finds out, once a call has failed, whether what was called speaks HTTP: then its port is not that of gRPC."""

from __future__ import annotations

import asyncio

PATIENCE_S = 1.0
_ASKED = "GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
_HTTP = b"HTTP/1."


async def speaks_http(address: str) -> bool:
    """Tells whether something at `host:port` answers as HTTP/1 does, within a second."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                writer.write(_ASKED.format(address).encode())
                return await reader.readexactly(len(_HTTP)) == _HTTP
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
        return False  # nobody is there, or speaks something else: what the call said stands


def told(address: str, grpc_address: str | None) -> str:
    """Returns what to say of an HTTP port. `grpc_address`: where gRPC is; None where that is not known."""
    where = f"gRPC is on {grpc_address}"
    if not grpc_address or grpc_address == address:
        where = (
            "gRPC is on another, 9090 unless TASKYARD_GRPC_PORT says otherwise (`grpc_address` in the scheduler's log)"
        )
    return f"{address} answers in HTTP: this is the HTTP port; {where}: give that as --address or TASKYARD_ADDRESS"
