"""The worker's settings: one frozen class, checked at once. Reads no environment by itself: `main` gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator

from taskyard_worker.embeddings.hashing import is_hashing
from taskyard_worker.errors import WorkerError

PREFIX = "TASKYARD_"
SHOWN = 200

_ADDRESS = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")
_UNFIT = re.compile(r"[^\x21-\x7e]")

Labels = dict[str, str]


class SettingsError(WorkerError):
    """Some settings are wrong; the text has a sentence for each."""


class WorkerSettings(BaseModel):
    """What can be set; each field is the environment variable TASKYARD_ and its name in capitals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(default="127.0.0.1:9090", min_length=1, description="Address of a scheduler's gRPC port.")
    token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token whose role is `worker`. Empty: none is sent."
    )
    ca: Path | None = Field(
        default=None,
        description="File of certificates (PEM) that sign the scheduler's. Unset: the connection is not encrypted.",
    )
    worker_id: str = Field(
        default="",
        max_length=200,
        description="The worker's id. Empty: one is made and kept in the data directory.",
    )
    data: Path = Field(
        default=Path("~/.local/share/taskyard"),
        description="Directory for what outlives the process: id, results not yet acknowledged, idempotency keys.",
    )
    concurrency: Annotated[int, Field(ge=1, le=100_000, json_schema_extra={"unit": "tasks"})] = Field(
        default=10, description="How many tasks run at once."
    )
    cpus: Annotated[float, Field(ge=0, le=1_000, json_schema_extra={"unit": "cores"})] = Field(
        default=0.0,
        description=(
            "Processor cores offered to tasks that ask for processor time, to a thousandth (0.5: half a core). "
            "0: none, so no such task is sent to this worker."
        ),
    )
    memory_mb: Annotated[int, Field(ge=0, le=100_000_000, json_schema_extra={"unit": "MiB"})] = Field(
        default=0,
        description=(
            "Memory offered to tasks that ask for memory, in MiB (8192: 8 GiB). "
            "0: none, so no such task is sent to this worker."
        ),
    )
    gpus: Annotated[int, Field(ge=0, le=1_000, json_schema_extra={"unit": "GPUs"})] = Field(
        default=0,
        description="Whole GPUs offered to tasks that ask for GPUs. 0: none, so no such task is sent to this worker.",
    )
    labels: Labels = Field(
        default={},
        description="Labels that selectors match, as name=value, separated by commas; `lang=python` is given.",
    )
    host: str = Field(
        default="", max_length=255, description="Name of this host for people. Empty: as the system says."
    )
    bind: str = Field(
        default="0.0.0.0",  # noqa: S104 - the documented default
        description="Address to serve /healthz, /readyz and /metrics on.",
    )
    http_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8080,
        description="Port of /healthz, /readyz and /metrics; 0 takes a free one, as does the default when it is taken.",
    )
    tasks: tuple[str, ...] = Field(
        default=(), description="Files (*.py) or modules that register handlers, separated by commas."
    )
    llm_base_url: str = Field(
        default="",
        description=(
            "Address of an OpenAI-compatible endpoint, up to the path that calls are appended to, such as "
            "https://host/v1. Empty: `llm_call` is not offered, and embeddings are computed by the worker."
        ),
    )
    llm_api_key: SecretStr = Field(
        default=SecretStr(""), description="The endpoint's key, sent as a bearer token. Empty: none is sent."
    )
    llm_model: str = Field(
        default="gpt-4o-mini", min_length=1, description="The model of `llm_call` where a task names none."
    )
    embedding_model: str = Field(
        default="hashing-v1",
        min_length=1,
        description=(
            "The model of `embedding`, `index` and `search` where a task names none. `hashing-v1` is computed by the "
            "worker, any other by the endpoint."
        ),
    )
    drain_grace_s: Annotated[float, Field(ge=0, le=86400)] = Field(
        default=10.0, description="How long running tasks may go on after SIGTERM before they are interrupted."
    )
    reach_grace_s: Annotated[float, Field(ge=0, le=86400)] = Field(
        default=10.0,
        description=(
            "How long a worker that stops and has nothing left to run waits for a scheduler that it cannot reach. "
            "Results and log lines that it could not hand in stay in its data directory for its next start."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level of the worker's own log that is written."
    )

    @field_validator("address")
    @classmethod
    def _host_and_port(cls, address: str) -> str:
        address = address.strip()
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[1]) < 65536:
            raise ValueError(f"`{address[:SHOWN]}` is not host:port; write for example 127.0.0.1:9090")
        return address

    @field_validator("token", "llm_api_key")
    @classmethod
    def _goes_into_a_header(cls, token: SecretStr, info: ValidationInfo) -> SecretStr:
        text = token.get_secret_value().strip()
        if found := _UNFIT.search(text):
            what, source = ("token", " (`taskyard token` makes one)") if info.field_name == "token" else ("key", "")
            raise ValueError(
                f"character {found.start() + 1} of {len(text)} is U+{ord(found.group()):04X}, and a {what} has only "
                f"letters, digits and signs of ASCII, without spaces; copy it anew{source}"
            )
        return SecretStr(text)

    @field_validator("llm_base_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url.strip())
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("it must be an http or https address; write for example http://127.0.0.1:11434/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("it has more than scheme, host, port and path; the key has a setting of its own")
        return url.strip()

    @field_validator("embedding_model")
    @classmethod
    def _has_an_endpoint(cls, model: str, info: ValidationInfo) -> str:
        if info.data.get("llm_base_url") == "" and not is_hashing(model):
            raise ValueError(f"without {PREFIX}LLM_BASE_URL nobody computes it; set that, or leave this one out")
        return model

    @field_validator("labels")
    @classmethod
    def _label_sizes(cls, labels: Labels) -> Labels:
        if len(labels) > 64:
            raise ValueError(f"{len(labels)} labels, but a worker has at most 64")
        return labels

    @field_validator("cpus")
    @classmethod
    def _whole_millis(cls, cpus: float) -> float:
        if round(cpus, 3) != cpus:
            raise ValueError(f"cores are counted to a thousandth; write {max(0.001, round(cpus, 3)):g}")
        return cpus

    @field_validator("data", "ca")
    @classmethod
    def _home_directory(cls, path: Path | None) -> Path | None:
        return path and path.expanduser()

    @property
    def cpu_millis(self) -> int:
        """The offered cores in thousandths, as the contract counts them."""
        return round(self.cpus * 1_000)


def load(environ: Mapping[str, str], overrides: Mapping[str, Any]) -> WorkerSettings:
    """Return the settings: overrides (from the command line, None: not given), then variables, then defaults.

    Raises:
        SettingsError: A value breaks its rule.
    """
    values: dict[str, Any] = {}
    for name in WorkerSettings.model_fields:
        text = environ.get(PREFIX + name.upper(), "")
        if text:
            values[name] = text
    values.update((name, value) for name, value in overrides.items() if value is not None)
    try:
        if isinstance(values.get("labels"), str):
            values["labels"] = parse_labels(values["labels"])
        if isinstance(values.get("tasks"), str):
            values["tasks"] = tuple(item.strip() for item in values["tasks"].split(",") if item.strip())
        return WorkerSettings(**values)
    except ValidationError as error:
        raise SettingsError("\n".join(sentence(detail) for detail in error.errors())) from None


def parse_labels(text: str) -> Labels:
    """Return labels from `name=value,name=value`. Raises SettingsError."""
    labels: Labels = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if not name.strip() or not equals:
            raise SettingsError(f"label {item[:SHOWN]!r} is no name=value")
        if name.strip() in labels:
            raise SettingsError(f"label {name.strip()[:SHOWN]!r} is given twice; keep one of them")
        labels[name.strip()] = value.strip()
    return labels


def sentence(detail: Any) -> str:
    """Return what is wrong with one setting."""
    name = str(detail["loc"][0]) if detail["loc"] else ""
    field = WorkerSettings.model_fields[name]
    shown = "a secret" if field.annotation is SecretStr else repr(detail["input"])[:SHOWN]
    rule = detail["msg"].removeprefix("Value error, ")
    return f"{PREFIX}{name.upper()} is {shown}: {rule[:1].lower()}{rule[1:]}. {field.description}"
