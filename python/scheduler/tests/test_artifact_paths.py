"""The OpenAPI document has the bytes of artifacts as they are served."""

from __future__ import annotations

import importlib
import json
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.routing import APIRoute
from google.protobuf import descriptor_pool
from openapi_spec_validator import OpenAPIV31SpecValidator

from taskyard_scheduler.services.artifact_bytes import BYTES_PATH, UPLOAD_PATH, bytes_routes
from taskyard_scheduler.services.artifact_paths import artifact_paths
from taskyard_service.access import contract_access
from taskyard_service.gateway.methods import bindings_of, methods_of
from taskyard_service.gateway.openapi.comments import contract_comments, contract_files
from taskyard_service.gateway.openapi.document import About, make_document


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    files = [
        importlib.import_module(f.name.removesuffix(".proto").replace("/", ".") + "_pb2") for f in contract_files()
    ]
    services = [service.full_name for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    bindings = bindings_of(methods_of(services, descriptor_pool.Default()))
    access = contract_access()
    made = make_document(bindings, contract_comments(), access, About("Taskyard", "1"), artifact_paths(access))
    found: dict[str, Any] = json.loads(made)
    return found


def test_the_document_with_them_is_valid_and_its_ids_are_unique(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()
    ids = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(ids) == len(set(ids))
    upload = document["paths"][UPLOAD_PATH]["put"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert upload["properties"]["artifact"]["$ref"].rpartition("/")[2] in document["components"]["schemas"]


def test_every_route_that_is_served_is_in_it_and_no_other(document: dict[str, Any]) -> None:
    routes = [route for route in bytes_routes(Mock(), Mock()).routes if isinstance(route, APIRoute)]
    served = {route.path: {method.lower() for method in route.methods or ()} for route in routes}
    assert served == {path: set(document["paths"][path]) for path in (UPLOAD_PATH, BYTES_PATH)}


def test_it_says_who_may(document: dict[str, Any]) -> None:
    assert document["paths"][UPLOAD_PATH]["put"]["x-roles"] == ["admin", "operator"]
    assert document["paths"][BYTES_PATH]["get"]["x-roles"] == ["admin", "operator", "viewer"]
