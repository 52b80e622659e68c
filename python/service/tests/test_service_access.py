from __future__ import annotations

from google.protobuf.descriptor import ServiceDescriptor

from taskyard.v1 import artifacts_pb2, fleet_pb2, tasks_pb2, workers_pb2, workflows_pb2
from taskyard_service.access import OPEN_METHODS, contract_access
from taskyard_service.identity import Role

FILES = (workers_pb2, tasks_pb2, workflows_pb2, fleet_pb2, artifacts_pb2)
SERVICES: list[ServiceDescriptor] = [service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]


def test_every_method_of_the_contract_is_listed_and_nothing_else_of_ours() -> None:
    methods = {f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods}
    listed = {method for method in contract_access() if method.startswith("/taskyard.")}
    assert listed == methods


def test_a_viewer_changes_nothing() -> None:
    reads = ("Get", "List", "Count", "Watch", "Stream", "Explain", "Download", "ServerReflection")
    for method, roles in contract_access().items():
        assert (Role.VIEWER in roles) == method.rsplit("/", 1)[1].startswith(reads), method


def test_a_worker_calls_the_worker_service_reflection_and_the_bytes_of_artifacts_only() -> None:
    artifacts = tuple(f"/taskyard.v1.ArtifactService/{method}Artifact" for method in ("Upload", "Download"))
    for method, roles in contract_access().items():
        workers = method.startswith(("/taskyard.v1.WorkerService/", "/grpc.reflection.", *artifacts))
        assert (Role.WORKER in roles) == workers, method
        assert Role.ADMIN in roles
        assert Role.OPERATOR in roles or "WorkerService" in method


def test_only_the_health_check_is_open() -> None:
    assert all(method.startswith("/grpc.health.v1.Health/") for method in OPEN_METHODS)
    assert not OPEN_METHODS & contract_access().keys()
