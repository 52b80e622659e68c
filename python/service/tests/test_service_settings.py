from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, SecretStr, ValidationError, model_validator

from taskyard_service.settings import Settings, SettingsError, describe, unknown_variables


class Example(Settings):
    """Settings as a service would have them."""

    grpc_port: int = Field(9090, ge=0, le=65_535, description="Port of the gRPC server; 0 takes a free one.")
    lease_s: float = Field(60.0, gt=0, description="How long an attempt stays a worker's without a sign of life.")
    pending_limit: int = Field(
        5_000, ge=1, description="Instances that may wait.", json_schema_extra={"unit": "instances"}
    )
    level: Literal["debug", "info"] = Field("info", description="Least severe level that is logged.")
    data: Path = Field(Path("/var/lib/taskyard"), description="Where data is kept.")
    peers: tuple[str, ...] = Field((), description="Addresses of the others.")
    tls: bool = Field(False, description="Whether to speak TLS.")
    advertise: str | None = Field(None, description="Address that others use.")
    secret: SecretStr = Field(description="Signs tokens.")

    @model_validator(mode="after")
    def _ports(self) -> Example:
        if self.tls and self.grpc_port == 80:
            raise ValueError("TASKYARD_GRPC_PORT 80 cannot speak TLS; choose another or unset TASKYARD_TLS")
        return self


GIVEN = {"TASKYARD_SECRET": "s" * 32}


def sentences(environ: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Example.load(environ)
    return caught.value.sentences


def test_defaults_and_given_values() -> None:
    settings = Example.load(
        GIVEN
        | {
            "TASKYARD_GRPC_PORT": "0",
            "TASKYARD_PEERS": "a:1, b:2,",
            "TASKYARD_TLS": "true",
            "TASKYARD_LEVEL": "",
        },
    )
    assert (settings.grpc_port, settings.peers, settings.tls) == (0, ("a:1", "b:2"), True)
    assert (settings.lease_s, settings.level, settings.advertise) == (60.0, "info", None)
    assert settings.secret.get_secret_value() == "s" * 32


def test_nothing_is_read_but_what_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TASKYARD_GRPC_PORT", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("TASKYARD_GRPC_PORT=2\n")
    assert Example.load(GIVEN).grpc_port == 9090
    construct: Any = Example
    assert construct(secret="x").grpc_port == 9090


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Example.load(GIVEN).grpc_port = 1  # type: ignore[misc]


def test_every_error_is_a_sentence_with_variable_value_rule_and_way_out() -> None:
    said = sentences(
        {
            "TASKYARD_GRPC_PORT": "70000",
            "TASKYARD_LEVEL": "loud",
            "TASKYARD_LEASE_S": "0",
            "TASKYARD_TLS": "perhaps",
        }
    )
    assert said[0] == (
        "TASKYARD_GRPC_PORT is '70000', which breaks its rule: input should be less than or equal to 65535."
        " Set it to an integer from 0 to 65535 (port), or leave it unset for 9090"
    )
    assert "TASKYARD_LEASE_S is '0', which" in said[1]
    assert "a number above 0 (seconds), or leave it unset for 60.0" in said[1]
    assert "TASKYARD_LEVEL is 'loud', which" in said[2]
    assert "one of: debug, info" in said[2]
    assert "TASKYARD_TLS is 'perhaps'" in said[3]
    assert said[4] == "TASKYARD_SECRET is not set and has no default; set it: Signs tokens."


def test_a_rule_over_several_settings_speaks_for_itself() -> None:
    said = sentences(GIVEN | {"TASKYARD_GRPC_PORT": "80", "TASKYARD_TLS": "1"})
    assert said == ["TASKYARD_GRPC_PORT 80 cannot speak TLS; choose another or unset TASKYARD_TLS"]


def test_a_secret_is_never_shown() -> None:
    class Strict(Settings):
        """A secret with a rule."""

        secret: SecretStr = Field(min_length=32, description="Signs tokens.")

    with pytest.raises(SettingsError) as caught:
        Strict.load({"TASKYARD_SECRET": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "hunter2" not in repr(Strict.load({"TASKYARD_SECRET": "hunter2" * 6}))


def test_a_setting_that_nobody_could_understand_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match=r"Mute\.port has no description"):

        class Mute(Settings):
            """One without a description."""

            port: int = 1

    with pytest.raises(TypeError, match=r"Bare\.delay is a number without a unit"):

        class Bare(Settings):
            """One without a unit."""

            delay: float = Field(1.0, description="How long to wait.")


def test_a_typing_error_in_a_variable_is_found() -> None:
    environ = GIVEN | {"TASKYARD_GRCP_PORT": "1", "TASKYARD_XYZZY": "1", "PATH": "/bin"}
    assert unknown_variables(environ, [Example]) == [
        "TASKYARD_GRCP_PORT is no setting; did you mean TASKYARD_GRPC_PORT?",
        "TASKYARD_XYZZY is no setting; it has no effect",
    ]


def test_rows_say_all_that_a_reader_needs() -> None:
    rows = {row.variable: row for row in describe(Example)}
    assert next(iter(rows)) == "TASKYARD_GRPC_PORT"
    port, secret = rows["TASKYARD_GRPC_PORT"], rows["TASKYARD_SECRET"]
    assert (port.kind, port.default, port.unit, port.range) == (
        "an integer",
        "9090",
        "port",
        "from 0 to 65535",
    )
    assert (secret.kind, secret.default, secret.required) == ("a secret", "", True)
    assert rows["TASKYARD_PENDING_LIMIT"].unit == "instances"
    assert rows["TASKYARD_LEVEL"].kind == "one of: debug, info"
    assert rows["TASKYARD_ADVERTISE"].kind == "text"
    assert rows["TASKYARD_TLS"].default == "false"
    assert rows["TASKYARD_PEERS"].kind == "a list, separated by commas"
