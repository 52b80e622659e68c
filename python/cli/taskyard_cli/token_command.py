"""`token`: signs a token with the scheduler's secret. The scheduler is not asked."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from taskyard_cli.directory import SECRET_FILE, data_directory
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.values import not_empty, seconds

SECRET_MIN_BYTES = 32
"""Below this the scheduler refuses a secret, since tokens could be forged."""


class Role(StrEnum):
    """What a token may do."""

    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    WORKER = "worker"


def sign(secret: str, *, subject: str, tenant: str, role: Role, lifetime: float, now: float) -> str:
    """Returns a token.

    Args:
        secret: The scheduler's.
        subject: Who it is for.
        tenant: Whose data it is about.
        role: What it may do.
        lifetime: Seconds until it ends.
        now: Unix seconds.

    Raises:
        CliError: The secret is too short.
    """
    import jwt  # here, since only this command and `dev` need it, and it takes long to import

    if len(secret.encode()) < SECRET_MIN_BYTES:
        raise CliError(
            f"the secret has {len(secret.encode())} bytes and needs {SECRET_MIN_BYTES}; "
            "make one with `openssl rand -hex 32` and give it to every process as TASKYARD_SECRET",
            Exit.REFUSED,
        )
    claims = {
        "sub": subject, "tenantID": tenant, "role": role.value, "iat": int(now), "exp": int(now + lifetime),
    }  # fmt: skip
    return jwt.encode(claims, secret, algorithm="HS256")


def find_secret(environ: Mapping[str, str]) -> str:
    """Returns the scheduler's secret: TASKYARD_SECRET, else the one that `taskyard dev` made.

    Raises:
        CliError: There is neither, or its file cannot be read.
    """
    if given := environ.get("TASKYARD_SECRET"):
        return given
    left = data_directory(environ) / SECRET_FILE
    try:
        return left.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise CliError(
            f"TASKYARD_SECRET is not set, and `taskyard dev` has left no secret in {left.parent}; set it to the "
            "scheduler's secret, or TASKYARD_DATA to the data directory of `taskyard dev`",
            Exit.USAGE,
        ) from None
    except (OSError, ValueError) as error:
        raise CliError(f"{left} cannot be read ({error}); set TASKYARD_SECRET", Exit.REFUSED) from None


def token(
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.OPERATOR,
    subject: Annotated[str, typer.Option("--subject", "--sub", callback=not_empty, help="Who it is for.")] = "cli",
    tenant: Annotated[str, typer.Option(callback=not_empty, help="Whose data it is about.")] = "default",
    lifetime: Annotated[
        str, typer.Option("--for", callback=not_empty, help="How long it is good, for example 12h or 30d.")
    ] = "24h",
) -> None:
    """Print a token, signed with $TASKYARD_SECRET, else with the secret that `taskyard dev` made."""
    secret = find_secret(os.environ)
    life = seconds(lifetime, "--for") or 0.0
    if life < 1:
        raise CliError(
            f"--for {lifetime}: such a token has ended when it is made; give 1s or more, for example 12h", Exit.USAGE
        )
    typer.echo(sign(secret, subject=subject, tenant=tenant, role=role, lifetime=life, now=time.time()))
