"""The scheduler's settings: every number a user may set, validated when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from taskyard_service.settings import Settings


class SchedulerSettings(Settings):
    """Settings of `taskyard scheduler`, from the environment."""

    secret: SecretStr = Field(description="Secret that signs and verifies tokens (HS256); at least 32 bytes. Required.")
    data: Path = Field(
        Path("~/.local/share/taskyard"), description="Directory of logs and, by default, of the database."
    )
    database: str = Field(
        "",
        description=(
            "SQLAlchemy address of the database: sqlite:///FILE or mysql+pymysql://USER:PASSWORD@HOST/NAME."
            " Default: taskyard.db in the data directory."
        ),
    )
    synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL",
        description=(
            "SQLite only. FULL: what is answered survives a power loss. NORMAL: it survives a crash of the process,"
            " but a power loss may take the last commits."
        ),
    )
    election: Literal["", "local", "database"] = Field(
        "",
        description=(
            "How schedulers choose their leader: local (a file lock; SQLite) or database (GET_LOCK; MySQL, MariaDB)."
            " Default: what fits the database. All schedulers of a cluster must say the same."
        ),
    )
    bind: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - the documented default
    grpc_port: int = Field(9090, ge=0, le=65535, description="Port of gRPC; 0 takes a free one.")
    http_port: int = Field(8081, ge=0, le=65535, description="Port of health and metrics; 0 takes a free one.")
    scheduler_id: str = Field("", description="Name of this scheduler. Default: host and process.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    heartbeat_interval_s: int = Field(10, ge=1, le=60, description="How often workers send a heartbeat.")
    worker_silence_s: int = Field(30, ge=2, le=3600, description="A worker that is silent for so long is unhealthy.")
    worker_forgotten_hours: int = Field(24, ge=1, le=8760, description="A worker silent for so long is forgotten.")
    lease_s: int = Field(60, ge=5, le=3600, description="How long an attempt stays its worker's without renewal.")
    cancel_grace_s: int = Field(10, ge=0, le=3600, description="Time between the request to stop and the kill.")
    takeover_grace_s: int = Field(10, ge=0, le=600, description="Time for workers to report to a new leader.")
    pending_limit: int = Field(
        5_000_000,
        ge=1,
        description="Live tasks of the cluster at which new ones are refused.",
        json_schema_extra={"unit": "tasks"},
    )
    stop_grace_s: int = Field(10, ge=0, le=600, description="Time for open calls to end when the scheduler stops.")

    def folder(self) -> Path:
        """Returns the data directory, `~` resolved."""
        return self.data.expanduser()

    def database_url(self) -> str:
        """Returns the database's address."""
        return self.database or f"sqlite:///{self.folder() / 'taskyard.db'}"

    def election_kind(self) -> Literal["local", "database"]:
        """Returns how the leader is chosen."""
        if self.election:
            return self.election
        return "local" if self.database_url().startswith("sqlite") else "database"
