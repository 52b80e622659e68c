"""The gRPC server with the options that all our servers share, and the runner of a process's main coroutine.

Which services it serves, and who may call them, is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

MESSAGE_LIMIT_BYTES = 16 * 1024 * 1024
KEEPALIVE_MS = 30_000
"""How often an idle connection is probed, in milliseconds: finds peers that vanished without a word."""
KEEPALIVE_TIMEOUT_MS = 10_000
MIN_PING_INTERVAL_MS = 5_000
"""How often a client may probe us; workers behind NAT do so often."""

FILES_WANTED = 65_536
"""Connections and files that a server process may have at once, where the system lets it."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
    ("grpc.http2.max_ping_strikes", 0),
    # With port sharing a second server on a taken port would start and get half of the calls.
    ("grpc.so_reuseport", 0),
)


class CannotListen(OSError):
    """The address cannot be listened on; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate.

    Attributes:
        certificate: PEM file with the chain, the server's own first.
        key: PEM file with the private key.
        client_authority: PEM file; when given, clients must show a certificate that it signed.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None


class GrpcServer:
    """A grpc.aio server on one address. Add services to `.server`, then `start()`.

    Args:
        host: Name or address to listen on.
        port: 0 takes a free one.
        interceptors: In the order in which a call passes them.
        tls: None: plain text.
        stop_grace_s: How long calls that run may go on after `stop`, in seconds.
    """

    def __init__(
        self,
        host: str,
        port: int,
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        *,
        tls: Tls | None = None,
        stop_grace_s: float = 5.0,
    ) -> None:
        self.host = host
        self.port = port
        self._tls = tls
        self._stop_grace_s = stop_grace_s
        self.server = grpc.aio.server(interceptors=list(interceptors), options=list(OPTIONS))

    async def start(self) -> int:
        """Begins to serve; returns the port, which is now also in `.port`.

        Raises:
            CannotListen: The address is taken or not ours, or a TLS file cannot be used.
        """
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        try:
            if self._tls is None:
                bound = self.server.add_insecure_port(address)
            else:
                bound = self.server.add_secure_port(address, _credentials(self._tls))
        except RuntimeError as error:
            raise CannotListen(cannot_listen(self.host, self.port)) from error
        if bound == 0:
            raise CannotListen(cannot_listen(self.host, self.port))
        self.port = bound
        await self.server.start()
        return bound

    async def stop(self) -> None:
        """Takes no more calls, lets running ones end within the grace, then ends them."""
        await self.server.stop(self._stop_grace_s)


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Runs a process's main coroutine on uvloop; returns its exit code."""
    try:
        import uvloop
    except ImportError:  # not built for Windows
        return asyncio.run(main())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def raise_file_limit(wanted: int = FILES_WANTED) -> None:
    """Lets this process open as many files and connections as it may, up to `wanted`: many systems begin with 1,024."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    try:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        authority = tls.client_authority.read_bytes() if tls.client_authority else None
    except OSError as error:
        raise CannotListen(f"the TLS file {error.filename} cannot be read: {error.strerror}; check its path") from error
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


def cannot_listen(host: str, port: int) -> str:
    """Returns the sentence for an address that cannot be listened on."""
    return (
        f"cannot listen on {host}, port {port}: another process has it, or it is no address of this machine;"
        " choose another (port 0 takes a free one) or stop the other process"
    )
