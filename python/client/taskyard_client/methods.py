"""Every call that the client makes. Each is a read or carries request ids, so each may be repeated."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import artifacts_pb2 as artifacts
from taskyard.v1 import fleet_pb2 as fleet
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as workflows
from taskyard_client.transport import Method

_TASK: Final = "TaskService"
_WORKFLOW: Final = "WorkflowService"
_FLEET: Final = "FleetService"
_ARTIFACT: Final = "ArtifactService"

SUBMIT_TASKS = Method(_TASK, "SubmitTasks", tasks.SubmitTasksRequest, tasks.SubmitTasksResponse, changes=True)
CREATE_TASK_DEFINITION = Method(
    _TASK, "CreateTaskDefinition", tasks.CreateTaskDefinitionRequest, tasks.CreateTaskDefinitionResponse, changes=True
)
GET_TASK_DEFINITION = Method(
    _TASK, "GetTaskDefinition", tasks.GetTaskDefinitionRequest, tasks.GetTaskDefinitionResponse
)
LIST_TASK_DEFINITIONS = Method(
    _TASK, "ListTaskDefinitions", tasks.ListTaskDefinitionsRequest, tasks.ListTaskDefinitionsResponse
)
UPDATE_TASK_DEFINITION = Method(
    _TASK, "UpdateTaskDefinition", tasks.UpdateTaskDefinitionRequest, tasks.UpdateTaskDefinitionResponse, changes=True
)
DELETE_TASK_DEFINITION = Method(
    _TASK, "DeleteTaskDefinition", tasks.DeleteTaskDefinitionRequest, tasks.DeleteTaskDefinitionResponse, changes=True
)
TRIGGER_TASK = Method(_TASK, "TriggerTask", tasks.TriggerTaskRequest, tasks.TriggerTaskResponse, changes=True)
GET_TASK = Method(_TASK, "GetTask", tasks.GetTaskRequest, tasks.GetTaskResponse)
LIST_TASKS = Method(_TASK, "ListTasks", tasks.ListTasksRequest, tasks.ListTasksResponse)
COUNT_TASKS = Method(_TASK, "CountTasks", tasks.CountTasksRequest, tasks.CountTasksResponse)
CANCEL_TASK = Method(_TASK, "CancelTask", tasks.CancelTaskRequest, tasks.CancelTaskResponse, changes=True)
REQUEUE_TASK = Method(_TASK, "RequeueTask", tasks.RequeueTaskRequest, tasks.RequeueTaskResponse, changes=True)
PRIORITIZE_TASK = Method(
    _TASK, "PrioritizeTask", tasks.PrioritizeTaskRequest, tasks.PrioritizeTaskResponse, changes=True
)
BULK_TASKS = Method(_TASK, "BulkTasks", tasks.BulkTasksRequest, tasks.BulkTasksResponse, changes=True)
MARK_TASK = Method(_TASK, "MarkTask", tasks.MarkTaskRequest, tasks.MarkTaskResponse, changes=True)
COMPLETE_TASK = Method(_TASK, "CompleteTask", tasks.CompleteTaskRequest, tasks.CompleteTaskResponse, changes=True)
BROADCAST_TASK = Method(_TASK, "BroadcastTask", tasks.BroadcastTaskRequest, tasks.BroadcastTaskResponse, changes=True)
RETRY_TASK = Method(_TASK, "RetryTask", tasks.RetryTaskRequest, tasks.RetryTaskResponse, changes=True)
WATCH_TASKS = Method(_TASK, "WatchTasks", tasks.WatchTasksRequest, tasks.WatchTasksResponse)
GET_LOGS = Method(_TASK, "GetLogs", tasks.GetLogsRequest, tasks.GetLogsResponse)
STREAM_LOGS = Method(_TASK, "StreamLogs", tasks.StreamLogsRequest, tasks.StreamLogsResponse)
EXPLAIN_TASK = Method(_TASK, "ExplainTask", tasks.ExplainTaskRequest, tasks.ExplainTaskResponse)

APPLY_WORKFLOW = Method(
    _WORKFLOW, "ApplyWorkflow", workflows.ApplyWorkflowRequest, workflows.ApplyWorkflowResponse, changes=True
)
GET_WORKFLOW = Method(_WORKFLOW, "GetWorkflow", workflows.GetWorkflowRequest, workflows.GetWorkflowResponse)
DELETE_WORKFLOW = Method(
    _WORKFLOW, "DeleteWorkflow", workflows.DeleteWorkflowRequest, workflows.DeleteWorkflowResponse, changes=True
)
LIST_WORKFLOWS = Method(_WORKFLOW, "ListWorkflows", workflows.ListWorkflowsRequest, workflows.ListWorkflowsResponse)
START_RUNS = Method(_WORKFLOW, "StartRuns", workflows.StartRunsRequest, workflows.StartRunsResponse, changes=True)
GET_RUN = Method(_WORKFLOW, "GetRun", workflows.GetRunRequest, workflows.GetRunResponse)
LIST_RUNS = Method(_WORKFLOW, "ListRuns", workflows.ListRunsRequest, workflows.ListRunsResponse)
COUNT_RUNS = Method(_WORKFLOW, "CountRuns", workflows.CountRunsRequest, workflows.CountRunsResponse)
CANCEL_RUN = Method(_WORKFLOW, "CancelRun", workflows.CancelRunRequest, workflows.CancelRunResponse, changes=True)
RETRY_RUN = Method(_WORKFLOW, "RetryRun", workflows.RetryRunRequest, workflows.RetryRunResponse, changes=True)
MARK_STEP = Method(_WORKFLOW, "MarkStep", workflows.MarkStepRequest, workflows.MarkStepResponse, changes=True)
PAUSE_RUN = Method(_WORKFLOW, "PauseRun", workflows.PauseRunRequest, workflows.PauseRunResponse, changes=True)
RESUME_RUN = Method(_WORKFLOW, "ResumeRun", workflows.ResumeRunRequest, workflows.ResumeRunResponse, changes=True)
BULK_RUNS = Method(_WORKFLOW, "BulkRuns", workflows.BulkRunsRequest, workflows.BulkRunsResponse, changes=True)
SET_VARIABLE = Method(
    _WORKFLOW, "SetVariable", workflows.SetVariableRequest, workflows.SetVariableResponse, changes=True
)
GET_VARIABLE = Method(_WORKFLOW, "GetVariable", workflows.GetVariableRequest, workflows.GetVariableResponse)
LIST_VARIABLES = Method(_WORKFLOW, "ListVariables", workflows.ListVariablesRequest, workflows.ListVariablesResponse)
DELETE_VARIABLE = Method(
    _WORKFLOW, "DeleteVariable", workflows.DeleteVariableRequest, workflows.DeleteVariableResponse, changes=True
)
WATCH_RUN = Method(_WORKFLOW, "WatchRun", workflows.WatchRunRequest, workflows.WatchRunResponse)

LIST_WORKERS = Method(_FLEET, "ListWorkers", fleet.ListWorkersRequest, fleet.ListWorkersResponse)
GET_WORKER = Method(_FLEET, "GetWorker", fleet.GetWorkerRequest, fleet.GetWorkerResponse)
DRAIN_WORKER = Method(_FLEET, "DrainWorker", fleet.DrainWorkerRequest, fleet.DrainWorkerResponse, changes=True)
FORGET_WORKER = Method(_FLEET, "ForgetWorker", fleet.ForgetWorkerRequest, fleet.ForgetWorkerResponse, changes=True)
LIST_QUEUES = Method(_FLEET, "ListQueues", fleet.ListQueuesRequest, fleet.ListQueuesResponse)
PAUSE_WORK = Method(_FLEET, "PauseWork", fleet.PauseWorkRequest, fleet.PauseWorkResponse, changes=True)
RESUME_WORK = Method(_FLEET, "ResumeWork", fleet.ResumeWorkRequest, fleet.ResumeWorkResponse, changes=True)
LIST_PAUSES = Method(_FLEET, "ListPauses", fleet.ListPausesRequest, fleet.ListPausesResponse)
GET_CLUSTER_STATUS = Method(_FLEET, "GetClusterStatus", fleet.GetClusterStatusRequest, fleet.GetClusterStatusResponse)

UPLOAD_ARTIFACT = Method(
    _ARTIFACT, "UploadArtifact", artifacts.UploadArtifactRequest, artifacts.UploadArtifactResponse, changes=True
)
DOWNLOAD_ARTIFACT = Method(
    _ARTIFACT, "DownloadArtifact", artifacts.DownloadArtifactRequest, artifacts.DownloadArtifactResponse
)
GET_ARTIFACT = Method(_ARTIFACT, "GetArtifact", artifacts.GetArtifactRequest, artifacts.GetArtifactResponse)
LIST_ARTIFACTS = Method(_ARTIFACT, "ListArtifacts", artifacts.ListArtifactsRequest, artifacts.ListArtifactsResponse)
DELETE_ARTIFACT = Method(
    _ARTIFACT, "DeleteArtifact", artifacts.DeleteArtifactRequest, artifacts.DeleteArtifactResponse, changes=True
)
