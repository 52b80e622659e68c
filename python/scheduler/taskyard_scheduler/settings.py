"""The scheduler's settings: every number a user may set, validated when it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from taskyard_service.settings import Settings

BEATS_PER_LEASE: Final = 3
"""A lease is renewed by heartbeats: two may be lost or late before a healthy worker loses its tasks."""
BEATS_PER_SILENCE: Final = 2
"""One heartbeat may be lost or late before a healthy worker counts as silent."""
EXCLUSIVE_MARGIN_S: Final = 5
"""So long before the end of its lease a worker kills an exclusive attempt."""

_USER: Final = re.compile(r"[^@:/?#]*(:[^@:/?#]*)?")
_ENCODE: Final = (
    "TASKYARD_DATABASE cannot be read: user and password must be percent-encoded where they have one of @ : / ? # %"
    " (p%40ss for p@ss), and only one @ may stand in the address, in front of the host"
)


class SchedulerSettings(Settings):
    """Settings of `taskyard scheduler`, from the environment."""

    secret: SecretStr = Field(description="Secret that signs and verifies tokens (HS256); at least 32 bytes. Required.")
    data: Path = Field(
        Path("~/.local/share/taskyard"),
        description="Directory of logs and, by default, of the database and of artifacts.",
    )
    database: SecretStr = Field(
        SecretStr(""),
        description=(
            "SQLAlchemy address of the database: sqlite:///FILE or mysql+pymysql://USER:PASSWORD@HOST/NAME."
            " In user and password, @ : / ? # % must be percent-encoded: p%40ss for p@ss."
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
    http_port: int = Field(8081, ge=0, le=65535, description="Port of HTTP/JSON and probes; 0 takes a free one.")
    scheduler_id: str = Field("", description="Name of this scheduler. Default: host and process.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    heartbeat_interval_s: int = Field(
        10,
        ge=1,
        le=60,
        description=(
            "How often workers send a heartbeat, which renews the leases of what they run."
            " At most a third of TASKYARD_LEASE_S and half of TASKYARD_WORKER_SILENCE_S."
        ),
    )
    worker_silence_s: int = Field(
        30,
        ge=2,
        le=3600,
        description="A worker that is silent for so long is unhealthy. At least two heartbeat intervals.",
    )
    worker_forgotten_hours: int = Field(24, ge=1, le=8760, description="A worker silent for so long is forgotten.")
    lease_s: int = Field(
        60,
        ge=5,
        le=3600,
        description=(
            "How long an attempt stays its worker's without renewal. At least three heartbeat intervals. Exclusive"
            " tasks are killed 5 s before its end: for them, at least two heartbeat intervals and 5 s."
        ),
    )
    cancel_grace_s: int = Field(10, ge=0, le=3600, description="Time between the request to stop and the kill.")
    takeover_grace_s: int = Field(10, ge=0, le=600, description="Time for workers to report to a new leader.")
    pending_limit: int = Field(
        5_000_000,
        ge=1,
        description="Live tasks of the cluster at which new ones are refused.",
        json_schema_extra={"unit": "tasks"},
    )
    artifact_url: SecretStr = Field(
        SecretStr(""),
        description=(
            "Where the bytes of artifacts are: file:///FOLDER, or an address of fsspec whose driver is installed, such"
            " as s3://BUCKET/FOLDER. Default: artifacts in the data directory. More than one scheduler needs one that"
            " all of them reach."
        ),
    )
    artifact_limit_mb: int = Field(
        5_120,
        ge=1,
        le=5_242_880,
        description="The most that one artifact may have, in MiB (5120: 5 GiB).",
        json_schema_extra={"unit": "MiB"},
    )
    artifact_grace_s: int = Field(
        86_400,
        ge=1,
        le=315_360_000,
        description=(
            "How long an artifact that nothing refers to is kept after its creation. An output that is one is referred"
            " to once its result is stored: leave enough time for that."
        ),
    )
    stop_grace_s: int = Field(10, ge=0, le=600, description="Time for open calls to end when the scheduler stops.")

    @model_validator(mode="after")
    def _rules_over_several(self) -> Self:
        """Refuses what would lose the tasks of healthy workers, and an address that would be cut at a wrong place."""
        sentences = [
            _beats("TASKYARD_LEASE_S", self.lease_s, self.heartbeat_interval_s, BEATS_PER_LEASE, "lose their tasks"),
            _beats(
                "TASKYARD_WORKER_SILENCE_S", self.worker_silence_s, self.heartbeat_interval_s, BEATS_PER_SILENCE,
                "count as unhealthy",
            ),
            "" if _is_encoded(self.database.get_secret_value()) else _ENCODE,
        ]  # fmt: skip
        if any(sentences):
            raise ValueError("\n".join(filter(None, sentences)))
        return self

    def exclusive_risk(self) -> str:
        """Returns why exclusive tasks do not live under these settings; empty when they do."""
        least = BEATS_PER_SILENCE * self.heartbeat_interval_s + EXCLUSIVE_MARGIN_S
        if self.lease_s >= least:
            return ""
        return (
            f"exclusive tasks are killed {EXCLUSIVE_MARGIN_S} s before their lease ends, so that one late heartbeat "
            f"is enough: TASKYARD_LEASE_S is {self.lease_s}; where such tasks run, set it to {least} or more"
        )

    def folder(self) -> Path:
        """Returns the data directory, `~` resolved."""
        return self.data.expanduser()

    def database_url(self) -> str:
        """Returns the database's address."""
        return self.database.get_secret_value() or f"sqlite:///{self.folder() / 'taskyard.db'}"

    def election_kind(self) -> Literal["local", "database"]:
        """Returns how the leader is chosen."""
        if self.election:
            return self.election
        return "local" if self.database_url().startswith("sqlite") else "database"


def _beats(variable: str, seconds: int, interval_s: int, beats: int, else_they: str) -> str:
    """Returns what is wrong with a time in which so many heartbeats must fit; empty when nothing is."""
    if seconds >= beats * interval_s:
        return ""
    return (
        f"{variable} is {seconds} and TASKYARD_HEARTBEAT_INTERVAL_S is {interval_s} (seconds), which breaks the rule: "
        f"the first must be at least {beats} times the second, else healthy workers {else_they} between two heartbeats."
        f" Set {variable} to {beats * interval_s} or more, or TASKYARD_HEARTBEAT_INTERVAL_S to {seconds // beats} or"
        " less; one that is not set has its default"
    )


def _is_encoded(url: str) -> bool:
    """Tells whether a database address has user and password in one way of reading only."""
    scheme, _, rest = url.partition("://")
    if scheme.startswith("sqlite") or "@" not in rest:  # a file's path may have any character
        return True
    user, _, where = rest.partition("@")
    return "@" not in where and _USER.fullmatch(user) is not None
