"""Bad tasks at the real door: each refused with its field and a sentence, nothing half-accepted, neighbours taken."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from e2e.refusals import refused
from e2e.site import Site
from taskyard.v1 import policies_pb2 as policies
from taskyard.v1 import tasks_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT
EMOJI = "👩‍👩‍👧‍👦 ẞß 中文 \u202e"
DIRTY = ["a\0b", "a\nb", "\x07", "a\u2028b", "\x85"]


def submission(**fields: Any) -> pb.TaskSubmission:
    return pb.TaskSubmission(**{"task_type": "tell", **fields})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"task_type": ""}, "task_type"),
    ({"task_type": "*"}, "task_type"),
    ({"task_type": "x" * 201}, "task_type"),
    ({"priority": 0}, "priority"),
    ({"priority": 11}, "priority"),
    ({"priority": -(2**31)}, "priority"),
    ({"timeouts": policies.TimeoutPolicy(run_timeout=Duration(seconds=-1))}, "timeouts.run_timeout"),
    ({"timeouts": policies.TimeoutPolicy(run_timeout=Duration())}, "timeouts.run_timeout"),
    ({"timeouts": policies.TimeoutPolicy(queued_timeout=Duration(nanos=-1))}, "timeouts.queued_timeout"),
    ({"timeouts": policies.TimeoutPolicy(start_timeout=Duration(nanos=1))}, "timeouts.start_timeout"),
    ({"timeouts": policies.TimeoutPolicy(total_timeout=Duration(seconds=2**62))}, "timeouts.total_timeout"),
    ({"retry": policies.RetryPolicy(max_attempts=0)}, "retry.max_attempts"),
    ({"retry": policies.RetryPolicy(factor=float("nan"))}, "retry.factor"),
    ({"retry": policies.RetryPolicy(jitter=-0.1)}, "retry.jitter"),
    ({"retry": policies.RetryPolicy(first_delay=Duration(seconds=-5))}, "retry.first_delay"),
    ({"resources": policies.Resources(cpu_millis=-1)}, "resources.cpu_millis"),
    ({"resources": policies.Resources(gpus=-1)}, "resources.gpus"),
    ({"placement": policies.Placement(selector="=lang")}, "placement.selector"),
    ({"placement": policies.Placement(selector="((")}, "placement.selector"),
    ({"input_json": "{"}, "input_json"),
    ({"input_json": "[1]"}, "input_json"),
    ({"input_json": '{"a": NaN}'}, "input_json"),
    ({"input_json": '{"a": 1e999}'}, "input_json"),
    ({"input_json": '{"a":' * 5000 + "1" + "}" * 5000}, "input_json"),
    ({"input_json": '{"a": "\\ud800"}'}, "input_json"),
    ({"input_json": '{"a": "' + "x" * (10 * 1024 * 1024) + '"}'}, "params"),
    ({"params": {"a": "x" * (10 * 1024 * 1024)}}, "params"),
    ({"params": {"": "x"}}, 'params[""]'),
    ({"params": {"a": "x\0"}}, "params.a"),
    ({"request_id": "x" * 129}, "request_id"),
    ({"idempotency_key": "x" * 201}, "idempotency_key"),
    ({"traceparent": "00-nonsense"}, "traceparent"),
    *(({field: dirty}, field) for field in ("task_type", "request_id", "idempotency_key") for dirty in DIRTY),
]


@pytest.mark.parametrize(("fields", "field"), BAD, ids=lambda value: str(value)[:40])
async def test_a_bad_task_is_refused_alone(shared_site: Site, fields: dict[str, Any], field: str) -> None:
    door = shared_site.door(shared_site.token())
    request = pb.SubmitTasksRequest(tasks=[submission(input_json="{}"), submission(**fields), submission()])
    answer = await door.tasks.SubmitTasks(request, metadata=door.metadata)
    good, bad, also_good = answer.outcomes
    assert good.task_id
    assert also_good.task_id
    assert good.task_id != also_good.task_id
    assert not bad.task_id
    assert bad.refusal.reason == "INVALID_INPUT"
    named = {each.field.replace("'", '"'): each.description for each in bad.refusal.violations}
    assert f"tasks[1].{field}" in named
    assert all(len(sentence) > 10 and "Traceback" not in sentence for sentence in named.values())


async def test_an_atomic_call_takes_all_or_nothing(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    count = "SELECT COUNT(*) AS n FROM instances WHERE idempotency_key = 'atomic'"
    database = shared_site.database()
    request = pb.SubmitTasksRequest(tasks=[submission(idempotency_key="atomic"), submission(priority=11)], atomic=True)
    try:
        outcomes = (await door.tasks.SubmitTasks(request, metadata=door.metadata)).outcomes
        assert [bool(each.task_id) for each in outcomes] == [False, False]
        assert {each.refusal.reason for each in outcomes} == {"ATOMIC", "INVALID_INPUT"}
    finally:
        assert database.rows(count) == [{"n": 0}]
        database.close()


async def test_an_empty_call_and_one_too_long_are_refused(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    none = await refused(door.tasks.SubmitTasks(pb.SubmitTasksRequest(), metadata=door.metadata))
    assert (none.code, list(none.fields)) == (INVALID, ["tasks"])
    many = pb.SubmitTasksRequest(tasks=[submission()] * 10_001)
    assert (await refused(door.tasks.SubmitTasks(many, metadata=door.metadata))).code == INVALID


async def test_a_message_over_16_mib_is_refused_and_hurts_nobody(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    big = pb.SubmitTasksRequest(tasks=[submission(params={"a": "x" * (17 * 1024 * 1024)})])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await door.tasks.SubmitTasks(big, metadata=door.metadata)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    answer = await door.tasks.SubmitTasks(pb.SubmitTasksRequest(tasks=[submission()]), metadata=door.metadata)
    assert answer.outcomes[0].task_id


async def test_odd_but_good_text_arrives_as_it_was_sent(shared_site: Site) -> None:
    client = shared_site.client()
    value = {"emoji": EMOJI, "escaped": "\0\x01\u2028", "quotes": "'\"\\`;--", "empty": "", "nested": [{"": None}]}
    handle = await client.submit("tell", value, params={EMOJI: EMOJI, "tab": "a\tb\r\n", "control": "\x01\x1f\x7f"})
    assert await handle.result(60) == value | {EMOJI: EMOJI, "tab": "a\tb\r\n", "control": "\x01\x1f\x7f"}
    emptiness = await client.submit("tell", {}, params={"nothing": ""})
    assert await emptiness.result(60) == {"nothing": ""}
    keyed = await client.submit("tell", {}, request_id=EMOJI, idempotency_key=EMOJI)
    again = await client.submit("tell", {}, request_id=EMOJI, idempotency_key=EMOJI)
    assert (again.id, again.repeated) == (keyed.id, True)


async def test_a_large_input_within_the_limit_arrives(shared_site: Site) -> None:
    client = shared_site.client(timeout=60)
    size = 4 * 1024 * 1024 - 100
    handle = await client.submit("double", {"number": 4, "ignored": "x" * size})
    task = await handle.wait(60)  # the handler takes no such key: what matters is that it came back with an answer
    assert task.status in (pb.TASK_STATUS_SUCCESS, pb.TASK_STATUS_FAILED)
    assert json.loads((await client.get_task(handle.id)).task.input_json)["ignored"] == "x" * size


async def test_request_ids_and_keys_make_repeats_harmless(shared_site: Site) -> None:
    client = shared_site.client()
    first = await client.submit("tell", {"a": 1}, request_id="same")
    again = await client.submit("tell", {"a": 1}, request_id="same")
    assert (again.id, again.repeated) == (first.id, True)
    door = shared_site.door(shared_site.token())
    other = pb.SubmitTasksRequest(tasks=[submission(request_id="same", input_json='{"a": 2}')])
    [outcome] = (await door.tasks.SubmitTasks(other, metadata=door.metadata)).outcomes
    assert outcome.refusal.reason == "REQUEST_ID_REUSED"
    twins = pb.SubmitTasksRequest(tasks=[submission(request_id="twin"), submission(request_id="twin")])
    one, two = (await door.tasks.SubmitTasks(twins, metadata=door.metadata)).outcomes
    assert (two.task_id, two.repeated_request) == (one.task_id, True)
    keyed = await client.submit("tell", {"a": 1}, idempotency_key="k")
    other_input = await client.submit("tell", {"a": 2}, idempotency_key="k")
    assert other_input.id == keyed.id


@pytest.mark.parametrize("task_id", ["", "nonsense", "x" * 100_000, "a\0b", EMOJI, "' OR 1=1 --"])
@pytest.mark.parametrize("call", ["GetTask", "CancelTask", "RetryTask", "ExplainTask", "GetLogs"])
async def test_an_unknown_task_is_not_found(shared_site: Site, call: str, task_id: str) -> None:
    door = shared_site.door(shared_site.token())
    request = getattr(pb, f"{call}Request")(task_id=task_id)
    answer = await refused(getattr(door.tasks, call)(request, metadata=door.metadata))
    assert answer.code in (grpc.StatusCode.NOT_FOUND, INVALID), answer
    assert len(answer.message) < 1000


@pytest.mark.parametrize(
    "request_fields",
    [
        {"page_size": -1}, {"page_size": 1001}, {"page_token": "nonsense"}, {"page_token": "\0"},
        {"filter": "status =="}, {"filter": "nothing == 1"}, {"filter": "status == 'NO_SUCH'"}, {"filter": "\0"},
        {"filter": "(" * 5000}, {"order_by": "priority"}, {"filter": f"task_type == '{'x' * 100_000}"},
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_a_bad_list_call_names_its_field(shared_site: Site, request_fields: dict[str, Any]) -> None:
    door = shared_site.door(shared_site.token())
    answer = await refused(door.tasks.ListTasks(pb.ListTasksRequest(**request_fields), metadata=door.metadata))
    assert answer.code == INVALID
    assert list(answer.fields) == list(request_fields)


async def test_definitions_are_checked_like_submissions(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    for name in ["", "x" * 201, *DIRTY, " padded "]:
        definition = pb.TaskDefinition(name=name, task_type="tell")
        request = pb.CreateTaskDefinitionRequest(definition=definition)
        answer = await refused(door.tasks.CreateTaskDefinition(request, metadata=door.metadata))
        assert (answer.code, list(answer.fields)) == (INVALID, ["definition.name"]), name
    bad = pb.TaskDefinition(name="bad", task_type="tell", priority=11, input_json="[", description="x" * 10_001)
    request = pb.CreateTaskDefinitionRequest(definition=bad)
    answer = await refused(door.tasks.CreateTaskDefinition(request, metadata=door.metadata))
    assert set(answer.fields) == {"definition.priority", "definition.input_json", "definition.description"}
    unknown = pb.SubmitTasksRequest(tasks=[pb.TaskSubmission(task_name="no-such")])
    [outcome] = (await door.tasks.SubmitTasks(unknown, metadata=door.metadata)).outcomes
    assert outcome.refusal.reason == "DEFINITION_NOT_FOUND"


async def test_a_definition_lives_and_dies(shared_site: Site) -> None:
    client = shared_site.client()
    made = await client.create_definition(pb.TaskDefinition(name=EMOJI, task_type="tell", input_json='{"a":1,"b":2}'))
    assert made.number > 0
    handle = await client.trigger(EMOJI, {"b": 3})
    assert await handle.result(60) == {"a": 1, "b": 3}
    door = shared_site.door(shared_site.token())
    twice = pb.CreateTaskDefinitionRequest(definition=pb.TaskDefinition(name=EMOJI, task_type="tell"))
    answer = await refused(door.tasks.CreateTaskDefinition(twice, metadata=door.metadata))
    assert answer.code == grpc.StatusCode.ALREADY_EXISTS
    await client.delete_definition(EMOJI)
    gone = await refused(door.tasks.GetTaskDefinition(pb.GetTaskDefinitionRequest(name=EMOJI), metadata=door.metadata))
    assert gone.code == grpc.StatusCode.NOT_FOUND
