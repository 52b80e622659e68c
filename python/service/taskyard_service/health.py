"""gRPC health checking and reflection: what load balancers ask, and what makes grpcurl work.

The servicer is ours, on the published messages: the stock one holds a lock while it writes to a watcher, so
that one who does not read would hold up every change of leadership. The HTTP probes are http.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from taskyard_service.errors import NotFound

HEALTH_SERVICE = "grpc.health.v1.Health"
State: Any = health_pb2.HealthCheckResponse  # its package has no types


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # the base has no types
    """Says for each service whether it serves here and now.

    The empty service name, the process as such, serves from start to shut-down; the named services serve only
    while `set_serving(True)` holds, that is, while this process leads.

    Args:
        services: Full names, as in `taskyard.v1.TaskService`.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._services = tuple(services)
        self._states: dict[str, Any] = {"": State.SERVING} | dict.fromkeys(self._services, State.NOT_SERVING)
        self._changed = asyncio.Event()
        self._closed = False

    def register(self, server: grpc.aio.Server) -> None:
        """Adds health and reflection to a server that has not started."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)
        names = (*self._services, HEALTH_SERVICE, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    def set_serving(self, serving: bool) -> None:
        """Says for every named service whether it serves; of no effect after `shut_down`."""
        if not self._closed:
            self._set(dict.fromkeys(self._services, State.SERVING if serving else State.NOT_SERVING))

    def shut_down(self) -> None:
        """Says that nothing serves any more, and ends the watchers' streams."""
        self._closed = True
        self._set(dict.fromkeys(self._states, State.NOT_SERVING))

    async def Check(self, request: Any, context: Any) -> Any:
        """Answers how a service stands now. NOT_FOUND: there is none of that name."""
        state = self._states.get(request.service)
        if state is None:
            known = ", ".join(repr(name) for name in self._states)
            raise NotFound("SERVICE_UNKNOWN", f"there is no service {request.service!r} here; there is {known}")
        return State(status=state)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Sends how a service stands, and again each time it changes."""
        last: int | None = None
        while True:
            changed = self._changed
            state = self._states.get(request.service, State.SERVICE_UNKNOWN)
            if state != last:
                yield State(status=state)
                last = state
                continue
            if self._closed:
                return
            await changed.wait()

    def _set(self, states: dict[str, Any]) -> None:
        self._states.update(states)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
