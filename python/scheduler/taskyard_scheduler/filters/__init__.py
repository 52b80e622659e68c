"""The filter language of lists: the part of CEL that becomes SQL, and the fields of each list.

    filter     = [ term { "&&" term } ]      term    = comparison | "(" filter ")"
    comparison = field op literal | literal op field | field "in" "[" literal { "," literal } "]" | "tag" "in" field
    literal    = "text" | 'text' | integer | true | false | timestamp("2025-01-31T12:00:00Z") | ENUM_NAME

What else CEL has is recognised and refused by name, with what can be written instead.
"""

from taskyard_scheduler.filters.fields import (
    ARTIFACT_FIELDS,
    DEFINITION_FIELDS,
    PAUSE_FIELDS,
    QUEUE_FIELDS,
    RUN_FIELDS,
    RUN_GROUPS,
    TASK_FIELDS,
    TASK_GROUPS,
    VARIABLE_FIELDS,
    WORKER_FIELDS,
    WORKFLOW_FIELDS,
    Fields,
    FieldSpec,
)
from taskyard_scheduler.filters.matching import matches
from taskyard_scheduler.filters.parser import Op, parse_filter
from taskyard_scheduler.filters.words import FilterError

__all__ = [
    "ARTIFACT_FIELDS",
    "DEFINITION_FIELDS",
    "PAUSE_FIELDS",
    "QUEUE_FIELDS",
    "RUN_FIELDS",
    "RUN_GROUPS",
    "TASK_FIELDS",
    "TASK_GROUPS",
    "VARIABLE_FIELDS",
    "WORKER_FIELDS",
    "WORKFLOW_FIELDS",
    "FieldSpec",
    "Fields",
    "FilterError",
    "Op",
    "matches",
    "parse_filter",
]
