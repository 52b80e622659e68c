"""The words of a run's progress, and the table that says what each trigger rule makes of upstream ends."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

from taskyard_core.violations import CoreError


class TriggerRule(StrEnum):
    """When a step starts, seen from the ends of its upstream steps. A step without upstream starts at once.

    "Failed" below means ended as FAILED, UPSTREAM_FAILED or CANCELLED.
    """

    ALL_SUCCESS = "all_success"
    """Ready when all succeeded; out of reach at the first failed; skipped when all ended, some skipped."""
    ALL_DONE = "all_done"
    """Ready when all ended, however."""
    ONE_SUCCESS = "one_success"
    """Ready at the first success; when all ended without: out of reach if one failed, else skipped."""
    ONE_FAILED = "one_failed"
    """Ready at the first FAILED or UPSTREAM_FAILED (not CANCELLED); skipped when all ended without."""
    NONE_FAILED = "none_failed"
    """Ready when all ended and none failed (skipped ones do not matter); out of reach at the first failed."""


class StepState(IntEnum):
    """Where a step of a run stands."""

    WAITING = 0
    """Undecided. Left by a decision, or by being cancelled or skipped from outside."""
    READY = 1
    """To be run, or running. Left by its end."""
    SUCCESS = 2
    """Ended well. Left only by `Progress.reopen`, as are the following."""
    FAILED = 3
    """Ended badly, after all its retries."""
    SKIPPED = 4
    """Never run, and nobody minds."""
    UPSTREAM_FAILED = 5
    """Never run, because of a failure upstream."""
    CANCELLED = 6
    """Stopped, or never started, because somebody wanted it so."""


class StepOutcome(IntEnum):
    """How a step ended; the numbers are those of `StepState`."""

    SUCCESS = 2
    FAILED = 3
    SKIPPED = 4
    UPSTREAM_FAILED = 5
    CANCELLED = 6


class Decision(IntEnum):
    """What becomes of a step that waited; the numbers are those of the `StepState` that follows."""

    READY = 1
    SKIP = 4
    UPSTREAM_FAILED = 5


class RunOutcome(StrEnum):
    """How a run ended, judged by its leaves (the steps that nothing depends on)."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class InvalidTransition(CoreError):
    """A step was told to end that cannot: it ended before, or was never ready."""


# Plain integers beside the enums: the hot path stores them in bytes and indexes tables by them.
WAITING: Final = 0
READY: Final = 1
SUCCESS: Final = 2
FAILED: Final = 3
SKIPPED: Final = 4
OUT_OF_REACH: Final = 5
CANCELLED: Final = 6

RULE_CODES: Final = {rule: code for code, rule in enumerate(TriggerRule)}
DECISIONS: Final = {int(decision): decision for decision in Decision}

# What is remembered of the upstream ends that did not decide a step at once.
SAW_FAILURE: Final = 1
SAW_SKIP: Final = 2
SEEN: Final = (0, 0, 0, SAW_FAILURE, SAW_SKIP, SAW_FAILURE, SAW_FAILURE)

# By rule and state of one upstream step: the state that follows at once, 0 for none.
AT_ONCE: Final = (
    (0, 0, 0, OUT_OF_REACH, 0, OUT_OF_REACH, OUT_OF_REACH),
    (0, 0, 0, 0, 0, 0, 0),
    (0, 0, READY, 0, 0, 0, 0),
    (0, 0, 0, READY, 0, READY, 0),
    (0, 0, 0, OUT_OF_REACH, 0, OUT_OF_REACH, OUT_OF_REACH),
)
# By rule and what was seen (nothing, failure, skip, both): the state that follows when all have ended.
AT_LAST: Final = (
    (READY, OUT_OF_REACH, SKIPPED, OUT_OF_REACH),
    (READY, READY, READY, READY),
    (SKIPPED, OUT_OF_REACH, SKIPPED, OUT_OF_REACH),
    (SKIPPED, SKIPPED, SKIPPED, SKIPPED),
    (READY, OUT_OF_REACH, READY, OUT_OF_REACH),
)
