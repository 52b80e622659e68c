"""The handler that the benchmark's workers offer, registered as any user's would be."""

from __future__ import annotations

from taskyard_worker import task


@task("noop")
async def noop() -> None:
    """Does nothing: what is measured is all that is around it."""
