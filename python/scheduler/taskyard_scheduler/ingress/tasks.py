"""Submissions of tasks: each item read on its own, with its definition's values under its own. Hot path.

What is plain about an item (a type, perhaps a few parameters) costs a few field reads; everything else is looked at
only when it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.events import NewTask, Refused, When
from taskyard_core.records import Policy
from taskyard_core.violations import InvalidInput, Violation, cut, suggestion
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.digests import payload_digest
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.identity import read_identity
from taskyard_scheduler.ingress.policies import PolicyParts, over, parts_of, read_policy
from taskyard_scheduler.ingress.schedule import read_tags, read_when
from taskyard_scheduler.ingress.texts import (
    params_fault,
    traceparent_fault,
    type_fault,
)

TASKS_LIMIT: Final = 10_000
PRIORITY: Final = 5
CALL_BYTES: Final = 64 * 1024 * 1024
"""Of params, input and inputs that one call may make, defaults included. A call itself is at most 16 MiB."""

Definitions = Mapping[str, pb.TaskDefinition]


class Budget:
    """Bounds what one call makes: with a large definition or large defaults a small call could fill the disk."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CALL_BYTES

    def spend(self, size: int) -> str | None:
        """Takes what an item makes, in characters. Returns what is wrong when the call has made too much."""
        self.left -= size
        if self.left >= 0:
            return None
        return f"with its defaults the call makes more than {CALL_BYTES >> 20} MiB; send this item in another call"


class Defaults:
    """A definition's values in the form in which submissions need them. Made once per call and definition."""

    __slots__ = ("input", "input_json", "params", "params_json", "parts", "priority", "read", "task_type")

    def __init__(self, definition: pb.TaskDefinition) -> None:
        self.task_type = definition.task_type
        self.priority = definition.priority if definition.HasField("priority") else PRIORITY
        self.params = dict(definition.params)
        self.params_json = json_text.dump_texts(self.params)
        self.input_json = definition.input_json
        self.input = json_text.parse_object(self.input_json) if self.input_json else {}
        self.parts = parts_of(definition)
        self.read = read_policy(self.parts)


_NO_DEFAULTS: Final = Defaults(pb.TaskDefinition())
_NO_TYPE: Final = "neither a task type nor a definition is named; give `task_type`, or `task_name` of a definition"


def read_tasks(request: pb.SubmitTasksRequest, definitions: Definitions) -> list[NewTask | Refused]:
    """Reads the items of a call, each on its own.

    Args:
        request: The call.
        definitions: The tenant's task definitions by name.

    Raises:
        InvalidInput: The call is empty or too long.
    """
    count_fault("tasks", len(request.tasks), TASKS_LIMIT)
    reader = _Reader(definitions, Findings("tasks"))
    return [reader.read(place, item) for place, item in enumerate(request.tasks)]


def read_trigger(request: pb.TriggerTaskRequest, definition: pb.TaskDefinition) -> NewTask:
    """Reads a request for an instance of a definition.

    Raises:
        InvalidInput: It breaks a rule.
    """
    item = pb.TaskSubmission(
        request_id=request.request_id,
        task_name=definition.name,
        params=request.params,
        input_json=request.input_json,
    )
    read = _Reader({definition.name: definition}, Findings()).read(0, item)
    if isinstance(read, Refused):
        raise InvalidInput(read.violations)
    if request.request_id:
        read.request_hash = payload_digest(request, request.request_id)
    return read


def read_broadcast(request: pb.BroadcastTaskRequest, definitions: Definitions) -> NewTask | Refused:
    """Reads the task of which every worker gets a copy. Refused: there is no such definition.

    Raises:
        InvalidInput: It breaks a rule; fields begin with `task.`.
    """
    item = pb.TaskSubmission()
    item.CopyFrom(request.task)
    item.ClearField("request_id")
    found = []
    if item.idempotency_key:
        found.append(Violation("task.idempotency_key", "copies cannot share a key; leave it out"))
    if item.placement.worker_id:
        said = "every worker that matches gets a copy; leave it out, or submit the task for this one"
        found.append(Violation("task.placement.worker_id", said))
    read = _Reader(definitions, Findings()).read(0, item)
    if isinstance(read, Refused):
        found += [Violation(f"task.{each.field}", each.description) for each in read.violations]
    if found:
        raise InvalidInput(found)
    return read


def count_fault(field: str, count: int, limit: int) -> None:
    """Checks how many items a call has.

    Raises:
        InvalidInput: None, or too many.
    """
    if 1 <= count <= limit:
        return
    sentence = f"{count:,} items are outside 1 to {limit:,}; " + (
        "split them over several calls" if count else "send at least one"
    )
    raise InvalidInput([Violation(field, sentence)])


def not_found(name: str, definitions: Definitions) -> str:
    """Returns the sentence for a definition that does not exist."""
    hint = suggestion(name, definitions)
    return f"there is no task definition {cut(name)}: create it, or name one that exists.{hint}"


class _Reader:
    """Reads the items of one call. What it finds wrong with one is gone when the next is read."""

    __slots__ = ("budget", "definitions", "findings", "known")

    def __init__(self, definitions: Definitions, findings: Findings) -> None:
        self.definitions = definitions
        self.findings = findings
        self.known: dict[str, Defaults] = {"": _NO_DEFAULTS}
        self.budget = Budget()

    def read(self, place: int, item: pb.TaskSubmission) -> NewTask | Refused:
        findings = self.findings
        findings.place = place
        name = item.task_name
        defaults = self.known.get(name) or self.defaults(name)
        if defaults is None:
            sentence = not_found(name, self.definitions)
            return Refused("DEFINITION_NOT_FOUND", f"{findings.path('task_name')}: {sentence}")
        task_type = item.task_type or defaults.task_type
        said = type_fault(task_type)
        if said is not None:
            findings.add("task_type", said if task_type else _NO_TYPE)
        has = item.HasField
        priority = defaults.priority
        if has("priority"):
            priority = item.priority
            findings.add("priority", outside(priority, 1, 10))
        policy = defaults.read
        if has("timeouts") or has("retry") or has("resources") or has("placement") or has("exclusive"):
            policy = read_policy(_parts_over(item, defaults.parts))
        if policy.violations:
            findings.extend(policy.violations)
        new = NewTask(
            task_type, policy.policy, policy.stored, name, priority, defaults.params_json, defaults.input_json
        )
        if item.params or item.input_json:
            self.read_work(item, defaults, new)
        when = read_when(item, findings)
        if when is not None:
            new.when = when
            findings.add("start_delay", _late_fault(when, policy.policy))
        if item.tags:
            new.tags = read_tags(item.tags, findings)
        if name:
            findings.add("task_name", self.budget.spend(len(new.params_json) + len(new.input_json)))
        self.read_origin(item, new)
        return findings.refusal() if findings.violations else new

    def read_origin(self, item: pb.TaskSubmission, new: NewTask) -> None:
        read_identity(item, new, self.findings)
        traceparent = item.traceparent
        if traceparent:
            self.findings.add("traceparent", traceparent_fault(traceparent))
            new.traceparent = traceparent

    def defaults(self, name: str) -> Defaults | None:
        """Returns a definition's values, made at the first item that names it."""
        definition = self.definitions.get(name)
        if definition is None:
            return None
        found = self.known[name] = Defaults(definition)
        return found

    def read_work(self, item: pb.TaskSubmission, defaults: Defaults, new: NewTask) -> None:
        """Reads params and input, over the definition's."""
        findings = self.findings
        if item.params:
            given = item.params
            params = {key: given[key] for key in given}  # half the price of dict(given)
            fault = params_fault(params)
            if fault is not None:
                findings.add(member("params", fault[0]), fault[1])
            new.params_json = json_text.dump_texts({**defaults.params, **params} if defaults.params else params)
        if item.input_json:
            try:
                new.input_json = _merged_input(item.input_json, defaults.input)
            except json_text.NotJson as error:
                findings.add("input_json", str(error))
        findings.add("params", size_fault(new.params_json, new.input_json))


def _late_fault(when: When, policy: Policy) -> str | None:
    """Checks a delay against the total timeout, which counts from the submission."""
    total = policy.total_ms
    if not total or when.delay_ms < total:
        return None
    sentence = f"after {when.delay_ms / 1000:g} s its total_timeout of {total / 1000:g} s, which counts from the"
    return f"{sentence} submission, has passed: it would never begin; shorten the delay, or lengthen the timeout"


def _merged_input(own: str, base: dict[str, object]) -> str:
    if json_text.exceeds(own, json_text.INPUT_BYTES):
        return own  # refused for its size; reading it first would be work for nothing
    members = json_text.parse_object(own)
    return json_text.dump({**base, **members}) if base else own


def size_fault(params_json: str, input_json: str) -> str | None:
    """Checks that params and input are at most 4 MiB together, as they are stored."""
    limit = json_text.INPUT_BYTES
    if (len(params_json) + len(input_json)) * 4 <= limit:
        return None
    total = json_text.size(params_json) + json_text.size(input_json)
    if total <= limit:
        return None
    return f"params and input_json take {total:,} bytes together and may take {limit:,}; pass large data by reference"


def _parts_over(item: pb.TaskSubmission, base: PolicyParts) -> PolicyParts:
    """Returns the parts of an item's policy, what it leaves out taken from its definition's."""
    has = item.HasField
    return PolicyParts(
        over(base.timeouts, item.timeouts) if has("timeouts") else base.timeouts,
        over(base.retry, item.retry) if has("retry") else base.retry,
        item.resources.SerializeToString() if has("resources") else base.resources,
        item.placement.SerializeToString() if has("placement") else base.placement,
        item.exclusive if has("exclusive") else base.exclusive,
    )
