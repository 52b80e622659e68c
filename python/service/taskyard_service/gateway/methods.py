"""What the gateway needs to know of an RPC, read from its descriptor: its messages, and its HTTP bindings.

Derived once, when the process starts; nothing here calls anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.api import annotations_pb2
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from taskyard_service.gateway.templates import Template, read_template

WHOLE_BODY = "*"
"""As `body` of a binding: the body is the whole request."""

MessageClass: TypeAlias = Any
"""A generated message class, or one made from a descriptor: what it has is known at run time only."""


@dataclass(frozen=True, slots=True)
class Method:
    """An RPC.

    Attributes:
        name: As gRPC has it: `/taskyard.v1.TaskService/GetTask`.
        descriptor: Its descriptor.
        request: Class of its request.
        response: Class of its responses.
        streams: True when the server answers with a stream.
    """

    name: str
    descriptor: MethodDescriptor
    request: MessageClass
    response: MessageClass
    streams: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """One way in which an RPC is reached over HTTP.

    Attributes:
        method: The RPC.
        verb: HTTP method, in capitals.
        template: The path.
        body: What the request's body is: `*` the whole request, a field's name, or empty: there is none.
        response_body: Which field of the response is the answer's body; empty: the response itself.
    """

    method: Method
    verb: str
    template: Template
    body: str
    response_body: str

    @property
    def path_fields(self) -> frozenset[str]:
        """Paths of the fields that the path gives."""
        return frozenset(variable.field for variable in self.template.variables)


def methods_of(services: Iterable[str], pool: DescriptorPool) -> list[Method]:
    """Returns every RPC of the services named."""
    return [
        _method(descriptor) for service in services for descriptor in pool.FindServiceByName(service).methods
    ]  # fmt: skip


def bindings_of(methods: Iterable[Method]) -> list[Binding]:
    """Returns the bindings of what HTTP can carry: an RPC whose client sends one message and that has a path."""
    return [
        binding for method in methods if not method.descriptor.client_streaming for binding in _bindings(method)
    ]  # fmt: skip


def _method(descriptor: MethodDescriptor) -> Method:
    return Method(
        f"/{descriptor.containing_service.full_name}/{descriptor.name}",
        descriptor,
        message_factory.GetMessageClass(descriptor.input_type),
        message_factory.GetMessageClass(descriptor.output_type),
        descriptor.server_streaming,
    )


def _bindings(method: Method) -> Iterator[Binding]:
    options: Any = method.descriptor.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return
    rule = options.Extensions[annotations_pb2.http]
    for each in (rule, *rule.additional_bindings):
        kind = each.WhichOneof("pattern")
        verb, path = (each.custom.kind, each.custom.path) if kind == "custom" else (kind.upper(), getattr(each, kind))
        yield Binding(method, verb, read_template(path), each.body, each.response_body)
