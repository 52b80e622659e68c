"""Makes calls of the contract over HTTP from the messages that gRPC takes, as any client generator would."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
from google.protobuf import descriptor_pool, json_format
from google.protobuf.message import Message

from taskyard_service.gateway.methods import WHOLE_BODY, Binding, bindings_of, methods_of
from taskyard_service.gateway.openapi.comments import contract_files

FILES = [
    importlib.import_module(file.name.removesuffix(".proto").replace("/", ".") + "_pb2") for file in contract_files()
]
SERVICES = [service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
BINDINGS = bindings_of(methods_of(SERVICES, descriptor_pool.Default()))
UNARY = {binding.method.descriptor.name: binding for binding in BINDINGS if not binding.method.streams}


def request_of(base: str, binding: Binding, message: Message, headers: dict[str, str]) -> httpx.Request:
    """Returns the HTTP request that says what a message says."""
    path = binding.template.text
    document = json_format.MessageToDict(message)
    for variable in binding.template.variables:
        value: Any = message
        for name in variable.field.split("."):
            value = getattr(value, name)
        path = path.replace("{" + variable.field + "}", quote(str(value), safe=""))
        if binding.body != WHOLE_BODY:
            document.pop(message.DESCRIPTOR.fields_by_name[variable.field].json_name, None)
    if binding.body == WHOLE_BODY:
        return httpx.Request(binding.verb, base + path, headers=headers, json=document)
    return httpx.Request(binding.verb, base + path, headers=headers, params=list(_query(document, "")))


def _query(document: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _query(value, f"{above}{name}.")
        else:
            yield from ((above + name, each) for each in (value if isinstance(value, list) else [value]))
