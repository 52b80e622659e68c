"""The scheduler's decisions: events in, changes and effects out. No I/O, no clock, no randomness of its own."""

from taskyard_core.engine.cluster import Limits
from taskyard_core.engine.effects import Batch
from taskyard_core.engine.engine import Engine, Event
from taskyard_core.engine.explain import WaitReason
from taskyard_core.engine.sessions import Standing

__all__ = ["Batch", "Engine", "Event", "Limits", "Standing", "WaitReason"]
