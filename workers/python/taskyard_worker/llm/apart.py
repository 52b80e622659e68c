"""An answer compared with a schema in a process of its own, which ends by force once it has used its time.

Patterns may take for ever (`(a+)+$`), references may multiply, and neither can be stopped in a thread: Python's regular
expressions hold the interpreter while they search.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Any

from taskyard_worker.errors import InvalidInput
from taskyard_worker.isolation import HIDDEN
from taskyard_worker.llm.schema import Misfit, Schema
from taskyard_worker.processes import Child, ProcessHost

CPU_S = 5
"""Seconds of processor time that a comparison may use, its start of about 0.3 s among them."""
COMMAND = (sys.executable, "-m", "taskyard_worker.llm.apart")


class Apart:
    """Compares answers with schemas where neither can hold the worker.

    Args:
        host: Starts the processes.
        environ: The worker's environment; they get it without its secrets.
    """

    def __init__(self, host: ProcessHost, environ: Mapping[str, str]) -> None:
        self._host = host
        self._env = {name: value for name, value in environ.items() if name not in HIDDEN}

    async def compare(self, schema: Schema, value: Any) -> None:
        """Return when the value follows the schema.

        Raises:
            Misfit: It does not.
            InvalidInput: The schema refers to what is not in it, or the comparison takes too long.
        """
        with tempfile.TemporaryFile() as order:
            order.write(json.dumps([schema.schema, value]).encode())
            order.seek(0)
            code, said = await self._run(order)
        if code == -signal.SIGXCPU:
            raise InvalidInput(
                f"to compare the answer with 'response_schema' takes more than {CPU_S} s: a 'pattern' in it repeats "
                "what it repeats already, like (a+)+, or its references multiply; simplify it"
            )
        if code != 0:
            raise RuntimeError(f"the comparison with 'response_schema' ended with code {code}: {said[-2000:]}")
        raise_for(json.loads(said))

    async def _run(self, order: IO[bytes]) -> tuple[int, str]:
        child = await self._host.start(COMMAND, token="", env=self._env, stdin=order.fileno())
        try:
            return await ended(child)
        finally:
            child.kill()
            child.forget()


async def ended(child: Child) -> tuple[int, str]:
    """Return the exit code and what was said: the verdict, or what went wrong."""
    said = await child.stdout.read(-1)
    errors = await child.stderr.read(-1)
    code = await child.exited()
    return code, (errors if code else said).decode(errors="replace")


def raise_for(verdict: Mapping[str, str]) -> None:
    """Raise what the process found."""
    if "misfit" in verdict:
        raise Misfit(verdict["misfit"])
    if "invalid" in verdict:
        raise InvalidInput(verdict["invalid"])


def main() -> None:
    """Compare what stdin has, and say the verdict. The child's side."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    schema, value = json.load(sys.stdin)
    verdict: dict[str, str] = {}
    try:
        Schema(schema).compare(value)
    except Misfit as error:
        verdict["misfit"] = str(error)
    except InvalidInput as error:
        verdict["invalid"] = str(error)
    sys.stdout.write(json.dumps(verdict))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
