"""The worker's own log: JSON lines on stderr. Not the logs of tasks, which go to the scheduler (`logbook`)."""

from __future__ import annotations

import logging
import sys
from typing import Protocol, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer


class Logger(Protocol):
    """What the worker's modules log to."""

    def debug(self, event: str, /, **facts: object) -> object:
        """Log what only helps to find a fault."""
        ...

    def info(self, event: str, /, **facts: object) -> object:
        """Log what happened."""
        ...

    def warning(self, event: str, /, **facts: object) -> object:
        """Log what may need a look."""
        ...

    def error(self, event: str, /, **facts: object) -> object:
        """Log what went wrong."""
        ...


def json_logger(level: str, **facts: object) -> Logger:
    """Return a logger that writes JSON lines to stderr, each with the given facts.

    Args:
        level: DEBUG, INFO, WARNING or ERROR.
        facts: What every line says.
    """
    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            # Without local variables: they hold tasks' inputs.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
    )
    return cast(Logger, logger.bind(**facts))
