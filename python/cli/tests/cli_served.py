"""A scripted server on a loop of its own, for commands that run in the test's thread."""

from __future__ import annotations

from collections.abc import Callable

from scripted_server import ScriptedServer
from typer.testing import Result

from taskyard_client.loop_thread import LoopThread

Cli = Callable[..., Result]
"""Runs the command with arguments."""


class Served:
    """The server and its thread."""

    def __init__(self) -> None:
        self.thread = LoopThread("scripted-server")
        self.server = ScriptedServer()
        self.model = self.server.model
        self.wire = self.server.wire
        self.thread.run(self.server.start())

    def close(self) -> None:
        self.thread.run(self.server.stop())
        self.thread.close()
