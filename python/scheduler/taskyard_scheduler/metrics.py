"""Names of the metrics' label values. The metrics themselves are the service's."""

from __future__ import annotations

from typing import Final

STATUS_NAMES: Final = {2: "success", 3: "failed", 4: "timeout", 8: "cancelled", 9: "skipped"}
"""Label `status` of the task metrics, by TaskState."""
