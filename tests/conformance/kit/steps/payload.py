"""Steps on bytes that are too large for a frame: artifacts that were stored, and outputs that became one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from conformance.kit.seen import output_of
from conformance.kit.stage import Stage
from conformance.kit.steps.expecting import expect, expect_same
from conformance.kit.steps.ruling import pattern
from conformance.kit.unmet import Unmet
from conformance.kit.verb import Object, verb


@verb("scripted")
async def stored(stage: Stage, task: str, bytes: int) -> None:
    """The output names an artifact of so many bytes, byte i being i modulo 251, and their SHA-256."""
    told = output_of(stage.attempt(task).results[-1])
    expect(isinstance(told, dict), f"the output of {task} is {told!r}, but must have `artifact` and `sha256`")
    data = bytes_of(stage, task, told.get("artifact", ""))
    expect(data == pattern(bytes), f"the artifact of {task} has {len(data)} bytes that are not those which were made")
    expect_same(f"the output of {task}", hashlib.sha256(data).hexdigest(), told.get("sha256"))


@verb("scripted")
async def large_output(stage: Stage, task: str, value: Object) -> None:
    """The output became an artifact: the result is its URI and `#`, its bytes are the output's JSON."""
    uri = output_of(stage.attempt(task).results[-1])
    named = isinstance(uri, str) and uri.endswith("#")
    expect(named, f"the output of {task} is {str(uri)[:60]!r}, but must be an artifact's URI and `#`")
    expect_same(f"the output of {task}", stage.fill(value), json.loads(bytes_of(stage, task, uri)))


@verb("scripted")
async def read_artifact(stage: Stage, task: str, name: str) -> None:
    """The output has size and SHA-256 of the artifact of this name."""
    data = stage.scripted.artifacts.get(stage.uris[name]) or b""
    wanted = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    expect_same(f"the output of {task}", wanted, output_of(stage.attempt(task).results[-1]))


def bytes_of(stage: Stage, task: str, uri: Any) -> bytes:
    """Returns the bytes of an artifact that a worker names."""
    data = stage.scripted.artifacts.get(str(uri))
    if data is None:
        raise Unmet(f"the output of {task} names {uri!r}, but no artifact of that URI was uploaded")
    return data
