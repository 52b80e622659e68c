"""Runs the commands of a page, in order, in one shell: what a reader does who follows it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from docs.pages import ROOT, Block, blocks, missing

PATIENCE_S = 60.0
"""How long one block may take on a busy machine."""

AGAIN_S = 0.2
"""Between two looks at what changes by itself."""

USUAL = {"127.0.0.1:9090": "gRPC", "127.0.0.1:8081": "HTTP"}
"""The addresses that pages name, by what `taskyard dev` calls them."""


class Unlike(AssertionError):
    """The page says otherwise."""


class Session:
    """A shell, and the program that the reader leaves running in another terminal.

    Args:
        folder: Where the reader works; empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environ = _environment(folder)
        self._shell: asyncio.subprocess.Process | None = None
        self._python: asyncio.subprocess.Process | None = None
        self._background: asyncio.subprocess.Process | None = None
        self._places: dict[str, str] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Opens the shell; at the end stops the other terminal's program, which must end well."""
        self._shell = await self._start("bash", "--norc", "--noprofile")
        try:
            yield
            if self._python is not None:
                printed, _ = await asyncio.wait_for(self._python.communicate(b""), PATIENCE_S)
                assert (self._python.returncode, printed) == (0, b""), printed.decode()
            await self._stop_background()
        finally:
            for process in (self._shell, self._python, self._background):
                if process is not None and process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _stop_background(self) -> None:
        """Presses Ctrl-C in the other terminal, where something runs there."""
        if self._background is None:
            return
        self._background.send_signal(signal.SIGINT)
        code = await asyncio.wait_for(self._background.wait(), PATIENCE_S)
        assert code == 0, f"what ran in the background ended with {code}"
        self._background = None

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, env=self._environ, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def follow(self, page: Path) -> int:
        """Does what a page says; returns how many blocks it ran.

        Raises:
            Unlike: A command printed something else, or ended with another code.
        """
        listed = blocks(page)
        ran = 0
        for block, after in zip(listed, [*listed[1:], None], strict=True):
            if name := block.options.get("file"):
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            if "run" in block.words:
                printed = await self._run(block)
                ran += 1
                if after is not None and "expect" in after.words and (line := missing(after.text, printed)):
                    raise Unlike(f"{after}: `{line}` was not printed (in this order) by {block}:\n{printed}")
        return ran

    async def _run(self, block: Block) -> str:
        async with asyncio.timeout(PATIENCE_S):
            if "background" in block.words:
                return await self._run_background(block)
            if block.language == "python":
                return await self._run_python(block)
            until = block.options.get("until", "")
            while True:
                printed = await self._run_once(block)
                if until in printed:
                    return printed
                await asyncio.sleep(AGAIN_S)

    async def _run_background(self, block: Block) -> str:
        await self._stop_background()  # a page that starts it again has said to stop it
        # The usual ports may be taken where the tests run.
        command = block.text.strip().replace("taskyard dev", "exec taskyard dev --port 0 --http-port 0")
        self._background = await self._start("bash", "-c", command)
        assert self._background.stdout is not None
        printed = ""
        while block.options["until"] not in printed:
            line = await self._background.stdout.readline()
            if not line:
                raise Unlike(f"{block} ended:\n{printed}")
            printed += line.decode()
        for usual, name in USUAL.items():
            if found := re.search(rf"^ +{name} +(?:http://)?(\S+)", printed, re.MULTILINE):
                self._places[usual] = found[1]
        return printed

    def _here(self, text: str) -> str:
        """Returns a block's text with the addresses that what runs in the background has here."""
        for usual, place in self._places.items():
            text = text.replace(usual, place)
        return text

    async def _run_python(self, block: Block) -> str:
        if self._python is None:
            self._python = await self._start(sys.executable, str(Path(__file__).with_name("interpreter.py")))
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps([str(block), block.text]).encode() + b"\n")
        await self._python.stdin.drain()
        printed = (await self._python.stdout.readuntil(b" ---\n")).decode()
        said, _, end = printed.rpartition("\n--- ended ")
        if not end.startswith(block.options.get("raises", "well")):
            raise Unlike(f"{block} ended {end.removesuffix(' ---')}:\n{said}")
        return said

    async def _run_once(self, block: Block) -> str:
        assert self._shell is not None
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{self._here(block.text)}\nprintf '\\n--- ended %s ---\\n' $?\n".encode())
        await self._shell.stdin.drain()
        printed = (await self._shell.stdout.readuntil(b" ---\n")).decode()
        while not (end := re.search(r"\n--- ended (\d+) ---\n$", printed)):
            printed += (await self._shell.stdout.readuntil(b" ---\n")).decode()
        printed = printed[: end.start()]
        wanted = int(block.options.get("exit", "0"))
        if int(end[1]) != wanted or (wanted == 0 and "error:" in printed):
            raise Unlike(f"{block} ended with {end[1]} and not {wanted}:\n{printed}")
        return printed


def _environment(folder: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "TASKYARD_DATA": str(folder.parent / "data"), "CHECKOUT": str(ROOT)}
