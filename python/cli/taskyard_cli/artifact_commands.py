"""`artifacts list`, `artifacts show`, `artifacts get`, `artifacts put`, `artifacts delete`."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, OutputOption, answer, on_terminal
from taskyard_cli.several import told_each
from taskyard_cli.show import err, facts, harmless, table, when
from taskyard_cli.values import not_empty
from taskyard_client import AsyncClient
from taskyard_client.artifact_values import ValueReference, read_value

STDIO = "-"
CHUNK_BYTES = 1024 * 1024
LONG_BYTES = 8 * 1024 * 1024
"""From so many bytes on a terminal shows how far it is."""

VALUE_BYTES = 256 * 1024 * 1024
"""An artifact of more bytes is not read into memory to find a value in it; workers have the same limit."""

Artifact = Annotated[
    str, typer.Argument(callback=not_empty, help="Its URI (artifact://…) or its id.", show_default=False)
]
ArtifactOrValue = Annotated[
    str,
    typer.Argument(
        callback=not_empty,
        help="Its URI (artifact://…) or its id; the URI, # and a JSON pointer for a value in it.",
        show_default=False,
    ),
]
Artifacts = Annotated[
    list[str], typer.Argument(callback=not_empty, help="Their URIs (artifact://…) or ids.", show_default=False)
]
Tell = Callable[[int], None]


def list_artifacts(
    filter_: Annotated[
        str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression: docs/filters.md.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List artifacts, newest first."""

    async def work(client: AsyncClient) -> pb.ListArtifactsResponse:
        found = [each async for each in client.artifacts.list(filter=filter_ or "", limit=limit)]
        return pb.ListArtifactsResponse(artifacts=found)

    page = with_client(address, token, ca, work)
    rows = (
        (each.artifact_id, decimal(each.size), each.media_type, each.name, each.task_id, when(each.create_time))
        for each in page.artifacts
    )
    columns = ("ID", "SIZE", "TYPE", "NAME", "TASK ID", "CREATED")
    answer(page, output, lambda: table(columns, rows, empty="no artifacts; `taskyard artifacts put` makes one"))


def show_artifact(
    artifact: Artifact,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show what is known of an artifact."""
    found = with_client(address, token, ca, lambda client: client.artifacts.get(artifact))
    pairs = [
        ("artifact", found.uri), ("name", found.name), ("type", found.media_type),
        ("size", f"{found.size:,} bytes"), ("SHA-256", found.sha256), ("task", found.task_id),
        ("created", when(found.create_time)),
    ]  # fmt: skip
    answer(found, output, lambda: facts(pairs))


def get_artifact(
    artifact: ArtifactOrValue,
    file: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            callback=not_empty,
            help="Where to; - is stdout. Default: a file here that is called as the artifact, and must not exist; "
            "of a value, stdout.",
        ),
    ] = None,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Fetch an artifact's bytes, or print a value in it (artifact://ID#/pointer) as JSON.

    A file is there once it is whole and its SHA-256 is right.
    """
    if (reference := read_value(artifact)) is not None:
        _give(with_client(address, token, ca, lambda client: _value(client, reference)), file or STDIO)
        return

    async def work(client: AsyncClient) -> None:
        known = await client.artifacts.get(artifact)
        with _progress(known.size) as tell:
            if file == STDIO:
                async for chunk in client.artifacts.open(artifact, progress=tell):
                    sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
                return
            path = _place(known, file)
            try:
                await client.artifacts.download(artifact, path, progress=tell)
            except OSError as error:
                raise CliError(f"{path} cannot be written: {error.strerror or error}", Exit.NOT_WRITTEN) from None
        err().print(Text(f"{known.size:,} bytes written to {harmless(str(path))}"))

    with_client(address, token, ca, work)


async def _value(client: AsyncClient, reference: ValueReference) -> bytes:
    """Returns the value that a reference stands for, as a line of JSON."""
    size = (await client.artifacts.get(reference.artifact_id)).size
    if size > VALUE_BYTES:
        way = f"fetch its bytes: taskyard artifacts get {reference.artifact_id}"
        raise CliError(f"{decimal(size)} are too many to look for a value in; {way}", Exit.REFUSED)
    value = await client.artifacts.resolve(reference.text)
    # Half a surrogate pair, which JSON may have and UTF-8 may not, stays the escape that it was.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _give(data: bytes, file: str) -> None:
    if file == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise CliError(f"{harmless(file)} cannot be written: {error.strerror or error}", Exit.NOT_WRITTEN) from None


def put_artifact(
    file: Annotated[str, typer.Argument(callback=not_empty, help="A file; - reads stdin.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(callback=not_empty, help="A name for people. Default: the file's.")
    ] = None,
    media_type: Annotated[
        str | None, typer.Option(callback=not_empty, help="What it is, such as text/csv. Default: as the name says.")
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Upload a file as an artifact and print its URI, which inputs may have as a value."""

    async def work(client: AsyncClient) -> pb.Artifact:
        data: Path | Iterable[bytes] = _stdin() if file == STDIO else Path(file)
        with _progress(_size(file)) as tell:
            return await client.artifacts.upload(data, name or "", media_type or "", progress=tell)

    stored = with_client(address, token, ca, work)
    answer(stored, output, lambda: Text(stored.uri))


def delete_artifacts(
    artifacts: Artifacts,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Delete artifacts that nothing refers to."""

    async def one(client: AsyncClient, artifact: str) -> str:
        await client.artifacts.delete(artifact)
        return "deleted"

    with_client(address, token, ca, lambda client: told_each(client, artifacts, one))


def _place(known: pb.Artifact, file: str | None) -> Path:
    """Returns where an artifact goes: where its name says only within this folder, and over nothing."""
    if file is not None:
        return Path(file)
    path = Path(Path(known.name).name or known.artifact_id)
    if path.exists():
        raise CliError(f"{harmless(str(path))} exists: give a place with -o FILE, or -o - for stdout", Exit.REFUSED)
    return path


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size if file != STDIO else 0
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise CliError(f"there is no file {harmless(file)}", Exit.REFUSED) from None
        raise CliError(f"{harmless(file)} cannot be read: {error.strerror or error}", Exit.REFUSED) from None


def _stdin() -> Iterator[bytes]:
    while chunk := sys.stdin.buffer.read(CHUNK_BYTES):
        yield chunk


@contextmanager
def _progress(size: int) -> Iterator[Tell | None]:
    """Shows people how far it is, where that takes long."""
    if size < LONG_BYTES or not on_terminal():
        yield None
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), transient=True) as shown:
        bar = shown.add_task("", total=size)
        yield lambda done: shown.update(bar, completed=done)
