"""A scratch service, compiled here, and a process' two doors to it: gRPC, and HTTP through the gateway."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
from fastapi import APIRouter
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from taskyard_service.access import Access
from taskyard_service.errors import NotFound, ResourceExhausted
from taskyard_service.gateway.app import make_app, paths_of
from taskyard_service.gateway.gateway import Gateway
from taskyard_service.gateway.openapi.comments import comments_of
from taskyard_service.gateway.openapi.document import About, make_document
from taskyard_service.gateway.protocol import Bounds
from taskyard_service.gateway.server import HttpServer
from taskyard_service.gateway.table import MethodTable
from taskyard_service.identity import Identity, Role, TokenVerifier, current_identity, sign_token
from taskyard_service.interceptors import AuthInterceptor, ErrorInterceptor
from taskyard_service.logging import make_logger
from taskyard_service.server import GrpcServer

IMPORTED = (duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
"""Named, so that they are loaded: the scratch file imports theirs."""
SECRET = "s" * 32
NOW_MS = 1_000_000_000_000
PACKAGE = "scratch.v1"
SERVICE = f"{PACKAGE}.ThingService"
PROTO = """
syntax = "proto3";
package scratch.v1;
import "google/api/annotations.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

// Things, for tests.
service ThingService {
  // Reads one thing.
  //
  // NOT_FOUND: there is none of that name.
  rpc GetThing(GetThingRequest) returns (Thing) {
    option (google.api.http) = {
      get: "/api/v1/things/{name}"
      additional_bindings {get: "/api/v1/shelves/{shelf.number}/things/{name}"}
      additional_bindings {get: "/api/v1/files/{name=**}"}
    };
  }
  // Lists things.
  rpc ListThings(ListThingsRequest) returns (ListThingsResponse) {
    option (google.api.http) = {get: "/api/v1/things"};
  }
  // Lists names alone.
  rpc ListNames(ListThingsRequest) returns (ListThingsResponse) {
    option (google.api.http) = {get: "/api/v1/names" response_body: "names"};
  }
  // Stores a thing.
  rpc PutThing(PutThingRequest) returns (Thing) {
    option (google.api.http) = {put: "/api/v1/things/{thing.name}" body: "*"};
  }
  // Stores what is in the body.
  rpc ReplaceThing(PutThingRequest) returns (Thing) {
    option (google.api.http) = {patch: "/api/v1/things/{thing.name}" body: "thing"};
  }
  // Announces.
  rpc Register(PutThingRequest) returns (Thing) {
    option (google.api.http) = {post: "/api/v1/things/register" body: "*"};
  }
  // Cancels a thing.
  rpc CancelThing(GetThingRequest) returns (Thing) {
    option (google.api.http) = {post: "/api/v1/things/{name}:cancel" body: "*"};
  }
  // Deletes a thing.
  rpc DeleteThing(GetThingRequest) returns (Thing) {
    option (google.api.http) = {delete: "/api/v1/things/{name}"};
  }
  // Sends things.
  rpc WatchThings(WatchThingsRequest) returns (stream WatchThingsResponse) {
    option (google.api.http) = {get: "/api/v1/things:watch"};
  }
  // Sends lines.
  rpc StreamLines(StreamLinesRequest) returns (stream StreamLinesResponse) {
    option (google.api.http) = {post: "/api/v1/lines" body: "*"};
  }
  // Takes a stream: over gRPC alone.
  rpc Upload(stream Thing) returns (Thing) {
    option (google.api.http) = {post: "/api/v1/things:upload" body: "*"};
  }
  // Has no path.
  rpc Hidden(GetThingRequest) returns (Thing);
}

// How a thing is.
enum Color {
  // Not said.
  COLOR_UNSPECIFIED = 0;
  // Like blood.
  COLOR_RED = 1;
  // Like the sea.
  COLOR_BLUE = 2;
}
// Where a thing stands.
message Shelf {
  // Its number.
  int32 number = 1;
  // What it is made of.
  string material = 2;
}
// A thing.
message Thing {
  // Its name.
  string name = 1;
  // Its colour.
  Color color = 2;
  // How large it is.
  int64 size = 3;
  double weight = 4;
  bool ready = 5;
  bytes content = 6;
  repeated string tags = 7;
  map<string, string> labels = 8;
  // Where it stands.
  Shelf shelf = 9;
  repeated Shelf earlier_shelves = 10;
  google.protobuf.Timestamp create_time = 11;
  google.protobuf.Duration age = 12;
  google.protobuf.Struct extra = 13;
  google.protobuf.Value any_value = 14;
  google.protobuf.Int64Value limit = 15;
  google.protobuf.FieldMask mask = 16;
  optional int32 priority = 17;
  oneof form {
    string round = 18;
    int32 square = 19;
  }
  map<int32, Shelf> by_number = 20;
  uint64 big = 21;
  float ratio = 22;
  uint32 small = 23;
  repeated Color colors = 24;
  Thing inner = 25;
}
message GetThingRequest {
  // Which one.
  string name = 1;
  Shelf shelf = 2;
  // Why.
  string reason = 3;
}
message ListThingsRequest {
  int32 page_size = 1;
  repeated string tags = 2;
  Color color = 3;
  google.protobuf.Timestamp since_time = 4;
  google.protobuf.Duration max_age = 5;
  bool ready = 6;
  Shelf shelf = 7;
  map<string, string> labels = 8;
  repeated Color colors = 9;
  google.protobuf.Int64Value limit = 10;
  bytes content = 11;
  double weight = 12;
}
message ListThingsResponse {
  ListThingsRequest asked = 1;
  repeated string names = 2;
}
message PutThingRequest {
  string request_id = 1;
  Thing thing = 2;
}
message WatchThingsRequest {
  // Which ones.
  string filter = 1;
  int64 after_revision = 2;
}
message WatchThingsResponse {
  Thing thing = 1;
  int64 revision = 2;
}
message Line {
  int32 part = 1;
  int64 line = 2;
}
message StreamLinesRequest {
  int32 after_part = 1;
  int64 after_line = 2;
  int32 count = 3;
}
message StreamLinesResponse {
  repeated Line lines = 1;
}
"""


def compiled(text: str = PROTO, name: str = "scratch/v1/things.proto") -> descriptor_pb2.FileDescriptorProto:
    """Compiles a file with its comments and makes it known; each text once."""
    return _compiled(text, name)


@functools.cache
def _compiled(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        well_known = str(resources.files("grpc_tools") / "_proto")
        includes = [f"-I{each}" for each in (folder, well_known, sysconfig.get_path("purelib"))]
        out = Path(folder, "out")
        flags = ["--include_source_info", f"--descriptor_set_out={out}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *includes, *flags, name], check=True)
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    return file


def message(type_name: str, package: str = PACKAGE, **fields: Any) -> Any:
    """Makes a message of a scratch package."""
    compiled()
    descriptor = descriptor_pool.Default().FindMessageTypeByName(f"{package}.{type_name}")
    return message_factory.GetMessageClass(descriptor)(**fields)


class Things:
    """Answers with what it was asked; raises for some names."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.watching = asyncio.Event()
        self.closed = asyncio.Event()
        self.go = asyncio.Event()

    async def GetThing(self, request: Any, context: Any) -> Any:
        self.asked.append(request)
        match request.name:
            case "missing":
                raise NotFound("THING_NOT_FOUND", "there is no thing 'missing'", metadata={"name": "missing"})
            case "full":
                raise ResourceExhausted("FULL", "no room", retry_after_s=1.2)
            case "by-hand":
                await context.abort(grpc.StatusCode.DATA_LOSS, "lost")
            case "broken":
                raise RuntimeError("the password is hunter2")
            case "who":
                who = current_identity()
                await asyncio.sleep(0)
                return message("Thing", name=f"{who.subject}/{who.tenant}/{who.role}")
        return message("Thing", name=request.name, shelf=request.shelf, round=request.reason)

    CancelThing = DeleteThing = Hidden = GetThing

    async def ListThings(self, request: Any, context: Any) -> Any:
        return message("ListThingsResponse", asked=request)

    async def ListNames(self, request: Any, context: Any) -> Any:
        return message("ListThingsResponse", names=["a", "b"])

    async def PutThing(self, request: Any, context: Any) -> Any:
        self.asked.append(request)
        return request.thing

    ReplaceThing = Register = PutThing

    async def WatchThings(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.watching.set()
        try:
            if request.filter == "refused":
                raise NotFound("GONE", "gone before the first")
            if request.filter == "silent":
                await self.go.wait()
            for revision in range(request.after_revision + 1, request.after_revision + 4):
                yield message("WatchThingsResponse", revision=revision)
            if request.filter == "fails":
                raise RuntimeError("the password is hunter2")
            if request.filter == "long":
                await asyncio.Event().wait()
            while request.filter == "endless":
                yield message("WatchThingsResponse", revision=9, thing=message("Thing", name="x" * 10_000))
        finally:
            self.closed.set()

    async def StreamLines(self, request: Any, context: Any) -> AsyncIterator[Any]:
        line = request.after_line
        for _ in range(request.count or 2):
            pairs = [message("Line", part=request.after_part or 1, line=line + n) for n in (1, 2)]
            line += 2
            yield message("StreamLinesResponse", lines=pairs)
        yield message("StreamLinesResponse")

    async def Upload(self, request_iterator: Any, context: Any) -> Any:
        return message("Thing")


def register(servicer: object, server: Any, service: str = SERVICE) -> None:
    """Does what generated code does for a service."""
    handlers = {}
    compiled()
    for method in descriptor_pool.Default().FindServiceByName(service).methods:
        kinds = ("stream" if method.client_streaming else "unary", "stream" if method.server_streaming else "unary")
        make: Callable[..., Any] = getattr(grpc, "_".join(kinds) + "_rpc_method_handler")
        handlers[method.name] = make(
            getattr(servicer, method.name),
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_registered_method_handlers(service, handlers)


def access_of(service: str = SERVICE) -> Access:
    """Lets operators call everything of a service, viewers nothing."""
    methods = descriptor_pool.Default().FindServiceByName(service).methods
    everyone = {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": frozenset(Role)}
    return {f"/{service}/{method.name}": frozenset({Role.OPERATOR}) for method in methods} | everyone


def token(role: Role = Role.OPERATOR, subject: str = "anna", tenant: str = "t") -> str:
    return sign_token(SECRET, Identity(subject, tenant, role), NOW_MS // 1_000 + 60)


def bearer(**claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {token(**claims)}"}


class Doors:
    """Both doors to one scratch service."""

    def __init__(self, servicer: Any, file: descriptor_pb2.FileDescriptorProto, service: str, bounds: Bounds) -> None:
        self.servicer = servicer
        self.log = io.StringIO()
        self.counted: list[tuple[str, str]] = []
        access = access_of(service)
        log = make_logger("t", stream=self.log)
        errors = ErrorInterceptor(log, incident_id=lambda: "i-1", count_error=self.count)
        auth = AuthInterceptor(TokenVerifier(SECRET, lambda: NOW_MS), access, count_error=self.count)
        self.grpc = GrpcServer("127.0.0.1", 0, [errors, auth], stop_grace_s=0)
        table = self.table = MethodTable([errors, auth])
        register(servicer, self.grpc.server, service)
        register(servicer, table, service)
        self.routes = [APIRouter()]
        self.gateway = Gateway(table, errors.incident, log, count_error=self.count, others=paths_of(self.routes))
        comments = comments_of([file])

        def document() -> bytes:
            return make_document(self.gateway.bindings, comments, access, About("Scratch", "1"))

        app = make_app(self.gateway, table, document, self.routes)
        self.http = HttpServer(
            "127.0.0.1", 0, app, log, on_stop=self.gateway.close, stop_grace_s=2, bounds=bounds
        )  # fmt: skip

    def count(self, method: str, code: str) -> None:
        self.counted.append((method, code))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}"

    async def raw(self, request: bytes) -> bytes:
        """Sends bytes on a connection of their own; returns all that comes until the other side closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http.port)
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def doors(
    servicer: Any = None, *, text: str = PROTO, name: str = "scratch/v1/things.proto", service: str = SERVICE,
    bounds: Bounds | None = None,
) -> AsyncIterator[Doors]:  # fmt: skip
    """Serves a scratch service over gRPC and HTTP."""
    file = compiled(text, name)
    made = Doors(servicer or Things(), file, service, bounds or Bounds())
    await made.grpc.start()
    await made.http.start()
    try:
        yield made
    finally:
        await made.grpc.stop()
        await made.http.stop()


def client(made: Doors, **claims: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=made.url, headers=bearer(**claims), trust_env=False)


def violations(answer: httpx.Response) -> dict[str, str]:
    """Returns field and sentence of every violation of a refusal."""
    assert answer.status_code in (400, 406, 415), answer.text
    (bad,) = [each for each in answer.json()["details"] if each["@type"].endswith("BadRequest")]
    return {each["field"]: each["description"] for each in bad["fieldViolations"]}


def reason(answer: httpx.Response) -> str:
    found: str = answer.json()["details"][0]["reason"]
    return found


class Event:
    """One event of a stream."""

    def __init__(self, text: str) -> None:
        lines = [line.partition(": ") for line in text.splitlines() if line and not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        self.kind = fields.get("event", "message")
        self.id = fields.get("id", "")
        self.data: Any = json.loads(fields["data"]) if "data" in fields else None
        self.retry = fields.get("retry", "")


def events(text: str) -> list[Event]:
    """Returns the events of a stream that carry data."""
    found = [Event(block) for block in text.split("\n\n") if block.strip()]
    return [event for event in found if event.data is not None]
