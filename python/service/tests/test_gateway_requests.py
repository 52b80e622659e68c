"""What HTTP brings becomes the request that gRPC would have had, or is refused with field, value and rule."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_kit import SERVICE, Doors, client, compiled, doors, message, reason, violations
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.v1.tasks_pb2 import TaskSubmission
from taskyard_service.errors import InvalidArgument, ViolationLike
from taskyard_service.gateway import bodies
from taskyard_service.gateway.explain import faults
from taskyard_service.gateway.filling import fill
from taskyard_service.gateway.methods import Binding, bindings_of, methods_of
from taskyard_service.gateway.printing import message_json
from taskyard_service.gateway.reading import RequestReader


@pytest.fixture
async def served() -> AsyncIterator[Doors]:
    async with doors() as made:
        yield made


@pytest.fixture
async def http(served: Doors) -> AsyncIterator[httpx.AsyncClient]:
    async with client(served) as made:
        yield made


async def asked(http: httpx.AsyncClient, query: str) -> dict[str, Any]:
    answer = await http.get(f"/api/v1/things?{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["asked"]
    return found


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("pageSize=5", "pageSize", 5),
        ("page_size=5", "pageSize", 5),
        ("tags=a&tags=b%26c", "tags", ["a", "b&c"]),
        ("tags=a+b", "tags", ["a b"]),
        ("color=COLOR_RED", "color", "COLOR_RED"),
        ("color=2", "color", "COLOR_BLUE"),
        ("colors=COLOR_RED&colors=COLOR_BLUE", "colors", ["COLOR_RED", "COLOR_BLUE"]),
        ("sinceTime=2026-01-31T12:00:00Z", "sinceTime", "2026-01-31T12:00:00Z"),
        ("maxAge=1.5s", "maxAge", "1.500s"),
        ("ready=true", "ready", True),
        ("ready=False", "ready", False),
        ("shelf.number=3&shelf.material=oak", "shelf", {"number": 3, "material": "oak"}),
        ("limit=9007199254740993", "limit", "9007199254740993"),
        ("content=AAE%3D", "content", "AAE="),
        ("weight=-0.5", "weight", -0.5),
    ],
)
async def test_query_parameters(http: httpx.AsyncClient, query: str, field: str, value: object) -> None:
    assert (await asked(http, query))[field] == value


@pytest.mark.parametrize(
    ("query", "field", "rule"),
    [
        ("pagesize=5", "pagesize", "did you mean pageSize?"),
        ("nothing.like=5", "nothing.like", "there is no such parameter"),
        ("shelf.nummer=5", "shelf.nummer", "did you mean number?"),
        ("tags.x=5", "tags.x", "there is no such parameter"),
        ("sinceTime.seconds=5", "sinceTime.seconds", "there is no such parameter"),
        ("pageSize=five", "page_size", '"five": a whole number is wanted, for example 5'),
        ("pageSize=2147483648", "page_size", "a whole number"),
        ("pageSize=", "page_size", "a whole number"),
        ("pageSize=1&pageSize=2", "pageSize", "more than once"),
        ("pageSize=1&page_size=2", "page_size", "more than once"),
        ("color=COLOR_ROT", "color", "did you mean COLOR_RED?"),
        ("sinceTime=yesterday", "since_time", '"2026-01-31T12:00:00Z"'),
        ("maxAge=5", "max_age", '"1.5s"'),
        ("ready=yes", "ready", "true or false"),
        ("shelf=3", "shelf", "name one of its fields, as in shelf.…"),
        ("labels=3", "labels", "cannot carry it whole"),
        ("content=%25", "content", "base64"),
        ("tags=%FF", "query", "percent-encoded UTF-8"),
        ("tags=a&" * 1001, "query", "more than 1000"),
    ],
)
async def test_bad_query_parameters(http: httpx.AsyncClient, query: str, field: str, rule: str) -> None:
    found = violations(await http.get(f"/api/v1/things?{query}"))
    assert list(found) == [field]
    assert rule in found[field]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ('{"thing": {"size": "x", "color": "RED", "ready": 1}}', {"thing.size", "thing.color", "thing.ready"}),
        ('{"thing": {"tags": "a"}}', {"thing.tags"}),
        ('{"thing": {"tags": [1, "b", null]}}', {"thing.tags[0]", "thing.tags[2]"}),
        ('{"thing": {"labels": {"a": 1}}}', {'thing.labels["a"]'}),
        ('{"thing": {"labels": ["a"]}}', {"thing.labels"}),
        ('{"thing": {"byNumber": {"x": {}}}}', {'thing.by_number["x"]'}),
        ('{"thing": {"byNumber": {"1": {"nummer": 1}}}}', {'thing.by_number["1"].nummer'}),
        ('{"thing": {"earlierShelves": [{}, {"number": {}}]}}', {"thing.earlier_shelves[1].number"}),
        (
            '{"thing": {"createTime": 5, "age": "5", "content": "%"}}',
            {"thing.create_time", "thing.age", "thing.content"},
        ),
        ('{"thing": {"shelf": 5}}', {"thing.shelf"}),
        ('{"thing": []}', {"thing"}),
        ('{"thing": {"create_time": null, "createTime": null}}', {"thing.create_time"}),
        ('{"things": {}}', {"things"}),
        ('{"requestId": 5}', {"request_id"}),
        ('{"thing": {"round": "a", "square": 1}}', {"body"}),
        ('{"thing": {"small": -1, "big": "1.5", "weight": "x"}}', {"thing.small", "thing.big", "thing.weight"}),
        ('{"thing": {"name": "\\ud800"}}', {"thing.name"}),
        ("[]", {"body"}),
        ("5", {"body"}),
        ("null", {"body"}),
        ('"a"', {"body"}),
        ("", None),
        ("{}", None),
        ('{"thing": null}', None),
        ('{"thing": {"size": 5, "big": "5", "weight": "NaN", "color": 1}}', None),
    ],
)
async def test_bodies(http: httpx.AsyncClient, body: str, fields: set[str] | None) -> None:
    answer = await http.post("/api/v1/things/register", content=body)
    if fields is None:
        assert answer.status_code == 200, answer.text
    else:
        assert reason(answer) == "INVALID_INPUT"
        assert violations(answer).keys() == fields


async def test_what_is_wanted_is_said_with_the_way_out(http: httpx.AsyncClient) -> None:
    body = {"thing": {"labels": {"seconds": 1}, "color": "RED", "age": "5", "byNumber": {"x": {}}, "name": True}}
    assert violations(await http.post("/api/v1/things/register", json=body)) == {
        'thing.labels["seconds"]': '1: text is wanted, as in "1"',
        "thing.color": '"RED": one of COLOR_UNSPECIFIED, COLOR_RED, COLOR_BLUE is wanted; did you mean COLOR_RED?',
        "thing.age": '"5": seconds as text, such as "1.5s", is wanted',
        'thing.by_number["x"]': '"x": as its name, a whole number is wanted, for example 5'
        " (its type holds -2147483648 to 2147483647)",
        "thing.name": 'true: text is wanted, as in "true"',
    }


@pytest.mark.parametrize(
    ("value", "example"),
    [
        ({"seconds": 1}, '"inputJson": "{\\"seconds\\": 1}"'),
        ([1, "a"], '"inputJson": "[1, \\"a\\"]"'),
        ({"text": "x" * 1_000}, '"inputJson": "{\\"seconds\\": 1}"'),
        ([0] * 1_000, '"inputJson": "[1, 2]"'),
    ],
)
def test_what_is_json_within_a_string_is_shown_so(value: object, example: str) -> None:
    for name in ("inputJson", "input_json"):
        (found,) = faults({name: value}, TaskSubmission.DESCRIPTOR)
        assert found.field == "input_json"
        assert found.description.endswith(f"text is wanted; this field is JSON within a string, as in {example}")
        assert not faults(json.loads(f"{{{example}}}"), TaskSubmission.DESCRIPTOR)


def test_a_whole_number_is_asked_for_before_what_its_type_holds() -> None:
    (found,) = faults({"priority": "as high as possible"}, TaskSubmission.DESCRIPTOR)
    assert found.description == (
        '"as high as possible": a whole number is wanted, for example 5 (its type holds -2147483648 to 2147483647)'
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"thing": {"name": "a"', "line 1, column"),
        (b"name=a&size=5", "it is no JSON"),
        (b"\xff\xfe", "byte 0 is no UTF-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"thing": {}, "thing": {}}', "twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"thing": {"inner": ' * 2_000 + b"{}" + b"}}" * 2_000, "nested too deeply"),
        (b'{"thing": {"size": ' + b"1" * 5_000 + b"}}", "it is no JSON that can be read"),
        (b'{"thing": {"weight": 1' + b"0" * 400 + b"}}", "a number is wanted"),
        (b'{"thing": {"ratio": 1e300}}', "a number is wanted"),
        (b'{"thing": {"extra": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}}", ""),
    ],
)
async def test_broken_bodies(served: Doors, http: httpx.AsyncClient, body: bytes, said: str) -> None:
    answer = await http.post("/api/v1/things/register", content=body)
    assert said in violations(answer).popitem()[1]
    assert "Traceback" not in answer.text
    assert served.log.getvalue() == ""


async def test_a_hundred_faults_are_told_with_bounds(http: httpx.AsyncClient) -> None:
    body = {"thing": {"tags": [{"x" * 10_000: 1}] * 100}}
    answer = await http.post("/api/v1/things/register", json=body)
    assert len(violations(answer)) == 20
    assert len(answer.content) < 8_000


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/json", ""])
async def test_a_body_is_json_whatever_curl_calls_it(http: httpx.AsyncClient, kind: str) -> None:
    answer = await http.put("/api/v1/things/a", content='{"requestId": "r"}', headers={"content-type": kind})
    assert answer.json()["name"] == "a"


async def test_path_and_body_agree_or_are_refused(http: httpx.AsyncClient) -> None:
    for thing in ({"name": "a"}, {"name": ""}, {}):
        answer = await http.put("/api/v1/things/a", json={"thing": thing | {"size": 5}})
        assert (answer.json()["name"], answer.json()["size"]) == ("a", "5")
    found = violations(await http.put("/api/v1/things/a", json={"thing": {"name": "b"}}))
    assert list(found) == ["thing.name"]
    assert '"b"' in found["thing.name"]
    assert '"a"' in found["thing.name"]


async def test_a_body_that_is_one_field_leaves_the_others_to_the_query(served: Doors, http: httpx.AsyncClient) -> None:
    answer = await http.patch("/api/v1/things/a?requestId=r", json={"size": "5"})
    assert answer.json()["size"] == "5"
    assert served.servicer.asked[-1].request_id == "r"
    assert (await http.patch("/api/v1/things/a")).json()["name"] == "a"
    found = violations(await http.patch("/api/v1/things/a?thing.size=7", json={"size": "5"}))
    assert list(found) == ["thing.size"]
    assert violations(await http.patch("/api/v1/things/a", json={"sise": "5"})).keys() == {"thing.sise"}


async def test_a_body_or_query_in_the_wrong_place_is_refused(http: httpx.AsyncClient) -> None:
    found = violations(await http.request("GET", "/api/v1/things", json={"pageSize": 5}))
    assert "query" in found["body"]
    found = violations(await http.put("/api/v1/things/a?size=5", json={}))
    assert "in the body" in found["size"]
    answer = await http.put("/api/v1/things/a", content=b"x", headers={"content-encoding": "gzip"})
    assert (answer.status_code, list(violations(answer))) == (415, ["Content-Encoding"])


async def test_a_body_has_a_limit(served: Doors, http: httpx.AsyncClient) -> None:
    large = b'{"requestId": "' + b"x" * (bodies.BODY_LIMIT_BYTES - 17) + b'"}'
    assert len(large) == bodies.BODY_LIMIT_BYTES
    assert (await http.post("/api/v1/things/register", content=large)).status_code == 200
    answer = await http.post("/api/v1/things/register", content=large + b" ")
    assert (answer.status_code, reason(answer)) == (413, "BODY_TOO_LARGE")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1_000_000

    answer = await http.post("/api/v1/things/register", content=chunks())
    assert (answer.status_code, reason(answer)) == (413, "BODY_TOO_LARGE")
    assert (await http.get("/api/v1/things/x")).status_code == 200


async def test_a_slow_body_is_ended(served: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", 0.05)
    async with client(served) as http:
        authorization = http.headers["authorization"]
    head = "POST /api/v1/things/register HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nContent-Length: 10\r\n"
    answer = await served.raw(f"{head.format(authorization)}Connection: close\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"BODY_TOO_SLOW" in answer


async def test_bodies_that_arrive_at_once_have_a_limit_together(served: Doors) -> None:
    room = served.gateway._room
    room.take(bodies.ROOM_BYTES - 10)
    async with client(served) as http:
        refused = await http.post("/api/v1/things/register", json={"requestId": "12345"})
        assert (refused.status_code, reason(refused)) == (429, "TOO_MUCH_AT_ONCE")
        assert refused.headers["retry-after"] == "1"
        assert (await http.post("/api/v1/things/register", content=b"{}")).status_code == 200
    assert room.taken == bodies.ROOM_BYTES - 10


def binding_of(name: str) -> Binding:
    compiled()
    pool = message("Thing").DESCRIPTOR.file.pool
    return next(b for b in bindings_of(methods_of([SERVICE], pool)) if b.method.name.endswith(f"/{name}"))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SHELF = st.builds(lambda n, m: message("Shelf", number=n, material=m), st.integers(-(2**31), 2**31 - 1), TEXT)
NUMBER = st.floats(allow_nan=False) | st.just(math.nan)
"""JSON has one NaN; a double has many, two of them of different sign."""
THING = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT, "color": st.integers(0, 2), "size": st.integers(-(2**63), 2**63 - 1), "weight": NUMBER,
        "ready": st.booleans(), "content": st.binary(max_size=5), "tags": st.lists(TEXT, max_size=3),
        "labels": st.dictionaries(TEXT, TEXT, max_size=3), "shelf": SHELF,
        "earlier_shelves": st.lists(SHELF, max_size=2), "priority": st.integers(-5, 5), "round": TEXT,
        "by_number": st.dictionaries(st.integers(-5, 5), SHELF, max_size=2), "big": st.integers(0, 2**64 - 1),
        "small": st.integers(0, 2**32 - 1), "colors": st.lists(st.integers(0, 2), max_size=3),
    },
)  # fmt: skip


@given(THING, st.booleans(), st.booleans())
@settings(deadline=None)
def test_every_message_survives_its_json(fields: dict[str, Any], own_names: bool, defaults: bool) -> None:
    wanted = message("PutThingRequest", thing=message("Thing", **fields))
    body = json_format.MessageToJson(
        wanted, preserving_proto_field_name=own_names, always_print_fields_with_no_presence=defaults
    )
    read = RequestReader(binding_of("Register")).read((), b"", body.encode())
    assert read.SerializeToString(deterministic=True) == wanted.SerializeToString(deterministic=True)


@given(
    st.dictionaries(
        st.sampled_from(
            ["name", "color", "size", "weight", "ready", "tags", "labels", "shelf", "earlierShelves", "age"]
        ),
        st.sampled_from(["a", "COLOR_RED", "5", "1.5s", 5, 2**70, -1.5, True, None, [], ["a"], [5], {}, {"a": "b"}])
        | st.sampled_from([{"a": 5}, {"number": 5}, [{"number": 5, "material": "x"}, {}], "\ud800", 10**400]),
    )
)
@settings(deadline=None)
def test_what_is_filled_quickly_is_filled_as_the_library_does(document: dict[str, Any]) -> None:
    quick = message("Thing")
    if fill(quick, document):
        assert quick == json_format.ParseDict(document, message("Thing"))


@given(THING, st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=4))
@settings(deadline=None)
def test_what_is_printed_is_what_the_library_prints_in_the_contract_s_order(fields: dict[str, Any], extra: Any) -> None:
    thing = message("Thing", **fields, ratio=0.1, inner=message("Thing", name="inner"))
    more = {"createTime": "2026-01-31T12:00:00.5Z", "age": "1.5s", "extra": {"a": extra}, "limit": "5", "anyValue": 1}
    json_format.ParseDict(more | {"mask": "aB,c"}, thing)
    printed = json.loads(message_json(thing))
    assert printed == json_format.MessageToDict(thing, always_print_fields_with_no_presence=True)
    order = [field.json_name for field in thing.DESCRIPTOR.fields]
    assert list(printed) == [name for name in order if name in printed]


def test_a_number_that_no_name_is_known_for_stays_one() -> None:
    assert json.loads(message_json(message("Thing", color=77)))["color"] == 77


NAMES = st.sampled_from(
    ["thing", "name", "size", "shelf", "tags", "labels", "createTime", "extra", "inner", "x", "color"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, JSON, max_size=3) | JSON)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_library_refuses_is_refused_and_what_is_taken_reads_as_it_does(document: Any) -> None:
    body = json.dumps(document).encode()
    reader = RequestReader(binding_of("Register"))
    try:
        canonical: Any = json_format.Parse(body.decode(), message("PutThingRequest"))
    except Exception:  # whatever it raises of a document, of the library's own or not, is its refusal
        canonical = None
    read, found = taken_or_refused(reader, body)
    assert all(each.field and each.description for each in found)
    if not found:
        assert read == canonical


def taken_or_refused(reader: RequestReader, body: bytes) -> tuple[Any, list[ViolationLike]]:
    try:
        return reader.read((), b"", body), []
    except InvalidArgument as error:
        return None, error.violations
