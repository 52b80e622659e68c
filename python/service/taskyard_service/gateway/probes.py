"""What load balancers and Prometheus ask a server process, open to everyone: /healthz, /readyz, /metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

NO_STORE = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a process is not ready.

    Attributes:
        reason: Machine-readable, UPPER_SNAKE.
        message: A sentence for people.
    """

    reason: str
    message: str


def probe_routes(readiness: Callable[[], Sequence[Reason]], registry: CollectorRegistry) -> APIRouter:
    """Returns the three routes of every server process.

    Args:
        readiness: Returns why the process is not ready; nothing when it is.
        registry: What /metrics shows.
    """

    async def healthy() -> Response:
        return _json(HTTPStatus.OK, {"status": "ok"})

    async def ready() -> Response:
        reasons = [{"reason": r.reason, "message": r.message} for r in readiness()]
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json(status, {"ready": not reasons, "reasons": reasons})

    async def metrics() -> Response:
        return Response(generate_latest(registry), headers=NO_STORE, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    router = APIRouter()
    for path, endpoint in (("/healthz", healthy), ("/readyz", ready), ("/metrics", metrics)):
        router.add_api_route(path, endpoint, methods=["GET", "HEAD"])
    return router


def _json(status: HTTPStatus, content: object) -> Response:
    return Response(json.dumps(content) + "\n", status, NO_STORE, "application/json")
