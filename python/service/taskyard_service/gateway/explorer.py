"""The page /docs: Swagger UI over the OpenAPI document. It holds nothing of the cluster and asks nobody else.

The person gives a token, and the page fetches the document with it. Swagger UI itself comes from an installed package.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from importlib import resources

from fastapi import APIRouter, Response

DOCS_PATH = "/docs"
HTML, SCRIPT, STYLE, PICTURE = "text/html", "text/javascript", "text/css", "image/png"
FILES = {
    DOCS_PATH: ("taskyard_service.gateway", "explorer.html", HTML),
    f"{DOCS_PATH}/explorer.js": ("taskyard_service.gateway", "explorer.js", SCRIPT),
    f"{DOCS_PATH}/explorer.css": ("taskyard_service.gateway", "explorer.css", STYLE),
    f"{DOCS_PATH}/swagger-ui-bundle.js": ("fastapi_offline", "static/swagger-ui-bundle.js", SCRIPT),
    f"{DOCS_PATH}/swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css", STYLE),
    f"{DOCS_PATH}/favicon.png": ("fastapi_offline", "static/favicon.png", PICTURE),
}
"""Path: package, file in it, kind."""
HEADERS = {
    # Swagger UI styles itself in place and draws its icons from data: addresses.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "max-age=3600",
}


def explorer_routes() -> APIRouter:
    """Returns the page's routes."""
    router = APIRouter()
    for path in FILES:
        router.add_api_route(path, _endpoint(path), methods=["GET", "HEAD"], name=path)
    return router


def _endpoint(path: str) -> Callable[[], Awaitable[Response]]:
    async def serve() -> Response:
        return Response(_content(path), headers=HEADERS, media_type=FILES[path][2])

    return serve


@functools.cache
def _content(path: str) -> bytes:
    package, name, _ = FILES[path]
    return (resources.files(package) / name).read_bytes()
