"""Runs one service as a child of `taskyard dev`, and ends it when its parent is gone, however that went.

The parent holds the other end of stdin and never writes: its end is the parent's end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from taskyard_cli.services import service_main

GRACE_S = 20.0
"""How long a service gets to stop by itself once its parent is gone, in seconds."""


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    # Nobody reads our lines any longer, and a service that cannot write them could not stop in order.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Runs the service that the command line names; returns its exit code."""
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    try:
        return int(service_main(sys.argv[1])([]))
    except Exception as error:
        from taskyard_cli.guard import tell  # here, since only a failure needs it and the command-line parser with it

        return tell(error)


if __name__ == "__main__":
    sys.exit(main())
