"""Submissions at the door: rules, paths, defaults of definitions, digests, bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from door_messages import fields_of
from google.protobuf.duration_pb2 import Duration

from taskyard.v1 import policies_pb2, tasks_pb2
from taskyard_core.engine.events import NewTask, Refused
from taskyard_core.policy_codec import load_policy
from taskyard_core.records import Policy
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.tasks import read_tasks, read_trigger

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def submission(**given: Any) -> tasks_pb2.TaskSubmission:
    return tasks_pb2.TaskSubmission(**{"task_type": "noop", **given})


def read_one(item: tasks_pb2.TaskSubmission, *definitions: tasks_pb2.TaskDefinition) -> NewTask | Refused:
    request = tasks_pb2.SubmitTasksRequest(tasks=[item])
    [read] = read_tasks(request, {each.name: each for each in definitions})
    return read


def accepted(item: tasks_pb2.TaskSubmission, *definitions: tasks_pb2.TaskDefinition) -> NewTask:
    read = read_one(item, *definitions)
    assert isinstance(read, NewTask), read
    return read


def ms(value: int) -> Duration:
    return Duration(seconds=value // 1000, nanos=value % 1000 * 1_000_000)


def test_a_plain_task_gets_the_defaults() -> None:
    assert accepted(submission()) == NewTask("noop", Policy())


def test_plain_tasks_share_one_policy() -> None:
    assert accepted(submission()).policy is accepted(submission(params={"a": "1"})).policy


def test_everything_that_an_item_says_arrives() -> None:
    item = submission(
        request_id="r-1", priority=1, params={"b": "2", "a": "ünicode 🙂"}, input_json='{"n": 1}',
        idempotency_key="once", exclusive=True, traceparent=TRACE,
        timeouts=policies_pb2.TimeoutPolicy(
            queued_timeout=ms(1), start_timeout=ms(100), run_timeout=ms(1_500), total_timeout=ms(60_000)
        ),
        retry=policies_pb2.RetryPolicy(
            max_attempts=1, first_delay=ms(0), factor=1.5, max_delay=ms(86_400_000), jitter=0
        ),
        resources=policies_pb2.Resources(cpu_millis=500, memory_mb=64, gpus=1),
        placement=policies_pb2.Placement(
            selector="b=2, a = 1", affinity="zone in (y,x)", spread="zone", worker_id="w1"
        ),
    )  # fmt: skip
    new = accepted(item)
    assert (new.request_id, new.priority, new.idempotency_key, new.traceparent) == ("r-1", 1, "once", TRACE)
    assert new.params_json == '{"a":"ünicode 🙂","b":"2"}'
    assert new.input_json == '{"n": 1}'
    policy = new.policy
    assert (policy.queued_ms, policy.start_ms, policy.run_ms, policy.total_ms) == (1, 100, 1_500, 60_000)
    retry = policy.retry
    assert (retry.max_attempts, retry.first_delay_ms, retry.factor, retry.max_delay_ms, retry.jitter) == (
        1, 0, 1.5, 86_400_000, 0,
    )  # fmt: skip
    assert (policy.cpu_millis, policy.memory_mb, policy.gpus) == (500, 64, 1)
    assert (policy.selector, policy.affinity, policy.spread) == ("a=1,b=2", "zone in (x,y)", "zone")
    assert policy.worker == "w1"
    assert policy.exclusive
    assert load_policy(new.policy_json) == policy
    assert new.request_hash is not None
    assert len(new.request_hash) == 16


RULES: list[tuple[str, Callable[[tasks_pb2.TaskSubmission], object], str]] = [
    ("priority", lambda i: setattr(i, "priority", 0), "1 to 10"),
    ("priority", lambda i: setattr(i, "priority", 11), "11 is outside"),
    ("task_type", lambda i: setattr(i, "task_type", ""), "task_name"),
    ("task_type", lambda i: setattr(i, "task_type", "*"), "any type"),
    ("task_type", lambda i: setattr(i, "task_type", "a\0b"), "U+0000"),
    ("task_type", lambda i: setattr(i, "task_type", "a\tb"), "U+0009"),
    ("task_type", lambda i: setattr(i, "task_type", "x" * 201), "200"),
    ("task_type", lambda i: setattr(i, "task_type", "end "), "white space"),
    ("request_id", lambda i: setattr(i, "request_id", "x" * 129), "128"),
    ("request_id", lambda i: setattr(i, "request_id", "a\nb"), "U+000A"),
    ("idempotency_key", lambda i: setattr(i, "idempotency_key", "x" * 201), "200"),
    ("idempotency_key", lambda i: setattr(i, "idempotency_key", "k\0"), "U+0000"),
    ("traceparent", lambda i: setattr(i, "traceparent", "00-abc"), "W3C"),
    ("traceparent", lambda i: setattr(i, "traceparent", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"), "W3C"),
    ("traceparent", lambda i: setattr(i, "traceparent", TRACE.upper()), "W3C"),
    ("input_json", lambda i: setattr(i, "input_json", "[1]"), "no object"),
    ("input_json", lambda i: setattr(i, "input_json", "{nope}"), "not JSON"),
    ("input_json", lambda i: setattr(i, "input_json", '{"a": NaN}'), "NaN"),
    ("params.a", lambda i: i.params.update({"a": "x\0"}), "U+0000"),
    ("params['a b\\x00']", lambda i: i.params.update({"a b\0": "x"}), "U+0000"),
    ("params['']", lambda i: i.params.update({"": "x"}), "empty name"),
    ("params", lambda i: i.params.update({"a": "x" * (4 * 1024 * 1024)}), "4,194,304"),
    ("params", lambda i: setattr(i, "input_json", json.dumps({"a": "x" * 10_000_000})), "4,194,304"),
    ("timeouts.run_timeout", lambda i: i.timeouts.run_timeout.CopyFrom(ms(0)), "1 ms to 30 days"),
    ("timeouts.run_timeout", lambda i: setattr(i.timeouts.run_timeout, "seconds", -5), "-5 s is outside"),
    ("timeouts.run_timeout", lambda i: setattr(i.timeouts.run_timeout, "seconds", 8_553_600), "8553600 s is outside"),
    ("timeouts.queued_timeout", lambda i: setattr(i.timeouts.queued_timeout, "nanos", 999_999), "1 ms to"),
    ("timeouts.queued_timeout", lambda i: setattr(i.timeouts.queued_timeout, "nanos", 2_000_000_000), "1 ms to"),
    ("timeouts.start_timeout", lambda i: i.timeouts.start_timeout.CopyFrom(ms(99)), "100 ms to 1 hour"),
    ("timeouts.start_timeout", lambda i: i.timeouts.start_timeout.CopyFrom(ms(3_600_001)), "1 hour"),
    ("timeouts.total_timeout", lambda i: setattr(i.timeouts.total_timeout, "seconds", 2_592_001), "30 days"),
    ("timeouts.total_timeout", lambda i: setattr(i.timeouts.total_timeout, "seconds", 2**62), "30 days"),
    ("retry.max_attempts", lambda i: setattr(i.retry, "max_attempts", 0), "1 to 100"),
    ("retry.max_attempts", lambda i: setattr(i.retry, "max_attempts", 101), "1 to 100"),
    ("retry.factor", lambda i: setattr(i.retry, "factor", 0.5), "1 to 100"),
    ("retry.factor", lambda i: setattr(i.retry, "factor", float("nan")), "nan"),
    ("retry.jitter", lambda i: setattr(i.retry, "jitter", 1.1), "0 to 1"),
    ("retry.first_delay", lambda i: i.retry.first_delay.CopyFrom(ms(86_400_001)), "1 day"),
    ("retry.max_delay", lambda i: i.retry.max_delay.CopyFrom(ms(999)), "first_delay (1 s)"),
    ("resources.cpu_millis", lambda i: setattr(i.resources, "cpu_millis", -1), "0 to 1,000,000"),
    ("resources.memory_mb", lambda i: setattr(i.resources, "memory_mb", 100_000_001), "100,000,000"),
    ("resources.gpus", lambda i: setattr(i.resources, "gpus", 1_001), "1,000"),
    ("placement.selector", lambda i: setattr(i.placement, "selector", "a in ("), "character"),
    ("placement.affinity", lambda i: setattr(i.placement, "affinity", "=x"), "label's name"),
    ("placement.worker_id", lambda i: setattr(i.placement, "worker_id", " w"), "white space"),
    ("placement.spread", lambda i: setattr(i.placement, "spread", "a b"), "cannot name a label"),
]


@pytest.mark.parametrize(("field", "spoil", "said"), RULES)
def test_each_rule_names_field_and_way_out(
    field: str, spoil: Callable[[tasks_pb2.TaskSubmission], object], said: str
) -> None:
    item = submission()
    spoil(item)
    read = read_one(item)
    assert isinstance(read, Refused)
    assert read.reason == "INVALID_INPUT"
    assert fields_of(read) == [f"tasks[0].{field}"]
    assert said in read.violations[0].description
    assert read.message.startswith(f"tasks[0].{field}: ")


def test_a_bad_item_refuses_only_itself_and_all_its_faults_are_named() -> None:
    bad = submission(priority=11, request_id="\0")
    bad.retry.max_attempts = 0
    request = tasks_pb2.SubmitTasksRequest(tasks=[submission(), bad, submission(task_type="b")])
    first, second, third = read_tasks(request, {})
    assert isinstance(first, NewTask)
    assert isinstance(third, NewTask)
    assert fields_of(second) == ["tasks[1].priority", "tasks[1].retry.max_attempts", "tasks[1].request_id"]
    assert isinstance(second, Refused)
    assert "and 2 more violations" in second.message


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_call_without_items_or_with_too_many_is_refused_whole(count: int) -> None:
    request = tasks_pb2.SubmitTasksRequest(tasks=[submission()] * count)
    with pytest.raises(InvalidInput) as refused:
        read_tasks(request, {})
    assert [violation.field for violation in refused.value.violations] == ["tasks"]


def test_emoji_and_control_characters_in_values_are_kept() -> None:
    new = accepted(submission(task_type="🙂", params={"🙂": "line\nbreak\t\x1b"}, input_json='{"a": "\\u0000\\n"}'))
    assert json.loads(new.params_json) == {"🙂": "line\nbreak\t\x1b"}
    assert new.input_json == '{"a": "\\u0000\\n"}'


def test_a_longer_first_delay_raises_the_default_cap() -> None:
    item = submission()
    item.retry.first_delay.CopyFrom(ms(600_000))
    assert accepted(item).policy.retry.max_delay_ms == 600_000


# Definitions.


def definition(**given: Any) -> tasks_pb2.TaskDefinition:
    return tasks_pb2.TaskDefinition(**{"name": "greet", "task_type": "py", **given})


def test_a_definition_gives_what_the_submission_leaves_out() -> None:
    base = definition(
        priority=2, params={"a": "1", "b": "2"}, input_json='{"x": 1, "y": {"deep": 1}}', exclusive=True,
        timeouts=policies_pb2.TimeoutPolicy(run_timeout=ms(5_500), total_timeout=ms(9_000)),
        retry=policies_pb2.RetryPolicy(max_attempts=7, factor=3),
        resources=policies_pb2.Resources(cpu_millis=100, gpus=1),
        placement=policies_pb2.Placement(selector="a=1"),
    )  # fmt: skip
    alone = accepted(submission(task_type="", task_name="greet"), base)
    assert (alone.task_type, alone.task_name, alone.priority) == ("py", "greet", 2)
    assert json.loads(alone.params_json) == {"a": "1", "b": "2"}
    assert alone.input_json == base.input_json
    assert alone.policy.exclusive

    over = submission(
        task_type="", task_name="greet", priority=9, params={"b": "3"}, input_json='{"y": 2}', exclusive=False,
        timeouts=policies_pb2.TimeoutPolicy(run_timeout=Duration(seconds=7)),
        retry=policies_pb2.RetryPolicy(factor=2),
        resources=policies_pb2.Resources(memory_mb=5),
    )  # fmt: skip
    new = accepted(over, base)
    assert new.priority == 9
    assert json.loads(new.params_json) == {"a": "1", "b": "3"}
    assert json.loads(new.input_json) == {"x": 1, "y": 2}
    assert (new.policy.run_ms, new.policy.total_ms) == (7_000, 9_000), "no nanoseconds of the definition's are left"
    assert (new.policy.retry.max_attempts, new.policy.retry.factor) == (7, 2)
    assert (new.policy.cpu_millis, new.policy.memory_mb, new.policy.gpus) == (0, 5, 0), "resources replace as a whole"
    assert new.policy.selector == "a=1"
    assert not new.policy.exclusive


def test_a_submission_may_name_another_type_than_its_definition() -> None:
    assert accepted(submission(task_type="other", task_name="greet"), definition()).task_type == "other"


def test_an_unknown_definition_is_named_with_the_likely_one() -> None:
    read = read_one(submission(task_name="gret"), definition())
    assert isinstance(read, Refused)
    assert read.reason == "DEFINITION_NOT_FOUND"
    assert "Did you mean 'greet'?" in read.message


def test_what_a_call_makes_of_a_large_definition_is_bounded() -> None:
    large = definition(params={"a": "x" * 4_000_000})
    request = tasks_pb2.SubmitTasksRequest(tasks=[submission(task_name="greet")] * 20)
    read = read_tasks(request, {"greet": large})
    taken = [each for each in read if isinstance(each, NewTask)]
    assert 10 < len(taken) < 20
    assert fields_of(read[-1]) == ["tasks[19].task_name"]


# Digests.


def digest(**given: Any) -> bytes:
    found = accepted(submission(**given)).request_hash
    assert found is not None
    return found


def test_the_digest_is_of_everything_but_the_request_id() -> None:
    assert digest(request_id="a") == digest(request_id="b" * 128) == digest(request_id="é🙂")
    assert digest(request_id="a") != digest(request_id="a", params={"x": "1"})
    assert digest(request_id="a") != digest(request_id="a", priority=5), "a given default is not an absent field"
    many = {f"k{n}": str(n) for n in range(50)}
    backwards = dict(reversed(many.items()))
    assert digest(request_id="a", params=many) == digest(request_id="a", params=backwards)


def test_without_request_id_there_is_no_digest() -> None:
    new = accepted(submission())
    assert new.request_id is None
    assert new.request_hash is None


# Triggers.


def test_a_trigger_is_a_submission_of_its_definition() -> None:
    request = tasks_pb2.TriggerTaskRequest(request_id="r", name="greet", params={"b": "3"}, input_json='{"y": 2}')
    new = read_trigger(request, definition(params={"a": "1"}, input_json='{"x": 1}'))
    assert (new.task_type, new.task_name, new.request_id) == ("py", "greet", "r")
    assert json.loads(new.params_json) == {"a": "1", "b": "3"}
    assert json.loads(new.input_json) == {"x": 1, "y": 2}
    assert new.request_hash != accepted(submission(request_id="r")).request_hash


def test_a_bad_trigger_names_its_own_fields() -> None:
    request = tasks_pb2.TriggerTaskRequest(name="greet", request_id="\0", params={"b": "\0"}, input_json="[]")
    with pytest.raises(InvalidInput) as refused:
        read_trigger(request, definition())
    assert [each.field for each in refused.value.violations] == ["params.b", "input_json", "request_id"]
