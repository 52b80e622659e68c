"""Names of the metrics' label values. The metrics themselves are the service's."""

from __future__ import annotations

from typing import Final

STATUS_NAMES: Final = {2: "SUCCESS", 3: "FAILED", 4: "TIMEOUT", 8: "CANCELLED", 9: "SKIPPED"}
"""Label `status` of the task metrics, by TaskState."""
