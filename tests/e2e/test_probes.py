"""What operators' tools ask: health, readiness, metrics over HTTP; health and reflection over gRPC."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from e2e.process import until
from e2e.refusals import read
from e2e.site import Door, Site
from taskyard_service.identity import Role

SERVICES = {f"taskyard.v1.{name}Service" for name in ("Task", "Workflow", "Fleet", "Worker")}


def test_http_probes(shared_processes: Site) -> None:
    site = shared_processes
    assert (site.http("/healthz").status, json.loads(site.http("/healthz").body)) == (200, {"status": "ok"})
    assert json.loads(site.http("/readyz").body) == {"ready": True, "reasons": []}
    assert site.http("/secrets").status == 404
    announced = site.announced()
    assert announced["grpc_address"] == site.address
    assert announced["http_address"] == f"127.0.0.1:{site.http_port}"


@pytest.mark.parametrize(
    ("bind", "address", "bound"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1", "all addresses"),
        ("::", "127.0.0.1", "all addresses"),
        ("", "127.0.0.1", "all addresses"),
    ],
)
async def test_who_listens_everywhere_says_so(site: Site, bind: str, address: str, bound: str) -> None:
    scheduler = site.launch_scheduler(settings={"TASKYARD_BIND": bind})
    said = await scheduler.wait_event("listening")
    assert (said["grpc_address"].rpartition(":")[0], said["bound_to"]) == (address, bound)


async def test_metrics_have_the_names_that_dashboards_know(shared_site: Site) -> None:
    client = shared_site.client()
    assert await (await client.submit("double", {"number": 1})).result(60) == {"double": 2}

    def shown() -> str:
        body = shared_site.http("/metrics").body
        ended = 'workflow_task_duration_seconds_count{status="SUCCESS",task_type="double"}' in body
        return body if ended and "workflow_workers_healthy 1.0" in body else ""

    families = {family.name: family for family in text_string_to_metric_families(await until(shown))}
    durations = families["workflow_task_duration_seconds"].samples
    double = {"task_type": "double", "status": "SUCCESS"}
    buckets = [s.labels["le"] for s in durations if s.name.endswith("_bucket") and s.labels.items() >= double.items()]
    assert buckets == ["0.1", "0.5", "1.0", "2.0", "5.0", "10.0", "30.0", "+Inf"]
    assert [s.value for s in durations if s.name.endswith("_count") and s.labels == double] == [1]
    assert [(s.labels, s.value) for s in families["workflow_workers_healthy"].samples] == [({}, 1)]
    assert families.keys() >= {"workflow_queue_depth", "workflow_commit_seconds", "workflow_submissions"}


async def test_a_worker_has_probes_too(site: Site) -> None:
    scheduler = await site.start_scheduler()
    worker = await site.start_worker()
    port = int((await worker.wait_event("serving /healthz, /readyz, /metrics"))["port"])
    assert await (await site.client().submit("double", {"number": 1})).result(60) == {"double": 2}
    assert site.http("/healthz", port).status == 200
    assert site.http("/readyz", port).status == 200
    families = {f.name: f for f in text_string_to_metric_families(site.http("/metrics", port).body)}
    samples = families["workflow_task_duration_seconds"].samples
    double = {"task_type": "double", "status": "SUCCESS"}
    assert [s.value for s in samples if s.name.endswith("_count") and s.labels == double] == [1]
    scheduler.kill()
    await until(lambda: site.http("/readyz", port).status == 503, what="the worker to say that it takes no tasks")
    assert site.http("/healthz", port).status == 200


async def test_health_needs_no_token(shared_site: Site) -> None:
    stub: Any = health_pb2_grpc.HealthStub(shared_site.door(None).channel)
    for name in ("", *sorted(SERVICES)):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Check(health_pb2.HealthCheckRequest(service="nowhere"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


Question = Any
Reply = Any
"""Reflection's own messages, whose package has no types."""


async def ask(door: Door, *requests: Question) -> list[Reply]:
    channel: Any = door.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)

    async def sent() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        for request in requests:
            yield request

    return [answer async for answer in stub.ServerReflectionInfo(sent(), metadata=door.metadata)]


async def test_reflection_needs_a_token(shared_site: Site) -> None:
    """Nothing is sent: a client that is still sending when it is refused may see its own failure instead."""
    for token in (None, "nonsense"):
        door = shared_site.door(token)
        channel: Any = door.channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ServerReflectionInfo(metadata=door.metadata).read()
        assert read(caught.value).code == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("role", list(Role))
async def test_reflection_alone_is_enough_to_make_a_call(shared_site: Site, role: Role) -> None:
    """What grpcurl does: lists services, fetches descriptors, calls a method that it was not built with."""
    door = shared_site.door(shared_site.token(role))
    [listed] = await ask(door, reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {service.name for service in listed.list_services_response.service}
    assert names >= SERVICES | {"grpc.health.v1.Health"}
    pool = descriptor_pool.DescriptorPool()
    await load(door, pool, reflection_pb2.ServerReflectionRequest(file_containing_symbol="taskyard.v1.FleetService"))
    method = pool.FindMethodByName("taskyard.v1.FleetService.GetClusterStatus")
    ask_type = message_factory.GetMessageClass(method.input_type)
    answer_type = message_factory.GetMessageClass(method.output_type)
    call = door.channel.unary_unary(
        "/taskyard.v1.FleetService/GetClusterStatus", ask_type.SerializeToString, answer_type.FromString
    )
    if role == Role.WORKER:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(ask_type(), metadata=door.metadata)
        return
    status = await call(ask_type(), metadata=door.metadata)
    assert status.scheduler_id == "scheduler"  # type: ignore[attr-defined]
    assert status.database == "sqlite"  # type: ignore[attr-defined]


async def load(door: Door, pool: descriptor_pool.DescriptorPool, request: Question) -> None:
    """Adds a file and what it needs to a pool."""
    [answer] = await ask(door, request)
    for data in answer.file_descriptor_response.file_descriptor_proto:
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        try:
            pool.FindFileByName(file.name)
            continue
        except KeyError:
            pass
        for needed in file.dependency:
            await load(door, pool, reflection_pb2.ServerReflectionRequest(file_by_filename=needed))
        pool.Add(file)
