"""The gateway on a scratch service: what an annotation alone gives to an RPC, and that gRPC and HTTP say the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import pytest
from gateway_kit import PROTO, Doors, Things, bearer, client, doors, message, reason, violations
from google.protobuf import json_format
from google.rpc import status_pb2

from taskyard_service.errors import FailedPrecondition
from taskyard_service.identity import Role
from taskyard_service.status import DETAILS_KEY, HTTP_STATUS

ADDED = PROTO.replace("scratch.v1", "added.v1").replace(
    "  // Has no path.",
    """  // Polishes a thing.
  //
  // FAILED_PRECONDITION: it shines already.
  rpc PolishThing(GetThingRequest) returns (Thing) {
    option (google.api.http) = {post: "/api/v1/things/{name}:polish" body: "*"};
  }
  // Has no path.""",
)


class Polished(Things):
    async def PolishThing(self, request: Any, context: Any) -> Any:
        if request.reason:
            raise FailedPrecondition("SHINES", "it shines already", metadata={"name": request.name})
        return message("Thing", "added.v1", name=request.name)


@pytest.fixture
async def served() -> AsyncIterator[Doors]:
    async with doors() as made:
        yield made


@pytest.fixture
async def http(served: Doors) -> AsyncIterator[httpx.AsyncClient]:
    async with client(served) as made:
        yield made


async def test_an_added_rpc_has_route_documentation_and_error_mapping() -> None:
    added = doors(Polished(), text=ADDED, name="added/v1/things.proto", service="added.v1.ThingService")
    async with added as served, client(served) as http:
        answer = await http.post("/api/v1/things/lamp:polish", json={})
        assert (answer.status_code, answer.json()["name"]) == (200, "lamp")
        refused = await http.post("/api/v1/things/lamp:polish", json={"reason": "again"})
        assert (refused.status_code, reason(refused)) == (400, "SHINES")
        assert refused.json()["code"] == grpc.StatusCode.FAILED_PRECONDITION.value[0]
        operation = (await http.get("/api/v1/openapi.json")).json()["paths"]["/api/v1/things/{name}:polish"]["post"]
        assert operation["summary"] == "Polishes a thing."
        assert "FAILED_PRECONDITION: it shines already." in operation["description"]
        assert operation["operationId"] == "ThingService_PolishThing"
        assert operation["x-roles"] == ["operator"]
        assert operation["responses"]["400"]["description"] == "FAILED_PRECONDITION: it shines already."
        assert operation["responses"]["default"] == {"$ref": "#/components/responses/Error"}
        assert (await http.get("/api/v1/things/lamp:polish")).status_code == 405


async def over_grpc(served: Doors, method: str, request: Any, **claims: Any) -> tuple[Any, Any]:
    """Returns response and status, one of them None, of a call over gRPC."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{served.grpc.port}") as channel:
        call: Any = channel.unary_unary(f"/scratch.v1.ThingService/{method}", type(request).SerializeToString)
        try:
            return await call(request, metadata=tuple(bearer(**claims).items())), None
        except grpc.aio.AioRpcError as error:
            trailers: dict[str, Any] = dict(error.trailing_metadata() or ())
            return None, status_pb2.Status.FromString(trailers[DETAILS_KEY])


@pytest.mark.parametrize("name", ["x", "missing", "full", "broken", "who"])
async def test_http_answers_what_grpc_answers(served: Doors, http: httpx.AsyncClient, name: str) -> None:
    answer = await http.get(f"/api/v1/things/{name}")
    response, status = await over_grpc(served, "GetThing", message("GetThingRequest", name=name))
    if status is None:
        assert answer.status_code == 200
        assert json_format.Parse(answer.text, message("Thing")).SerializeToString() == response
    else:
        assert json_format.Parse(answer.text, status_pb2.Status()) == status
        assert answer.status_code == next(HTTP_STATUS[c] for c in grpc.StatusCode if c.value[0] == status.code)


async def test_what_nobody_expected_is_logged_and_only_its_incident_is_told(
    served: Doors, http: httpx.AsyncClient
) -> None:
    answer = await http.get("/api/v1/things/broken")
    assert (answer.status_code, reason(answer)) == (500, "INTERNAL")
    assert "i-1" in answer.text
    assert "hunter2" not in answer.text
    assert json.loads(served.log.getvalue())["exception"][0]["exc_value"] == "the password is hunter2"
    assert served.counted == [("/scratch.v1.ThingService/GetThing", "INTERNAL")]


async def test_a_handler_may_end_a_call_by_hand_and_one_that_is_not_served_says_so(
    served: Doors, http: httpx.AsyncClient
) -> None:
    answer = await http.get("/api/v1/things/by-hand")
    assert (answer.status_code, answer.json()) == (500, {"code": 15, "message": "lost", "details": []})
    del served.table._handlers["/scratch.v1.ThingService/DeleteThing"]
    answer = await http.delete("/api/v1/things/x")
    assert (answer.status_code, reason(answer)) == (501, "METHOD_NOT_SERVED")


async def test_when_to_come_back_is_a_header_too(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/v1/things/full")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")


@pytest.mark.parametrize(
    ("headers", "status", "why", "challenge"),
    [
        ({"authorization": ""}, 401, "TOKEN_INVALID", 'Bearer realm="taskyard", error="invalid_token"'),
        ({"authorization": "Bearer nope"}, 401, "TOKEN_INVALID", 'Bearer realm="taskyard", error="invalid_token"'),
        ({}, 401, "TOKEN_MISSING", 'Bearer realm="taskyard"'),
        (bearer(role=Role.VIEWER), 403, "ROLE_NOT_ALLOWED", None),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/things/x", "/api/v1/things:watch"])
async def test_who_may_not_is_refused(
    served: Doors, path: str, headers: dict[str, str], status: int, why: str, challenge: str | None
) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as stranger:
        answer = await stranger.get(path, headers=headers)
        assert (answer.status_code, reason(answer)) == (status, why)
        assert answer.headers.get("www-authenticate") == challenge
        document = await stranger.get("/api/v1/openapi.json", headers=headers)
        assert document.status_code == (200 if status == 403 else status)
    assert served.servicer.asked == []


async def test_calls_at_once_do_not_mix_who_calls(served: Doors) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as anyone:

        async def call(n: int) -> str:
            headers = bearer(subject=f"p{n}", tenant=f"t{n}")
            found: str = (await anyone.get("/api/v1/things/who", headers=headers)).json()["name"]
            return found

        answers = await asyncio.gather(*(call(n) for n in range(60)))
    assert answers == [f"p{n}/t{n}/operator" for n in range(60)]


async def test_a_connection_does_not_remember_who_called_before(served: Doors) -> None:
    request = "GET /api/v1/things/who HTTP/1.1\r\nHost: x\r\n{}Connection: {}\r\n\r\n"
    good = request.format(f"Authorization: {bearer()['authorization']}\r\n", "keep-alive")
    answer = await served.raw((good + request.format("", "close")).encode())
    assert b"anna/t/operator" in answer
    assert b"TOKEN_MISSING" in answer


async def test_a_stranger_s_body_is_not_read(served: Doors) -> None:
    head = (
        b"POST /api/v1/things/register HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http.port)
    writer.write(head)
    assert b" 401 " in await reader.readline()
    writer.close()


async def test_what_has_no_path_or_takes_a_stream_is_not_there(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/v1/things:upload", json={})
    assert (answer.status_code, reason(answer)) == (404, "PATH_NOT_FOUND")
    paths = (await http.get("/api/v1/openapi.json")).json()["paths"]
    assert [path for path in paths if "upload" in path.lower() or "hidden" in path.lower()] == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1/things/a%2Fb", "a/b"),
        ("/api/v1/things/a%3Acancel", "a:cancel"),
        ("/api/v1/things/a:b", "a:b"),
        ("/api/v1/things/%E4%BB%BB%E5%8A%A1", "任务"),
        ("/api/v1/things/..", ".."),
        ("/api/v1/things/%2e%2e%2fetc", "../etc"),
        ("/api/v1/things/a%20b%0Ac%00", "a b\nc\0"),
        ("/api/v1/things/register", "register"),
        ("/api/v1/files/a/b/c", "a/b/c"),
        ("/api/v1/things/100%25", "100%"),
        ("/api/v1/things/a+b", "a+b"),
    ],
)
async def test_a_name_may_be_anything_once_it_is_encoded(served: Doors, path: str, name: str) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['authorization']}\r\nConnection: close\r\n\r\n"
    )
    answer = await served.raw(request.encode())
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["name"] == name


@pytest.mark.parametrize("path", ["/api/v1/things/%FF", "/api/v1/things/%zz", "/api/v1/things/a%"])
async def test_a_path_that_cannot_be_decoded_is_refused(served: Doors, path: str) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['authorization']}\r\nConnection: close\r\n\r\n"
    )
    answer = await served.raw(request.encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"percent-encoded UTF-8" in answer


@pytest.mark.parametrize(
    "path", ["/api/v1/things/", "/api/v1/things//x", "/api/v1/thing/x", "/api/v2/things", "//", "/"]
)
async def test_what_is_not_there_says_what_is(served: Doors, http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(served.url + path)
    assert (answer.status_code, reason(answer)) == (404, "PATH_NOT_FOUND")
    assert "/api/v1/openapi.json" in answer.json()["message"]


async def test_a_method_that_is_not_taken_says_which_are(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/v1/things/x")
    assert (answer.status_code, reason(answer)) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    answer = await http.get("/api/v1/things/x:cancel")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "%3A" in answer.json()["message"]


async def test_head_is_a_get_without_its_body(http: httpx.AsyncClient) -> None:
    got, asked = await http.get("/api/v1/things/x"), await http.head("/api/v1/things/x")
    assert asked.status_code == 200
    assert asked.content == b""
    assert asked.headers["content-length"] == got.headers["content-length"]
    assert (await http.head("/api/v1/things:watch")).status_code == 405


async def test_additional_bindings_and_a_response_s_field(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/v1/shelves/7/things/x")
    assert answer.json()["shelf"] == {"number": 7, "material": ""}
    assert violations(await http.get("/api/v1/shelves/seven/things/x")).keys() == {"shelf.number"}
    assert (await http.get("/api/v1/names")).json() == ["a", "b"]


async def test_fields_at_their_defaults_are_printed(http: httpx.AsyncClient) -> None:
    thing = (await http.get("/api/v1/things/x")).json()
    assert (thing["size"], thing["color"], thing["tags"], thing["labels"]) == ("0", "COLOR_UNSPECIFIED", [], {})
    assert "priority" not in thing
    assert "inner" not in thing
