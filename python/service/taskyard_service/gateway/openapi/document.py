"""Puts the OpenAPI 3.1 document together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from google.rpc import status_pb2

from taskyard_service.access import Access
from taskyard_service.gateway.methods import Binding
from taskyard_service.gateway.openapi.comments import Comments
from taskyard_service.gateway.openapi.operations import operation
from taskyard_service.gateway.openapi.schemas import Schema, Schemas
from taskyard_service.gateway.templates import Template

VERSION = "3.1.0"
ABOUT = """\
Made from the contract: the same calls as over gRPC, in the canonical JSON form of protobuf.

Every call needs a token: `Authorization: Bearer …`. 64-bit integers are text. Fields at their defaults are printed.
An error's body is a google.rpc.Status: `details` has a google.rpc.ErrorInfo with a `reason` for programs, and for bad
input a google.rpc.BadRequest that names each field.\
"""
STATUS_COMMENTS = {
    "google.rpc.Status": "An error.",
    "google.rpc.Status.code": "The google.rpc.Code.",
    "google.rpc.Status.message": "A sentence for people: what is wrong and what to do.",
    "google.rpc.Status.details": "google.rpc.ErrorInfo always; google.rpc.BadRequest and google.rpc.RetryInfo where"
    " they say something.",
}
"""Of the one schema that is not the contract's own."""


@dataclass(frozen=True, slots=True)
class About:
    """What the document says of itself.

    Attributes:
        title: Its title.
        version: Of the program that serves it.
    """

    title: str
    version: str


def make_document(
    bindings: Sequence[Binding],
    comments: Comments,
    access: Access,
    about: About,
    others: Mapping[str, Schema] = MappingProxyType({}),
) -> bytes:
    """Returns the document of all bindings as JSON.

    Args:
        bindings: What is served.
        comments: What describes it.
        access: Who may call what.
        about: What the document says of itself.
        others: Path items of what is not made from a binding, by path.
    """
    schemas = Schemas({**STATUS_COMMENTS, **comments})
    paths: dict[str, Schema] = {}
    shapes: dict[str, list[str]] = {}
    ways: Counter[str] = Counter()
    for binding in bindings:
        # Paths that differ in the names of their variables alone are one path, and the first one's names are its.
        names = shapes.setdefault(path_of(binding.template, None), names_of(binding.template))
        item = paths.setdefault(path_of(binding.template, names), {})
        made = item[binding.verb.lower()] = operation(binding, names, schemas, comments, access)
        ways[made["operationId"]] += 1
        if (number := ways[made["operationId"]]) > 1:  # ids are unique, and an RPC may have several paths
            made["operationId"] += f"_{number}"
    document = {
        "openapi": VERSION,
        "info": {"title": about.title, "version": about.version, "description": ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": _tags(bindings, comments),
        "paths": paths | dict(others),
        "components": _components(schemas),
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def names_of(template: Template) -> list[str]:
    """Returns what a template's variables are called in the document: `name` for `workflow.name`, without dots.

    Programs that read such documents take a dot for something else.
    """
    short = [variable.field.rpartition(".")[2] for variable in template.variables]
    if len(set(short)) == len(short):
        return short
    return [variable.field.replace(".", "_") for variable in template.variables]


def path_of(template: Template, names: Sequence[str] | None) -> str:
    """Returns a template as OpenAPI writes it, or without names what it has in common with others of its shape."""
    parts = list(template.parts)
    for number, variable in reversed(list(enumerate(template.variables))):
        parts[variable.start : variable.end] = ["{" + (names[number] if names is not None else "") + "}"]
    return "/" + "/".join(parts) + (f":{template.verb}" if template.verb else "")


def _components(schemas: Schemas) -> Schema:
    status = schemas.of_message(status_pb2.Status.DESCRIPTOR)
    return {
        "schemas": dict(sorted(schemas.made.items())),
        "responses": {
            "Error": {
                "description": "What went wrong; the HTTP status is the one of its code.",
                "content": {"application/json": {"schema": status}},
            }
        },
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
    }


def _tags(bindings: Sequence[Binding], comments: Comments) -> list[Schema]:
    services = {binding.method.descriptor.containing_service for binding in bindings}
    tags = []
    for service in sorted(services, key=lambda service: service.full_name):
        text = comments.get(service.full_name)
        tags.append({"name": service.name} | ({"description": text} if text else {}))
    return tags
