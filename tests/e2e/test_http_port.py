"""A command that is given the HTTP port of a real scheduler says so."""

from __future__ import annotations

from e2e.command import taskyard
from e2e.site import Site


async def test_the_http_port_is_told_from_that_of_grpc(shared_site: Site) -> None:
    address = f"127.0.0.1:{shared_site.http_port}"
    for command in (("status",), ("submit", "nobody-runs-this"), ("top", "--once")):
        shown = await taskyard(shared_site, *command, "--address", address)
        assert shown.code == 5, shown
        assert f"{address} answers in HTTP: this is the HTTP port; gRPC is on another" in shown.err
