"""The OpenAPI document: valid, complete, described by the contract's comments; and the page that shows it."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_kit import Doors, client, doors, message
from google.api import annotations_pb2
from google.protobuf import descriptor_pool, json_format
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from taskyard_service.access import contract_access
from taskyard_service.gateway.methods import Binding, bindings_of, methods_of
from taskyard_service.gateway.openapi.comments import contract_comments, contract_files
from taskyard_service.gateway.openapi.document import About, make_document

FILES = [
    importlib.import_module(file.name.removesuffix(".proto").replace("/", ".") + "_pb2") for file in contract_files()
]


def contract_bindings() -> list[Binding]:
    services = [service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
    return bindings_of(methods_of(services, descriptor_pool.Default()))


@pytest.fixture(scope="module")
def contract() -> dict[str, Any]:
    made = make_document(contract_bindings(), contract_comments(), contract_access(), About("Taskyard", "1"))
    found: dict[str, Any] = json.loads(made)
    return found


@pytest.fixture
async def served() -> AsyncIterator[Doors]:
    async with doors() as made:
        yield made


@pytest.fixture
async def http(served: Doors) -> AsyncIterator[httpx.AsyncClient]:
    async with client(served) as made:
        yield made


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation
        for item in document["paths"].values()
        for operation in item.values()
    }  # fmt: skip


def test_the_contract_s_document_is_valid(contract: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(contract).validate()
    for schema in contract["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_the_scratch_document_is_valid(http: httpx.AsyncClient) -> None:
    OpenAPIV31SpecValidator((await http.get("/api/v1/openapi.json")).json()).validate()


def test_every_rpc_that_http_can_carry_is_in_it(contract: dict[str, Any]) -> None:
    methods = [
        method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
    ]
    carried = {
        f"{method.containing_service.name}_{method.name}"
        for method in methods
        if not method.client_streaming and method.GetOptions().HasExtension(annotations_pb2.http)
    }  # fmt: skip
    assert operations(contract).keys() == carried
    assert len(carried) > 25


def test_everything_is_described_and_says_who_may(contract: dict[str, Any]) -> None:
    for name, operation in operations(contract).items():
        assert operation["description"], name
        assert operation["x-roles"], name
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (name, parameter)
    for name, schema in contract["components"]["schemas"].items():
        assert schema["description"], name
        for field, each in schema.get("properties", {}).items():
            assert each["description"], (name, field)
    assert all(tag["description"] for tag in contract["tags"])


def test_paths_differ_by_more_than_the_names_of_their_variables(contract: dict[str, Any]) -> None:
    shapes = [re.sub(r"\{[^}]*\}", "{}", path) for path in contract["paths"]]
    assert len(set(shapes)) == len(shapes)
    assert contract["paths"]["/api/v1/workflows/{name}"].keys() == {"get", "put", "delete"}
    assert [path for path in contract["paths"] if "." in path] == []


def test_no_reference_leads_nowhere(contract: dict[str, Any]) -> None:
    text = json.dumps(contract)
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert wanted <= contract["components"]["schemas"].keys()


def test_the_errors_that_the_contract_lists_are_answers(contract: dict[str, Any]) -> None:
    answers = operations(contract)["TaskService_CancelTask"]["responses"]
    assert list(answers) == ["200", "400", "404", "default"]
    assert answers["404"]["description"] == "NOT_FOUND: there is none of that id."
    assert answers["400"]["description"] == "FAILED_PRECONDITION (ALREADY_ENDED): it has ended otherwise."
    submit = operations(contract)["TaskService_SubmitTasks"]["responses"]
    assert submit["429"]["description"].startswith("RESOURCE_EXHAUSTED: ")
    assert submit["400"]["description"].startswith("INVALID_ARGUMENT for the whole call")
    heartbeat = operations(contract)["WorkerService_Heartbeat"]["responses"]
    assert heartbeat["409"]["description"].startswith("ABORTED (SESSION_SUPERSEDED): ")


def test_streams_say_what_they_send_and_how_they_are_resumed(contract: dict[str, Any]) -> None:
    for name in ("TaskService_WatchTasks", "TaskService_StreamLogs", "WorkflowService_WatchRun"):
        operation = operations(contract)[name]
        assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]
        assert "Last-Event-ID" in [parameter["name"] for parameter in operation["parameters"]]


async def test_parameters_of_each_kind(http: httpx.AsyncClient) -> None:
    document = (await http.get("/api/v1/openapi.json")).json()
    listing = document["paths"]["/api/v1/things"]["get"]["parameters"]
    schemas = {parameter["name"]: parameter["schema"] for parameter in listing}
    assert schemas["tags"] == {"type": "array", "items": {"type": "string"}}
    assert schemas["color"] == {"$ref": "#/components/schemas/Color"}
    assert schemas["sinceTime"] == {"type": "string", "format": "date-time"}
    assert schemas["shelf.material"] == {"type": "string"}
    assert "labels" not in schemas
    replace = document["paths"]["/api/v1/things/{name}"]["patch"]
    assert [parameter["name"] for parameter in replace["parameters"] if parameter["in"] == "path"] == ["name"]
    assert replace["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Thing")
    assert "/api/v1/files/{name}" in document["paths"]


async def test_an_answer_fits_its_schema(http: httpx.AsyncClient) -> None:
    document = (await http.get("/api/v1/openapi.json")).json()
    thing = message(
        "Thing", name="a", color=1, size=2**60, weight=float("nan"), content=b"\0\xff", tags=["x"], labels={"a": "b"},
        shelf=message("Shelf", number=1), priority=3, round="r", big=2**63, colors=[1, 2], ratio=0.5,
    )  # fmt: skip
    json_format.ParseDict(
        {"createTime": "2026-01-31T12:00:00Z", "age": "1.5s", "extra": {"a": [1]}, "limit": "5", "anyValue": [1]}, thing
    )
    answer = await http.put(
        "/api/v1/things/a", content=json_format.MessageToJson(message("PutThingRequest", thing=thing))
    )
    schema = {"$ref": "#/components/schemas/Thing", "components": document["components"]}
    Draft202012Validator(schema).validate(answer.json())


async def test_the_page_and_what_it_loads_are_open_and_here(served: Doors) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as stranger:
        page = await stranger.get("/docs")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(loaded) == 5
        assert [each for each in loaded if not each.startswith("/docs/")] == []
        for each in loaded:
            assert (await stranger.get(each)).status_code == 200, each
        style = (await stranger.get("/docs/swagger-ui.css")).text
        assert [url for url in re.findall(r"url\(([^)]*)", style) if not url.strip("'\"").startswith("data:")] == []
        script = (await stranger.get("/docs/explorer.js")).text
        assert "http://" not in script + page.text
        assert "https://" not in script + page.text
        assert (await stranger.get("/api/v1/openapi.json")).status_code == 401
        assert "Thing" not in page.text + script
