"""The entry of the `taskyard` command. Light, so that Ctrl-C is answered before anything that takes time is loaded."""

from __future__ import annotations

import os
import sys

from taskyard_cli import interrupts

TYPE_CHECKING = False  # not typing's: that takes time
if TYPE_CHECKING:
    import typer


def build(first: str = "") -> typer.Typer:
    """Returns the command; see `tree.build`."""
    from taskyard_cli import tree  # here, since it loads what takes time

    return tree.build(first)


def main() -> None:
    """Runs the command and ends the process with its exit code."""
    interrupts.answer()
    # gRPC tells people of lost connections in its own words; ours say it better.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    build(sys.argv[1] if len(sys.argv) > 1 else "")()
