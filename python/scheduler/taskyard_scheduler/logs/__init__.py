"""Where the log lines of attempts are kept: one port, on files for real, in memory for simulation."""

from taskyard_scheduler.logs.admission import LogLimits
from taskyard_scheduler.logs.filestore import FileLogStore
from taskyard_scheduler.logs.memory import MemoryLogStore
from taskyard_scheduler.logs.port import Appended, LogPage, LogStore, LogStoreError, LogStoreUnavailable

__all__ = [
    "Appended",
    "FileLogStore",
    "LogLimits",
    "LogPage",
    "LogStore",
    "LogStoreError",
    "LogStoreUnavailable",
    "MemoryLogStore",
]
