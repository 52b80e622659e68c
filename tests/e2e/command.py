"""Runs the `taskyard` command against a site, as a person would."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from e2e.process import PATIENCE_S
from e2e.site import Site
from taskyard_service.identity import Role


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


async def taskyard(site: Site, *arguments: str, role: Role = Role.OPERATOR) -> Ran:
    """Runs the command with arguments; nobody is there to be asked."""
    environ = site.environ(TASKYARD_ADDRESS=site.address, TASKYARD_TOKEN=site.token(role))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskyard_cli", *arguments, env=environ, cwd=site.folder,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())
