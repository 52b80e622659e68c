"""The function of the built-in task type `replay`: a step as it was recorded elsewhere. It reads, sleeps, and writes.

Loads quickly, since an exclusive task runs it in a process.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from taskyard_client.artifact_transfer import CHUNK_BYTES
from taskyard_worker.context import Context
from taskyard_worker.errors import InvalidInput
from taskyard_worker.tasks.sleep import sleep

MEDIA_TYPE = "application/octet-stream"


async def replay(ctx: Context, seconds: Any = 0, read: Any = (), write: Any = None, **rest: Any) -> dict[str, Any]:
    """Read artifacts to their ends, sleep, and write artifacts of the sizes given.

    Args:
        ctx: The attempt.
        seconds: As `sleep` has it.
        read: URIs of artifacts.
        write: Bytes by name.
        rest: Nothing.

    Raises:
        InvalidInput: The input breaks a rule.
    """
    if rest:
        known = "'seconds', 'read' and 'write'"
        raise InvalidInput(f"{next(iter(rest))[:200]!r} is no input of replay, which has {known}; correct its name")
    uris, sizes = _read_of(read), _write_of(write)
    for uri in uris:
        async for _ in ctx.artifacts.open(uri):
            pass
    slept = await sleep(seconds)
    files = {name: await ctx.artifacts.put(_content(name, size), name, MEDIA_TYPE) for name, size in sizes.items()}
    return {**slept, "files": files}


def _read_of(read: Any) -> Sequence[str]:
    if isinstance(read, list | tuple) and all(isinstance(each, str) for each in read):
        return read
    raise InvalidInput(f"'read' is {str(read)[:80]!r}; it must be a list of artifacts' URIs")


def _write_of(write: Any) -> Mapping[str, int]:
    if write is None:
        return {}
    if isinstance(write, dict) and all(type(size) is int and size >= 0 for size in write.values()):
        return write
    raise InvalidInput(f"'write' is {str(write)[:80]!r}; it must be an object of names with numbers of bytes from 0")


async def _content(name: str, size: int) -> AsyncIterator[bytes]:
    """Yield bytes that differ from file to file, and are the same each time."""
    block = hashlib.shake_256(name.encode("utf-8", "replace")).digest(min(size, CHUNK_BYTES))
    for start in range(0, size, CHUNK_BYTES):
        yield block[: size - start]
