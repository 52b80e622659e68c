"""The built-in task type `shell`: runs a command or a script in a process group that dies with the attempt.

The input may come from people who are not trusted with this machine. Whoever offers `shell` lets everyone who
may submit such tasks run programs as the worker's user: leave it out (`--only`, `--no-builtin`) or run the
worker as a user, or in a container, that may do nothing else. The worker's own environment, its token with
it, is not passed on.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED
from taskyard_worker.attempts import Attempt
from taskyard_worker.context import to_json
from taskyard_worker.errors import InvalidInput
from taskyard_worker.outcome import Outcome
from taskyard_worker.output import OutputReader
from taskyard_worker.processes import Child, ProcessHost
from taskyard_worker.verdict import HANDLER_ERROR, cut

PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a command finds of the worker's own environment."""
OUTPUT_LEFT_S = 1.0
"""How long what escaped the group may keep the pipes open once the command has ended."""
MAX_COMMAND_BYTES = 100 * 1024

# Waits for the word that the supervisor knows the group; its end means that the worker died first.
_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")


@dataclass(frozen=True, slots=True)
class Order:
    """A checked input."""

    command: tuple[str, ...]
    script: str | None
    env: Mapping[str, str]
    cwd: str | None


class Shell:
    """Runs `shell` tasks.

    Args:
        host: Starts the processes.
        environ: The worker's environment.
    """

    def __init__(self, host: ProcessHost, environ: Mapping[str, str]) -> None:
        self._host = host
        self._base = {name: environ[name] for name in PASSED_ON if name in environ}

    async def run(self, attempt: Attempt) -> dict[str, Any] | Outcome:
        """Run a command; an exit code other than 0 is a failure that is tried again.

        Raises:
            InvalidInput: The input breaks a rule.
        """
        order = read_order(attempt.input())
        with tempfile.TemporaryDirectory(prefix="taskyard-", ignore_cleanup_errors=True) as directory:
            command = order.command
            if order.script is not None:
                command = script_command(Path(directory), order.script)
            try:
                child = await self._host.start(
                    (*_GATE, *command),
                    token=attempt.token,
                    env={**self._base, **order.env, "TASKYARD_TASK_ID": attempt.task_id},
                    cwd=order.cwd or directory,
                    stdin=subprocess.PIPE,
                )
            except OSError as error:
                raise InvalidInput(f"the command cannot be started: {error}") from error
            return await self._attend(attempt, child)

    async def _attend(self, attempt: Attempt, child: Child) -> dict[str, Any] | Outcome:
        readers = {name: OutputReader(partial(attempt.write_output, name)) for name in ("stdout", "stderr")}
        reading = [
            asyncio.create_task(readers[name].read(pipe), name=f"{name} of {attempt.task_id}")
            for name, pipe in (("stdout", child.stdout), ("stderr", child.stderr))
        ]
        try:
            child.say_go()
            code = await child.wait()
            await asyncio.wait(reading, timeout=OUTPUT_LEFT_S)
        except asyncio.CancelledError:
            await child.end(attempt.stop.grace_s if attempt.stop is not None else 0.0)
            await asyncio.wait(reading, timeout=OUTPUT_LEFT_S)
            raise
        finally:
            child.kill()
            child.forget()
            self._host.leases.forget(attempt.token)
            for task in reading:
                task.cancel()
        for reader in readers.values():
            reader.finish()
        return ended(code, readers["stdout"].tail, readers["stderr"].tail)


def ended(code: int, stdout_tail: str, stderr_tail: str) -> dict[str, Any] | Outcome:
    """Return the output; for an exit code other than 0 as a failure that still carries it."""
    exit_code = code if code >= 0 else 128 - code
    output = {"exit_code": exit_code, "stdout_tail": stdout_tail, "stderr_tail": stderr_tail}
    if code == 0:
        return output
    how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    last = next((line for line in reversed(stderr_tail.splitlines()) if line.strip()), "")
    error = cut(f"the command ended with {how}" + (f": {last}" if last else ""))
    return Outcome(TASK_STATUS_FAILED, to_json(output), error, HANDLER_ERROR)


def script_command(directory: Path, script: str) -> tuple[str, ...]:
    """Write the script to a file and return how to run it: by its own first line, or by sh."""
    path = directory / "script"
    path.write_text(script, encoding="utf-8")
    if not script.startswith("#!"):
        return ("/bin/sh", str(path))
    path.chmod(0o700)
    return (str(path),)


def read_order(values: Mapping[str, Any]) -> Order:
    """Check the input. Raises InvalidInput."""
    command, script = values.get("command"), values.get("script")
    if (command is None) == (script is None):
        raise InvalidInput("a shell task has either 'command' or 'script'; give exactly one of them")
    if script is not None:
        return Order((), text_of("script", script), env_of(values.get("env")), cwd_of(values.get("cwd")))
    if isinstance(command, str):
        words: Sequence[str] = ("/bin/sh", "-c", text_of("command", command))
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        words = [text_of("command", word) for word in command]
    else:
        raise InvalidInput("'command' is a line for the shell, or a list of a program and its arguments, all text")
    if sum(len(word.encode()) for word in words) > MAX_COMMAND_BYTES:
        raise InvalidInput(f"'command' has more than {MAX_COMMAND_BYTES} bytes; give it as 'script'")
    return Order(tuple(words), None, env_of(values.get("env")), cwd_of(values.get("cwd")))


def text_of(field: str, value: Any) -> str:
    """Return a text that a program can be given."""
    if not isinstance(value, str) or "\0" in value:
        raise InvalidInput(f"{field!r} must be text without NUL")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field!r} is not valid Unicode: {error.reason}") from error
    return value


def env_of(value: Any) -> Mapping[str, str]:
    """Return the environment that the input adds."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput("'env' must be an object of names and texts")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise InvalidInput(f"'env' has the name {name!r}; a name is not empty and has no '=' and no NUL")
        text_of(f"env.{name}", text)
    return value


def cwd_of(value: Any) -> str | None:
    """Return the directory to run in; None: a fresh one."""
    if value is None:
        return None
    path = text_of("cwd", value)
    with suppress(OSError):
        if os.path.isdir(path):
            return path
    raise InvalidInput(f"'cwd' is {path[:200]!r}, which is no directory on this worker")
