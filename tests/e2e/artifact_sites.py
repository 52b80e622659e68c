"""What tests on artifacts look at behind the API, and the raw messages that no client library would send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from e2e.process import Process
from e2e.site import Site
from taskyard.v1 import artifacts_pb2 as pb
from taskyard_client import AsyncClient

MIB = 1024 * 1024


def files_of(site: Site) -> list[Path]:
    """Returns the files of artifacts that are whole."""
    return [each for each in (site.data / "artifacts").rglob("*") if each.is_file() and ".incoming" not in each.parts]


def incoming(site: Site) -> list[Path]:
    """Returns the files of artifacts on their way."""
    folder = site.data / "artifacts" / ".incoming"
    return list(folder.iterdir()) if folder.exists() else []


def arriving(site: Site) -> bool:
    """Tells whether some bytes of an artifact have come, and not all."""
    return any(each.stat().st_size > 0 for each in incoming(site))


async def known(client: AsyncClient) -> list[pb.Artifact]:
    """Returns all artifacts."""
    return [each async for each in client.artifacts.list()]


def file_of(folder: Path, size: int, name: str = "large.bin") -> Path:
    """Makes a file of so many MiB."""
    path = folder / name
    with path.open("wb") as file:
        for number in range(size):
            file.write(number.to_bytes(4, "big") * (MIB // 4))
    return path


async def messages(head: pb.ArtifactHead, *pieces: bytes) -> AsyncIterator[pb.UploadArtifactRequest]:
    """Yields the messages of an upload."""
    yield pb.UploadArtifactRequest(head=head)
    for piece in pieces:
        yield pb.UploadArtifactRequest(data=piece)


def peak_mib(process: Process) -> float:
    """Returns the most resident memory that a process has had."""
    lines: Sequence[str] = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
