"""Finds the scheduler and the token: options, then the environment, then what `taskyard dev` left."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from taskyard_cli import interrupts
from taskyard_cli.directory import LEFT_BY_DEV, data_directory
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.values import not_empty
from taskyard_cli.wrong_port import speaks_http, told
from taskyard_client import AsyncClient, Unavailable
from taskyard_client.tokens import BadToken, clean_token

T = TypeVar("T")

Address = Annotated[
    str | None,
    typer.Option(
        callback=not_empty, help="The scheduler's host:port. Else $TASKYARD_ADDRESS, else where `taskyard dev` runs."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(callback=not_empty, help="Your token. Else $TASKYARD_TOKEN, else the one that `taskyard dev` made."),
]
Ca = Annotated[
    str | None,
    typer.Option(
        callback=not_empty,
        help="File with the certificates to trust (PEM); makes the connection encrypted. Else $TASKYARD_CA.",
    ),
]


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go and as whom.

    Attributes:
        address: `host:port`.
        token: JWT; None for none.
        ca: File with certificates; None for plain text.
        left_address: Where `taskyard dev` said that its scheduler is; None when it did not.
    """

    address: str
    token: str | None
    ca: str | None = None
    left_address: str | None = None


def find_target(address: str | None, token: str | None, ca: str | None, environ: Mapping[str, str]) -> Target:
    """Returns where to go.

    The token that `taskyard dev` left goes only to the address that it left: it is nobody else's business.

    Raises:
        CliError: No address is known, the file that has it is broken, or the token cannot be sent.
    """
    left = _left_by_dev(data_directory(environ) / LEFT_BY_DEV)
    found = (address or environ.get("TASKYARD_ADDRESS", "")).strip() or left.get("address")
    if not found:
        raise CliError(
            "no scheduler is known: give --address or TASKYARD_ADDRESS, or start one here with `taskyard dev`",
            Exit.NOT_REACHABLE,
        )
    own = left.get("token") if found == left.get("address") else None
    chosen = _sendable(token, "--token") or _sendable(environ.get("TASKYARD_TOKEN"), "TASKYARD_TOKEN") or own
    return Target(found, chosen, ca or environ.get("TASKYARD_CA") or None, left.get("address"))


def _sendable(token: str | None, source: str) -> str:
    try:
        return clean_token(token or "")
    except BadToken as error:
        raise CliError(f"{source}: {error}", Exit.USAGE) from None


def _left_by_dev(path: Path) -> dict[str, str]:
    try:
        left = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(
            f"{path} cannot be read ({error}); remove it, or give --address and --token", Exit.NOT_REACHABLE
        ) from None
    return left if isinstance(left, dict) else {}


def with_client(
    address: str | None,
    token: str | None,
    ca: str | None,
    work: Callable[[AsyncClient], Awaitable[T]],
    *,
    timeout: float = 30.0,
) -> T:
    """Runs `work` with a client, on a loop of its own, and returns what it returns. `timeout`: seconds of one call."""
    target = find_target(address, token, ca, os.environ)

    async def session() -> T:
        async with AsyncClient(target.address, target.token, ca=target.ca, timeout=timeout) as client:
            try:
                return await work(client)
            except Unavailable as error:
                if error.reason or not await speaks_http(target.address):
                    raise
                raise CliError(told(target.address, target.left_address), Exit.NOT_REACHABLE) from None

    return interrupts.run(session())
