"""Which task types live workers offer, and what a type was perhaps meant to be."""

from __future__ import annotations

import difflib

from taskyard_client import AsyncClient

ANY = "*"
"""The capability of a worker that takes every type."""
WORKERS_LIMIT = 10_000
"""Of more workers none is looked at: a note is not worth so much reading."""


async def offered_types(client: AsyncClient) -> set[str] | None:
    """Returns the types that live workers offer, or ANY alone; None when there are too many workers.

    Raises:
        TaskyardError: The caller may not see workers, or nobody is there to ask.
    """
    offered: set[str] = set()
    count = 0
    async for worker in client.workers(filter='state in ["HEALTHY", "EXPECTED"]', page_size=1_000):
        offered.update(worker.capabilities)
        count += 1
        if count == WORKERS_LIMIT or ANY in offered:
            return None if ANY not in offered else {ANY}
    return offered


def meant(task_type: str, offered: set[str]) -> str:
    """Returns a question, with a space before it, when an offered type has nearly this name; else nothing."""
    near = difflib.get_close_matches(task_type, sorted(offered), 1)
    return f" Did you mean {near[0]}?" if near else ""
