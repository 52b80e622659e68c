"""The last ends that were committed: what is asked for most, and would be in SQL alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from taskyard_core.records import ENDED, INSTANCE_CHANGING, Instance, Row, committed_row

KEPT: Final = 1_024
TEXT_LIMIT: Final = 4_096
"""Ends with more characters of input, params and output are left to SQL, so that all that is kept is a few MB."""

_PHASE: Final = INSTANCE_CHANGING.index("phase") - len(INSTANCE_CHANGING)  # from the end, as both kinds of row have it
_OUTPUT: Final = INSTANCE_CHANGING.index("output_json") - len(INSTANCE_CHANGING)


class RecentEnds:
    """The rows of instances that ended lately, as committed, the oldest first. Fed with all commits, in their order."""

    def __init__(self) -> None:
        """Knows none yet."""
        self._ends: dict[str, tuple[Instance, Row]] = {}

    def take(self, touched: Sequence[tuple[Instance, Row]], deleted: Iterable[tuple[str, str]]) -> None:
        """Takes in what a commit changed: (instance, its INSTANCE_COLUMNS or INSTANCE_UPDATE row); and (tenant, id)."""
        ends = self._ends
        for entry in touched:
            instance, row = entry
            id = instance.id
            if id in ends:
                del ends[id]  # run again, or ended again: the newest goes last
            if row[_PHASE] == ENDED and _is_small(instance, row):
                ends[id] = entry
        for _, id in deleted:
            ends.pop(id, None)
        for id in list(islice(ends, max(0, len(ends) - KEPT))):
            del ends[id]

    def row(self, id: str) -> Row | None:
        """Returns the INSTANCE_COLUMNS row of an instance that has ended, None when it is not known here."""
        entry = self._ends.get(id)
        return committed_row(*entry) if entry is not None else None


def _is_small(instance: Instance, row: Row) -> bool:
    size = len(row[_OUTPUT]) + len(instance.params_json) + len(instance.input_json)
    return size <= TEXT_LIMIT and not instance.checkpoint_number  # checkpoints are in a table of their own
