"""Workflows as graphs: their validation, their shape, and the progress of runs through them."""

from taskyard_core.dag.graph import Graph
from taskyard_core.dag.progress import Progress
from taskyard_core.dag.rules import (
    Decision,
    InvalidTransition,
    RunOutcome,
    StepOutcome,
    StepState,
    TriggerRule,
)
from taskyard_core.dag.validation import validate

__all__ = [
    "Decision",
    "Graph",
    "InvalidTransition",
    "Progress",
    "RunOutcome",
    "StepOutcome",
    "StepState",
    "TriggerRule",
    "validate",
]
