"""The async client: all calls of one token to one scheduler, on one channel and one event loop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from taskyard_client.bulk_calls import BulkCalls
from taskyard_client.definition_calls import DefinitionCalls
from taskyard_client.fleet_calls import FleetCalls
from taskyard_client.grpc_transport import GrpcTransport
from taskyard_client.hand_calls import HandCalls
from taskyard_client.pause_calls import PauseCalls
from taskyard_client.session import Session
from taskyard_client.task_calls import TaskCalls
from taskyard_client.transport import Transport
from taskyard_client.variable_calls import VariableCalls
from taskyard_client.workflow_calls import WorkflowCalls


def wall_clock() -> int:
    """Returns Unix milliseconds."""
    return time.time_ns() // 1_000_000


class AsyncClient(
    TaskCalls, DefinitionCalls, WorkflowCalls, VariableCalls, BulkCalls, HandCalls, PauseCalls, FleetCalls
):
    """The client of Taskyard for asyncio.

    Use it from one event loop, and close it, best with `async with`; concurrent callers may share it.

    Args:
        address: The scheduler's `host:port`.
        token: JWT that says who you are; None where none is needed.
        ca: File with certificates to trust, or its content; makes the channel encrypted.
        timeout: Seconds that one call may take, all its attempts included. Waiting for a task has its own.
        rng: Draws request ids and the jitter of repeats. None: a new one, seeded by the system.
        wall: Tells Unix milliseconds; only request ids carry it.
        transport: Replaces gRPC, address and token; for simulations.

    Attributes:
        artifacts: The calls about artifacts.

    Raises:
        InvalidInput: The address is not `host:port`, the token has a character that no call can carry, or `ca` cannot
            be read or has no certificate.
    """

    def __init__(
        self,
        address: str,
        token: str | None,
        *,
        ca: str | Path | bytes | None = None,
        timeout: float = 30.0,
        rng: random.Random | None = None,
        wall: Callable[[], int] = wall_clock,
        transport: Transport | None = None,
    ) -> None:
        session = Session(
            transport or GrpcTransport(address, token, ca=ca),
            timeout=timeout,
            rng=rng or random.Random(),  # noqa: S311  ids must be unique, not secret
            wall=wall,
        )
        TaskCalls.__init__(self, session)
        DefinitionCalls.__init__(self, session)
        WorkflowCalls.__init__(self, session)
        VariableCalls.__init__(self, session)
        BulkCalls.__init__(self, session)
        HandCalls.__init__(self, session)
        PauseCalls.__init__(self, session)
        FleetCalls.__init__(self, session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Fails what waits with ClientClosed and ends every call. Harmless when repeated."""
        self.close_tasks()
        self.close_runs()
        await self._session.background.close()
        await self._session.transport.close()
