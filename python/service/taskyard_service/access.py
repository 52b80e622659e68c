"""Which role may call which method. Closed by default: a method that is not listed is refused to everyone.

Not who calls (identity.py), and not whose data a call sees: that is the tenant's, decided in the handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from taskyard_service.identity import Role

Access: TypeAlias = Mapping[str, frozenset[Role]]
"""Roles by full method name, as in `/taskyard.v1.TaskService/GetTask`."""

READ = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATE = frozenset({Role.OPERATOR, Role.ADMIN})
WORK = frozenset({Role.WORKER, Role.ADMIN})

OPEN_METHODS = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
"""What anyone may call, with no token: the health check, since what calls it (a load balancer) has none."""

_REFLECTION = "ServerReflectionInfo"
_CONTRACT: dict[str, dict[frozenset[Role], str]] = {
    "grpc.reflection.v1.ServerReflection": {frozenset(Role): _REFLECTION},
    "grpc.reflection.v1alpha.ServerReflection": {frozenset(Role): _REFLECTION},
    "taskyard.v1.WorkerService": {WORK: "Register Heartbeat AssignTask Deregister ReportResults AppendLogs"},
    "taskyard.v1.TaskService": {
        READ: "GetTaskDefinition ListTaskDefinitions GetTask ListTasks CountTasks WatchTasks GetLogs"
        " StreamLogs ExplainTask",
        OPERATE: "CreateTaskDefinition UpdateTaskDefinition DeleteTaskDefinition"
        " SubmitTasks TriggerTask CancelTask RetryTask RequeueTask PrioritizeTask BulkTasks"
        " MarkTask CompleteTask BroadcastTask",
    },
    "taskyard.v1.WorkflowService": {
        READ: "GetWorkflow ListWorkflows GetRun ListRuns CountRuns WatchRun GetVariable ListVariables",
        OPERATE: "ApplyWorkflow DeleteWorkflow StartRuns CancelRun RetryRun BulkRuns SetVariable DeleteVariable"
        " MarkStep PauseRun ResumeRun",
    },
    "taskyard.v1.ArtifactService": {
        READ: "GetArtifact ListArtifacts",
        READ | {Role.WORKER}: "DownloadArtifact",
        OPERATE | {Role.WORKER}: "UploadArtifact",
        OPERATE: "DeleteArtifact",
    },
    "taskyard.v1.FleetService": {
        READ: "ListWorkers GetWorker ListQueues ListPauses GetClusterStatus",
        OPERATE: "DrainWorker ForgetWorker PauseWork ResumeWork",
    },
}


def contract_access() -> Access:
    """Returns who may call what of the contract, and reflection."""
    return MappingProxyType(
        {
            f"/{service}/{method}": roles
            for service, by_roles in _CONTRACT.items()
            for roles, methods in by_roles.items()
            for method in methods.split()
        }
    )
