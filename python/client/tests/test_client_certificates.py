"""Certificates that cannot be used are said so by the file, and never as a scheduler that is not there."""

from __future__ import annotations

import base64
import errno
from pathlib import Path

import grpc
import grpc.aio
import pytest
from scripted_server import Fleet, Model, ScriptedServer
from throwaway_certificates import CERTIFICATE, DAMAGED, KEY, OTHER

import taskyard_client as ty
from taskyard.v1.fleet_pb2_grpc import add_FleetServiceServicer_to_server
from taskyard_client import AsyncClient
from taskyard_client.certificates import check_certificates

DER = base64.b64decode(b"".join(CERTIFICATE.split(b"\n")[1:-2]))
BAD = [
    (b"", "is empty; it needs at least one that begins with -----BEGIN CERTIFICATE-----"),
    (b" \n\n", "is empty"),
    (b"not a certificate\n", "has no certificate in PEM"),
    (KEY, "has a private key and no certificate"),
    (DER, "is no PEM but DER"),
    (DAMAGED, "is damaged: certificate 1 of 1 in it cannot be read"),
    (CERTIFICATE + DAMAGED, "is damaged: certificate 2 of 2 in it cannot be read"),
    (CERTIFICATE[:-30], "has no certificate in PEM"),
]


@pytest.mark.parametrize(("content", "says"), BAD)
def test_what_is_wrong_with_a_file_is_said(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(content)
    with pytest.raises(ty.InvalidInput) as caught:
        AsyncClient("x:1", None, ca=file)
    assert str(caught.value).startswith(f"ca: the file {file} {says}")
    with pytest.raises(ty.InvalidInput) as caught:
        AsyncClient("x:1", None, ca=content)
    assert str(caught.value).startswith(f"ca: what was given {says}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ty.InvalidInput, match=f"the file {path} cannot be read: {says}"):
            AsyncClient("x:1", None, ca=path)


def test_a_file_that_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)  # root may read every file
    with pytest.raises(ty.InvalidInput, match=r"the file ca.pem cannot be read: Permission denied"):
        AsyncClient("x:1", None, ca="ca.pem")


def test_text_around_certificates_does_no_harm() -> None:
    check_certificates("Aussteller: Übung\n".encode() + CERTIFICATE + b"\r\nand\r\n" + OTHER.replace(b"\n", b"\r\n"))


async def serve() -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    add_FleetServiceServicer_to_server(Fleet(Model()), server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(KEY, CERTIFICATE)]))
    await server.start()
    return server, f"127.0.0.1:{port}"


async def test_a_good_one_makes_the_connection() -> None:
    server, address = await serve()
    async with AsyncClient(address, None, ca=CERTIFICATE) as client:
        assert (await client.cluster_status()).version == ""
    await server.stop(None)


async def test_a_certificate_that_is_not_trusted_is_no_scheduler_that_is_not_there() -> None:
    server, address = await serve()
    async with AsyncClient(address, None, ca=OTHER, timeout=2) as client:
        with pytest.raises(ty.Unavailable) as caught:
            await client.cluster_status()
    await server.stop(None)
    assert f"there is no encrypted connection to the scheduler at {address}" in str(caught.value)
    assert "is it running?" not in str(caught.value)


async def test_a_scheduler_without_encryption_is_no_scheduler_that_is_not_there() -> None:
    async with ScriptedServer() as server, AsyncClient(server.address, None, ca=CERTIFICATE, timeout=2) as client:
        with pytest.raises(ty.Unavailable, match=r"does it serve TLS at all"):
            await client.cluster_status()
