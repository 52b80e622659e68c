"""Speaks for the worker while its event loop is held: says what has started, so that it is not given to another.

Called by the guard of the loop (`watchdog`), in the guard's thread. Not the way to the scheduler: that is `grpc_link`.
"""

from __future__ import annotations

from typing import Protocol

from taskyard.v1.workers_pb2 import HeartbeatRequest, HeartbeatResponse
from taskyard_worker.link import LinkError
from taskyard_worker.logs import Logger
from taskyard_worker.session import Session
from taskyard_worker.work import Work

REPEAT_S = 2.0
"""How often it says again what it has said: the scheduler may have heard an older word of the worker since."""


class DirectLink(Protocol):
    """A way to the scheduler that needs no event loop."""

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Send a heartbeat and block the calling thread until it is answered, for a short time. Raises LinkError."""
        ...


class StandIn:
    """What a held worker can still say.

    Args:
        work: Knows what was entered.
        session: Knows who speaks.
        link: The way to the scheduler.
        log: The worker's own log.
    """

    def __init__(self, work: Work, session: Session, link: DirectLink, log: Logger) -> None:
        self._work = work
        self._session = session
        self._link = link
        self._log = log
        self._told: frozenset[str] = frozenset()
        self._told_at = 0.0
        self._complained = False

    def held(self, now: float) -> None:
        """The loop is held, as it is again and again until it goes on. In a thread of its own."""
        self._work.doubt.mark(now)
        entered = frozenset(self._work.entered_tokens())
        if not entered or not self._session.registered:
            return
        if entered <= self._told and now - self._told_at < REPEAT_S:
            return
        try:
            self._link.heartbeat(self._session.heartbeat(started=sorted(entered)))
        except LinkError as error:
            self._complain(error)
        else:
            self._told, self._told_at = entered, now

    def free(self) -> None:
        """The loop goes on: say so at once, and ask what is still this worker's. On the loop."""
        self._told, self._complained = frozenset(), False
        self._session.beat_now()

    def _complain(self, error: LinkError) -> None:
        if not self._complained:
            self._complained = True
            self._log.warning(
                "the event loop is held, and the scheduler could not be told what has started",
                code=error.code,
                error=error.message,
            )
