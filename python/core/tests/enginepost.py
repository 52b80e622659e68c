"""A lab whose workers are far away: their words and its frames travel, and arrive when the test says so."""

from __future__ import annotations

from typing import Any

from enginekit import FakeWorker, Lab

from taskyard_core.engine.events import Hello, StreamClosed, WorkerFrame


class PostedWorker(FakeWorker):
    """A worker whose words and frames travel: each stream keeps its order, all else may overtake."""

    inbox: list[tuple[object, Any]]

    def deliver(self, stream: object, going: Any) -> None:
        self.inbox.append((stream, going))

    def read(self) -> None:
        """Takes in the oldest frame."""
        super().deliver(*self.inbox.pop(0))


class PostLab(Lab):
    """A lab in which workers' events wait to be delivered."""

    def __init__(self) -> None:
        self.mail: dict[object, list[Any]] = {}
        self.posting = True
        super().__init__()

    def handle(self, event: Any) -> Any:
        stream = getattr(event, "stream", None)
        if self.posting and stream is not None and isinstance(event, Hello | WorkerFrame | StreamClosed):
            self.mail.setdefault(stream, []).append(event)
            return 0
        return super().handle(event)
