"""JSON log lines on stderr, one object a line, with bound context (component, scheduler_id, term).

No global state but what `adopt_stdlib` is asked to change; nobody prints.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import FilteringBoundLogger, Processor

LEVELS = ("debug", "info", "warning", "error")


def make_logger(component: str, level: str = "info", stream: TextIO | None = None) -> FilteringBoundLogger:
    """Returns a logger whose lines carry `component`; bind more with `log.bind(scheduler_id=..., term=...)`.

    Args:
        component: Which process or part of it speaks.
        level: The least severe level that is written: debug, info, warning or error.
        stream: Where lines go; stderr when None.

    Raises:
        ValueError: The level is none of the four.
    """
    if level not in LEVELS:
        raise ValueError(f"the log level is {level!r}; it must be one of: {', '.join(LEVELS)}")
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=_processors(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
        cache_logger_on_first_use=True,
        component=component,
    ).bind()
    return logger


def adopt_stdlib(log: FilteringBoundLogger, level: str = "warning") -> None:
    """Sends what libraries log through Python's own logging to `log`. Call it once, in a process's main."""
    root = logging.getLogger()
    root.handlers = [_Forward(log)]
    root.setLevel(level.upper())


def _processors() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        # Without local variables: they hold requests, tokens and secrets.
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(default=str),
    ]


class _Forward(logging.Handler):
    """Passes records of Python's own logging on as events of ours."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            context: dict[str, Any] = {"logger": record.name}
            if record.exc_info:
                context["exc_info"] = record.exc_info
            self._log.log(min(record.levelno, logging.CRITICAL), record.getMessage(), **context)
        except Exception:  # a bad record must not end what logs it; stdlib's own way to say so
            self.handleError(record)
