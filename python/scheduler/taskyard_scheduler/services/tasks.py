"""TaskService as a whole: its calls are in the modules beside this one, by what they are about."""

from __future__ import annotations

from taskyard.v1 import tasks_pb2_grpc
from taskyard_scheduler.logs import LogStore
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.broadcast_calls import BroadcastCalls
from taskyard_scheduler.services.bulk_calls import BulkTaskCalls
from taskyard_scheduler.services.counting import TaskCounts
from taskyard_scheduler.services.definition_calls import DefinitionCalls
from taskyard_scheduler.services.hand_calls import HandCalls
from taskyard_scheduler.services.log_calls import LogCalls
from taskyard_scheduler.services.task_calls import TaskCalls
from taskyard_scheduler.services.watch_calls import WatchCalls


class TaskService(
    TaskCalls,
    TaskCounts,
    HandCalls,
    BroadcastCalls,
    BulkTaskCalls,
    DefinitionCalls,
    WatchCalls,
    LogCalls,
    tasks_pb2_grpc.TaskServiceServicer,
):
    """Calls of clients on tasks."""

    def __init__(self, scheduler: Scheduler, logs: LogStore) -> None:
        self._scheduler = scheduler
        self._logs = logs
