"""The web application of a server process: probes, the explorer page, the document, and the gateway for all else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from taskyard_service.errors import ServiceError
from taskyard_service.gateway.answers import ALWAYS, Answer
from taskyard_service.gateway.explorer import DOCS_PATH, explorer_routes
from taskyard_service.gateway.gateway import Gateway, metadata_of
from taskyard_service.gateway.router import NotAllowed
from taskyard_service.gateway.table import CallFailed, MethodTable

DOCUMENT_PATH = "/api/v1/openapi.json"
DOCUMENT_METHOD = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
"""Who may ask a server what it serves over gRPC may read the document, which says the same."""
GET = ["GET", "HEAD"]
TOLD = "taskyard.told"
"""In the scope of a request whose failure was logged and answered."""


def make_app(
    gateway: Gateway, table: MethodTable, document: Callable[[], bytes], routes: Sequence[APIRouter] = ()
) -> ASGIApp:
    """Returns the application.

    Args:
        gateway: Serves every path that nothing else here has.
        table: Judges who may read the document.
        document: Returns the OpenAPI document as JSON; called once, when it is first asked for.
        routes: Further routes: probes, and what is written by hand.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for router in (*routes, explorer_routes(), _document_route(table, document)):
        app.router.routes.extend(router.routes)  # not included: that would cost each call of the gateway a search
    app.router.default = gateway

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "").split(", ")
            error = NotAllowed(request.method, request.url.path, allowed)
        request.scope[TOLD] = True
        return _response(gateway.failed(request.url.path, error))

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(CallFailed, refused)
    app.add_exception_handler(ServiceError, refused)
    app.add_exception_handler(Exception, refused)
    return _quiet(app)


def _quiet(app: ASGIApp) -> ASGIApp:
    """Ends here what the framework has answered and raises again all the same, for the server to log it twice."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            if TOLD not in scope:
                raise

    return served


def paths_of(routes: Sequence[APIRouter]) -> tuple[str, ...]:
    """Returns the paths that an application has beside the gateway's."""
    own = [route.path for router in routes for route in router.routes if isinstance(route, Route)]
    return (*own, DOCS_PATH, DOCUMENT_PATH)


def _document_route(table: MethodTable, document: Callable[[], bytes]) -> APIRouter:
    made: list[bytes] = []

    async def read(request: Request) -> Response:
        await table.permit(DOCUMENT_METHOD, metadata_of(request.scope))
        if not made:
            made.append(document())
        return Response(made[0], headers={"cache-control": "no-store"}, media_type="application/json")

    router = APIRouter()
    router.add_api_route(DOCUMENT_PATH, read, methods=GET)
    return router


def _response(answer: Answer) -> Response:
    headers = {name.decode(): value.decode() for name, value in (*ALWAYS, *answer.headers)}
    return Response(answer.body, answer.status, headers)
