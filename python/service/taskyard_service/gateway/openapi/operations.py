"""What the document says of one binding: parameters, body, answers, who may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.rpc import status_pb2

from taskyard_service.access import Access
from taskyard_service.gateway.fields import fields_by_name, has_own_form, is_map, message_of
from taskyard_service.gateway.methods import WHOLE_BODY, Binding
from taskyard_service.gateway.openapi.comments import Comments
from taskyard_service.gateway.openapi.failures import failures
from taskyard_service.gateway.openapi.schemas import Schema, Schemas
from taskyard_service.gateway.resuming import Resumption

ERROR = {"$ref": "#/components/responses/Error"}
EVENTS = (
    "Server-Sent Events. Each event's `data` is one message in a line of JSON; `event: end` closes a stream that is"
    " over, `event: error` carries a google.rpc.Status."
)
LAST_EVENT_ID: Schema = {
    "name": "Last-Event-ID", "in": "header", "schema": {"type": "string"},
    "description": "The `id` of the last event seen: the stream goes on after it. It goes over the fields `after…`.",
}  # fmt: skip


def operation(binding: Binding, names: Sequence[str], schemas: Schemas, comments: Comments, access: Access) -> Schema:
    """Returns the operation object of a binding; `names` are those of its path's variables."""
    method = binding.method
    service = method.descriptor.containing_service
    text = comments.get(method.descriptor.full_name, "")
    summary, _, _rest = text.partition("\n\n")
    made: Schema = {
        "operationId": f"{service.name}_{method.descriptor.name}",
        "tags": [service.name],
        "summary": " ".join(summary.split()) or method.descriptor.name,
        "responses": {
            "200": _success(binding, schemas),
            **failures(text, {"application/json": {"schema": schemas.of_message(status_pb2.Status.DESCRIPTOR)}}),
            "default": ERROR,
        },
    }
    if text:
        made["description"] = text
    if parameters := [
        *_path_parameters(binding, names, schemas),
        *_query_parameters(binding, schemas),
        *_header(binding),
    ]:
        made["parameters"] = parameters
    if binding.body:
        made["requestBody"] = _body(binding, schemas)
    if roles := sorted(access.get(method.name, ())):
        made["x-roles"] = [str(role) for role in roles]
    return made


def _success(binding: Binding, schemas: Schemas) -> Schema:
    response: Descriptor = binding.method.response.DESCRIPTOR
    schema = schemas.of_message(response)
    if binding.response_body:
        schema = schemas.of_field(response.fields_by_name[binding.response_body])
    if binding.method.streams:
        return {"description": EVENTS, "content": {"text/event-stream": {"schema": schema}}}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _body(binding: Binding, schemas: Schemas) -> Schema:
    request: Descriptor = binding.method.request.DESCRIPTOR
    schema = (
        schemas.of_message(request)
        if binding.body == WHOLE_BODY
        else schemas.of_field(request.fields_by_name[binding.body])
    )
    return {"content": {"application/json": {"schema": schema}}}


def _path_parameters(binding: Binding, names: Sequence[str], schemas: Schemas) -> Iterator[Schema]:
    for name, variable in zip(names, binding.template.variables, strict=True):
        schema = schemas.of_field(field_at(binding.method.request.DESCRIPTOR, variable.field))
        described = {"description": schema.pop("description")} if "description" in schema else {}
        if schema.get("type") == "string" and "pattern" not in schema:
            schema["minLength"] = 1
        yield {"name": name, "in": "path", "required": True, "schema": schema} | described


def _query_parameters(binding: Binding, schemas: Schemas) -> Iterator[Schema]:
    if binding.body == WHOLE_BODY:
        return
    taken = binding.path_fields | {binding.body}
    for name, json_name, field in _leaves(binding.method.request.DESCRIPTOR, (), "", ""):
        if name in taken:
            continue
        schema: dict[str, Any] = schemas.of_field(field)
        described = {"description": schema.pop("description")} if "description" in schema else {}
        yield {"name": json_name, "in": "query", "schema": schema} | described


def _header(binding: Binding) -> list[Schema]:
    return [LAST_EVENT_ID] if binding.method.streams and Resumption(binding.method).possible else []


def _leaves(
    descriptor: Descriptor, above: tuple[str, ...], name: str, json_name: str
) -> Iterator[tuple[str, str, FieldDescriptor]]:
    """Yields every field that a query can carry, by its path in both namings; a message within itself only once."""
    for field in descriptor.fields:
        message = field.message_type
        if message is None or has_own_form(message):
            yield name + field.name, json_name + field.json_name, field
        elif not field.is_repeated and not is_map(field) and message.full_name not in above:
            outer = (*above, descriptor.full_name)
            yield from _leaves(message, outer, f"{name}{field.name}.", f"{json_name}{field.json_name}.")


def field_at(descriptor: Descriptor, path: str) -> FieldDescriptor:
    """Returns the field that a path such as `workflow.name` leads to."""
    *outer, last = path.split(".")
    for name in outer:
        descriptor = message_of(fields_by_name(descriptor)[name])
    return fields_by_name(descriptor)[last]
