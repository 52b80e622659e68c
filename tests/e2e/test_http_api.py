"""HTTP/JSON against a real scheduler: every call answers what gRPC answers, and whole stories can be told in it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from google.protobuf import json_format
from google.rpc import status_pb2
from servers import free_port

from e2e.http_calls import BINDINGS, UNARY, request_of
from e2e.process import until
from e2e.site import Door, Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as workflows
from taskyard_service.identity import Role
from taskyard_service.status import DETAILS_KEY, HTTP_STATUS

STUBS = {
    "TaskService": "tasks", "WorkflowService": "workflows", "FleetService": "fleet", "WorkerService": "workers",
    "ArtifactService": "artifacts",
}  # fmt: skip
CHANGING = {"last_seen_time", "cpu_usage", "memory_mb", "tasks_live", "tasks_queued", "tasks_in_flight", "revision"}
"""What may differ between two looks at the same thing."""


class Http:
    """A client of one site's HTTP port."""

    def __init__(self, site: Site, role: Role = Role.OPERATOR) -> None:
        self.base = f"http://127.0.0.1:{site.http_port}"
        self.headers = {"authorization": f"Bearer {site.token(role)}"}
        self.client = httpx.AsyncClient(base_url=self.base, headers=self.headers, trust_env=False, timeout=60)

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Makes a call that must be answered well; returns its JSON."""
        answer = await self.client.request(method, path, json=body, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def events(self, method: str, path: str, body: Any = None, **headers: str) -> list[tuple[str, str, Any]]:
        """Returns id, kind and data of every event of a stream that ends."""
        answer = await self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        found = []
        for block in answer.text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
            if "data" in fields:
                found.append((fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"])))
        return found


@pytest.fixture
async def http(shared_site: Site) -> AsyncIterator[Http]:
    made = Http(shared_site)
    yield made
    await made.client.aclose()


@pytest.fixture
async def admin(shared_site: Site) -> AsyncIterator[Http]:
    made = Http(shared_site, Role.ADMIN)
    yield made
    await made.client.aclose()


async def over_grpc(door: Door, name: str, request: Any) -> Any:
    """Returns the response, or the status that the call failed with."""
    stub = getattr(door, STUBS[UNARY[name].method.descriptor.containing_service.name])
    try:
        return await getattr(stub, name)(request, metadata=door.metadata)
    except grpc.aio.AioRpcError as error:
        trailers: dict[str, Any] = dict(error.trailing_metadata() or ())
        return status_pb2.Status.FromString(trailers[DETAILS_KEY])


async def over_http(http: Http, name: str, request: Any) -> Any:
    """Returns the same over HTTP, where the HTTP code must be the status' code."""
    answer = await http.client.send(request_of(http.base, UNARY[name], request, http.headers))
    if answer.status_code == 200:
        return json_format.Parse(answer.text, UNARY[name].method.response())
    status = json_format.Parse(answer.text, status_pb2.Status())
    assert answer.status_code == next(HTTP_STATUS[code] for code in grpc.StatusCode if code.value[0] == status.code)
    return status


def steady(message: Any) -> Any:
    """Returns what does not differ between two looks at the same thing."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(each) for name, each in value.items() if name not in CHANGING}
        return [without(each) for each in value] if isinstance(value, list) else value

    return without(json_format.MessageToDict(message, preserving_proto_field_name=True))


NOWHERE = {"task_id": "no-such/task:x", "run_id": "no such run", "name": "任务", "worker_id": "no%such?worker#"}


def nowhere(name: str) -> Any:
    """Returns a request of an RPC whose path names nothing that is there."""
    made: Any = UNARY[name].method.request()
    for variable in UNARY[name].template.variables:
        *outer, last = variable.field.split(".")
        parent = made
        for part in outer:
            parent = getattr(parent, part)
        setattr(parent, last, NOWHERE.get(last, "no/such:thing") if isinstance(getattr(parent, last), str) else 7)
    for field, value in NOWHERE.items():
        if field in made.DESCRIPTOR.fields_by_name:
            setattr(made, field, value)
    return made


def strange(name: str) -> list[Any]:
    """Returns requests of an RPC that name nothing that is there, or break its rules."""
    fields = UNARY[name].method.request.DESCRIPTOR.fields_by_name
    wrong: list[dict[str, Any]] = [{}]
    if "page_size" in fields:
        wrong += [{"page_size": -1}, {"page_token": "?"}]
    if "filter" in fields:
        wrong.append({"filter": "no ==="})
    match name:
        case "ApplyWorkflow":
            wrong.append({"workflow": workflows.Workflow(name="none", steps=[workflows.WorkflowStep(id="!")])})
        case "SubmitTasks":
            wrong.append({"tasks": [tasks.TaskSubmission()], "atomic": True})
    made = []
    for values in wrong:
        request = nowhere(name)
        request.MergeFrom(UNARY[name].method.request(**values))
        made.append(request)
    return made


@pytest.mark.parametrize("name", UNARY)
async def test_every_call_is_refused_over_http_as_over_grpc(admin: Http, shared_site: Site, name: str) -> None:
    door = shared_site.door(shared_site.token(Role.ADMIN))
    for request in strange(name):
        assert steady(await over_http(admin, name, request)) == steady(await over_grpc(door, name, request)), request


async def test_every_reading_call_answers_over_http_as_over_grpc(admin: Http, shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("talk", {"lines": 3}, request_id="read-over-http")
    await handle.result(60)
    await client.create_definition(tasks.TaskDefinition(name="read/over:http", task_type="tell"))
    step = workflows.WorkflowStep(id="a", task_type="double", params={"number": "4"})
    door = shared_site.door(shared_site.token(Role.ADMIN))
    applied = workflows.ApplyWorkflowRequest(workflow=workflows.Workflow(name="read over http", steps=[step]))
    await door.workflows.ApplyWorkflow(applied, metadata=door.metadata)
    run = await client.start_run("read over http")
    await run.result(60)
    ids = {"task_id": handle.id, "run_id": run.id, "worker_id": "shared-worker"}
    names = {"GetTaskDefinition": "read/over:http", "GetWorkflow": "read over http"}
    read = [
        name for name, each in UNARY.items() if each.verb == "GET" and (name in names or each.path_fields <= {*ids})
    ]
    assert len(read) > 10
    for name in read:
        make = UNARY[name].method.request
        fields = make.DESCRIPTOR.fields_by_name
        request = make(**{field: id for field, id in ids.items() if field in fields})
        if name in names:
            request.name = names[name]
        if "page_size" in fields:
            request.page_size = 7
        answer = await over_http(admin, name, request)
        assert not isinstance(answer, status_pb2.Status), (name, answer)
        assert steady(answer) == steady(await over_grpc(door, name, request)), name
    listed = await admin.call("GET", "/api/v1/tasks", filter='task_type == "talk" && run_id == ""', pageSize=1)
    assert [task["taskType"] for task in listed["tasks"]] == ["talk"]


async def test_a_task_s_life_in_http(http: Http) -> None:
    body = {"tasks": [{"taskType": "double", "inputJson": '{"number": 21}', "requestId": "http-life"}]}
    (outcome,) = (await http.call("POST", "/api/v1/tasks:submit", body))["outcomes"]
    (again,) = (await http.call("POST", "/api/v1/tasks:submit", body))["outcomes"]
    assert (again["taskId"], again["repeatedRequest"]) == (outcome["taskId"], True)
    watched = await http.events("POST", "/api/v1/tasks:watch", {"taskIds": [outcome["taskId"]]})
    assert watched[-1][1] == "end"
    last = watched[-2][2]["tasks"][-1]
    assert (last["status"], json.loads(last["outputJson"])) == ("TASK_STATUS_SUCCESS", {"double": 42})
    task = (await http.call("GET", f"/api/v1/tasks/{outcome['taskId']}"))["task"]
    assert task["status"] == "TASK_STATUS_SUCCESS"
    refused = await http.client.post(f"/api/v1/tasks/{outcome['taskId']}:retry")
    assert refused.status_code == 400
    assert refused.json()["details"][0]["reason"] == "ALREADY_SUCCEEDED"
    waiting = {"tasks": [{"taskType": "nobody-has-it"}]}
    (outcome,) = (await http.call("POST", "/api/v1/tasks:submit", waiting))["outcomes"]
    explained = await http.call("GET", f"/api/v1/tasks/{outcome['taskId']}:explain")
    assert explained["reasons"][0]["code"] == "NO_WORKER_FOR_TYPE"
    cancelled = await http.call("POST", f"/api/v1/tasks/{outcome['taskId']}:cancel", {"reason": "enough"})
    assert cancelled["status"] == "TASK_STATUS_CANCELLED"


async def test_a_definition_whose_name_needs_encoding(http: Http) -> None:
    name, path = "nightly/etl:eu 1", "/api/v1/task-definitions/nightly%2Fetl%3Aeu%201"
    definition = {"name": name, "taskType": "tell", "params": {"region": "eu"}}
    await http.call("POST", "/api/v1/task-definitions", {"definition": definition})
    assert (await http.call("GET", path))["definition"]["name"] == name
    await http.call("PUT", path, {"definition": {"taskType": "tell", "params": {"region": "us"}}})
    triggered = await http.call("POST", f"{path}:trigger", {})

    async def ended() -> Any:
        task = (await http.call("GET", f"/api/v1/tasks/{triggered['taskId']}"))["task"]
        return task if task["status"] == "TASK_STATUS_SUCCESS" else None

    assert json.loads((await until(ended))["outputJson"])["region"] == "us"
    await http.call("DELETE", path)
    assert (await http.client.get(path)).status_code == 404


async def test_a_workflow_s_life_in_http(http: Http) -> None:
    steps = [
        {"id": "a", "taskType": "double", "params": {"number": "${inputs.n}"}},
        {"id": "b", "taskType": "double", "needs": ["a"], "inputJson": '{"number": "${steps.a.output.double}"}'},
    ]
    workflow = {"steps": steps, "inputs": [{"name": "n", "defaultJson": "1"}]}
    applied = await http.call("PUT", "/api/v1/workflows/in-http", {"workflow": workflow})
    assert (applied["changed"], applied["workflow"]["version"]) == (True, 1)
    started = await http.call(
        "POST", "/api/v1/runs:start", {"runs": [{"workflow": "in-http", "inputsJson": '{"n": 3}'}]}
    )
    run_id = started["outcomes"][0]["runId"]
    watched = await http.events("GET", f"/api/v1/runs/{run_id}:watch")
    assert watched[-1][1] == "end"
    assert watched[-2][2]["run"]["state"] == "RUN_STATE_SUCCEEDED"
    middle = watched[0][0]
    resumed = await http.events("GET", f"/api/v1/runs/{run_id}:watch", **{"Last-Event-ID": middle})
    assert all(int(id) >= int(middle) for id, kind, _ in resumed if kind == "message")  # equal: it had ended by then
    last = watched[-2][0]
    (_, _, told), _ = await http.events("GET", f"/api/v1/runs/{run_id}:watch", **{"Last-Event-ID": last})
    assert (told["run"]["state"], told["steps"], told["revision"]) == ("RUN_STATE_SUCCEEDED", [], last)
    assert (await http.call("GET", f"/api/v1/runs/{run_id}"))["run"]["stepsEnded"] == 2


async def test_logs_over_a_dropped_connection_have_no_gap_and_no_repeat(http: Http, shared_site: Site) -> None:
    gate = shared_site.folder / "gate"
    handle = await shared_site.client().submit("talk_until", {"gate": str(gate)})
    path = f"/api/v1/tasks/{handle.id}/logs:stream"
    seen: list[str] = []
    last = ""
    async with http.client.stream("GET", path) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                last = line[4:]
            if line.startswith("data: "):
                seen += [each["content"]["text"] for each in json.loads(line[6:])["lines"]]
                break
    gate.touch()
    for _, kind, data in await http.events("GET", path, **{"Last-Event-ID": last}):
        if kind == "message":
            seen += [each["content"]["text"] for each in data["lines"]]
    assert seen == ["before", "after"]
    assert last == "1.0"


async def test_roles_and_tenants_hold_over_http(shared_site: Site, http: Http) -> None:
    viewer, worker = Http(shared_site, Role.VIEWER), Http(shared_site, Role.WORKER)
    try:
        assert (await viewer.client.get("/api/v1/tasks")).status_code == 200
        refused = await viewer.client.post("/api/v1/tasks:submit", json={"tasks": [{"taskType": "tell"}]})
        assert (refused.status_code, refused.json()["details"][0]["reason"]) == (403, "ROLE_NOT_ALLOWED")
        assert (await worker.client.get("/api/v1/tasks")).status_code == 403
        beat = await worker.client.post("/api/v1/workers/heartbeat", json={"workerId": "no-such-worker"})
        assert beat.status_code == 404
        (outcome,) = (await http.call("POST", "/api/v1/tasks:submit", {"tasks": [{"taskType": "tell"}]}))["outcomes"]
        theirs = {"authorization": f"Bearer {shared_site.token(tenant='other')}"}
        assert (await http.client.get(f"/api/v1/tasks/{outcome['taskId']}", headers=theirs)).status_code == 404
        assert (await http.client.get("/api/v1/openapi.json", headers={"authorization": ""})).status_code == 401
        assert (await worker.client.get("/api/v1/openapi.json")).status_code == 200
    finally:
        await viewer.client.aclose()
        await worker.client.aclose()


async def test_a_worker_s_calls_over_http(admin: Http) -> None:
    registration = {"workerId": "over-http", "capabilities": ["nothing"], "maxConcurrency": 1}
    registered = await admin.call("POST", "/api/v1/workers/register", registration)
    assert registered["accepted"] is True, registered
    session = {"workerId": "over-http", "sessionEpoch": registered["sessionEpoch"]}
    assert "ok" in await admin.call("POST", "/api/v1/workers/heartbeat", session)
    await admin.call("POST", "/api/v1/workers/deregister", session)


async def test_streams_end_with_the_scheduler(site: Site) -> None:
    process = await site.start_scheduler()
    http = Http(site)
    (outcome,) = (await http.call("POST", "/api/v1/tasks:submit", {"tasks": [{"taskType": "tell"}]}))["outcomes"]
    lines = []
    async with http.client.stream("POST", "/api/v1/tasks:watch", json={"taskIds": [outcome["taskId"]]}) as answer:
        async for line in answer.aiter_lines():
            lines.append(line)
            if line.startswith("id: "):
                process.signal(signal.SIGTERM)
    assert await process.wait() == 0
    last = lines[lines.index("event: error") + 1]
    assert json.loads(last.removeprefix("data: "))["code"] == grpc.StatusCode.UNAVAILABLE.value[0]
    assert [e for e in process.events() if e.get("level") in ("error", "warning")] == []
    await http.client.aclose()


async def test_watchers_that_leave_without_a_word_are_forgotten(shared_site: Site, http: Http) -> None:
    (outcome,) = (await http.call("POST", "/api/v1/tasks:submit", {"tasks": [{"taskType": "nobody-has-it"}]}))[
        "outcomes"
    ]
    body = json.dumps({"taskIds": [outcome["taskId"]]}).encode()
    head = (
        f"POST /api/v1/tasks:watch HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['authorization']}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    writers = []
    for _ in range(100):
        reader, writer = await asyncio.open_connection("127.0.0.1", shared_site.http_port)
        writer.write(head.encode() + body)
        await reader.readuntil(b"id: ")
        writers.append(writer)

    def watchers(count: int) -> bool:
        return f"\nworkflow_watchers {count}.0\n" in shared_site.http("/metrics").body

    await until(lambda: watchers(100), what="100 watchers")
    for writer in writers:
        writer.transport.abort()
    await until(lambda: watchers(0), what="no watcher")
    await http.call("POST", f"/api/v1/tasks/{outcome['taskId']}:cancel", {})


async def test_a_scheduler_that_follows_says_so_and_has_the_document(maria_site: Site) -> None:
    await maria_site.start_scheduler("leader")
    port = free_port()
    maria_site.launch_scheduler("follower", port=free_port(), http_port=port)
    await until(lambda: maria_site.http("/readyz", port).status == 503, what="the follower to be there")
    headers = {"authorization": f"Bearer {maria_site.token()}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False) as follower:
        answers = [
            await follower.get("/api/v1/tasks"),
            await follower.post("/api/v1/tasks:submit", json={"tasks": [{"taskType": "tell"}]}),
            await follower.post("/api/v1/tasks:watch", json={"taskIds": ["x"]}),
        ]
        for answer in answers:
            assert (answer.status_code, answer.json()["details"][0]["reason"]) == (503, "NOT_LEADER")
        assert (await follower.get("/api/v1/openapi.json")).status_code == 200
        assert (await follower.get("/docs")).status_code == 200


def test_a_client_can_say_everything_that_the_contract_has() -> None:
    assert len(BINDINGS) > 25
    assert {binding.template.text.split("/")[1:3] == ["api", "v1"] for binding in BINDINGS} == {True}
