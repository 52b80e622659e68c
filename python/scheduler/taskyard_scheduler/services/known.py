"""What SQL knows of the request ids and idempotency keys of a call, asked only for what memory does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from taskyard_core.engine.events import Known, NewRun, NewTask, Refused
from taskyard_scheduler.leader import Leader

_NOTHING = Known()


async def look_up(
    leader: Leader, kind: Literal["instance", "run"], tenant: str, items: Sequence[NewTask | NewRun | Refused]
) -> Known:
    """Returns what was made earlier by the request ids and keys of these items."""
    c = leader.engine.cluster
    held = c.keys if kind == "instance" else c.run_keys
    ids: list[str] = []
    keys: list[str] = []
    for item in items:
        if isinstance(item, Refused):
            continue
        if item.request_id is not None and not c.requests_complete and (tenant, item.request_id) not in c.requests:
            ids.append(item.request_id)
        if item.idempotency_key is not None and (tenant, item.idempotency_key) not in held:
            keys.append(item.idempotency_key)
    if not ids and not keys:
        return _NOTHING
    requests = await leader.store.find_requests(kind, tenant, ids) if ids else {}
    found = await leader.store.find_keys(kind, tenant, keys) if keys else {}
    return Known(
        {id: (entry.id, entry.request_hash) for id, entry in requests.items()},
        {key: entry.id for key, entry in found.items()},
    )
