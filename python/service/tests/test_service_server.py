from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from taskyard_service.access import contract_access
from taskyard_service.health import Health
from taskyard_service.identity import Identity, Role, TokenVerifier, sign_token
from taskyard_service.interceptors import AuthInterceptor, ErrorInterceptor
from taskyard_service.logging import make_logger
from taskyard_service.server import MESSAGE_LIMIT_BYTES, CannotListen, GrpcServer, Tls, run

SECRET = "s" * 32
TASKS = "taskyard.v1.TaskService"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Served:
    def __init__(self, server: GrpcServer, health: Health) -> None:
        self.health = health
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        self.stub: Any = health_pb2_grpc.HealthStub(self.channel)

    async def state(self, service: str) -> Any:
        return (await self.stub.Check(health_pb2.HealthCheckRequest(service=service))).status


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    log = make_logger("t", stream=io.StringIO())
    auth = AuthInterceptor(TokenVerifier(SECRET, lambda: 0), contract_access())
    server = GrpcServer("127.0.0.1", 0, [ErrorInterceptor(log), auth], stop_grace_s=0)
    health = Health([TASKS])
    health.register(server.server)
    await server.start()
    made = Served(server, health)
    yield made
    await made.channel.close()
    await server.stop()


async def test_health_needs_no_token_and_follows_leadership(served: Served) -> None:
    assert await served.state("") == SERVING
    assert await served.state(TASKS) == NOT_SERVING
    served.health.set_serving(True)
    assert await served.state(TASKS) == SERVING
    served.health.set_serving(False)
    assert (await served.state(TASKS), await served.state("")) == (NOT_SERVING, SERVING)


async def test_health_of_an_unknown_service_is_not_found(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.state("nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "'taskyard.v1.TaskService'" in (caught.value.details() or "")


async def test_a_watcher_of_health_sees_each_change_and_the_end(served: Served) -> None:
    watching = served.stub.Watch(health_pb2.HealthCheckRequest(service=TASKS))
    assert (await watching.read()).status == NOT_SERVING
    served.health.set_serving(True)
    assert (await watching.read()).status == SERVING
    served.health.shut_down()
    assert (await watching.read()).status == NOT_SERVING
    assert await watching.read() is grpc.aio.EOF
    served.health.set_serving(True)
    assert await served.state(TASKS) == NOT_SERVING


async def test_reflection_lists_the_services_to_who_has_a_token(served: Served) -> None:
    channel: Any = served.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(aiter(stub.ServerReflectionInfo(iter([question]))))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    signed = sign_token(SECRET, Identity("a", "default", Role.VIEWER), 60)
    answers = stub.ServerReflectionInfo(iter([question]), metadata=(("authorization", f"Bearer {signed}"),))
    listed = [service.name async for answer in answers for service in answer.list_services_response.service]
    assert {TASKS, "grpc.health.v1.Health"} <= set(listed)


async def echo_server(tls: Tls | None = None) -> GrpcServer:
    async def echo(request: bytes, _context: Any) -> bytes:
        return request

    server = GrpcServer("127.0.0.1", 0, [], tls=tls, stop_grace_s=0)
    handlers: dict[str, Any] = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    await server.start()
    return server


async def test_messages_up_to_16_mib_pass() -> None:
    server = await echo_server()
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=unlimited) as channel:
        call: Any = channel.unary_unary("/t.T/Echo")
        assert len(await call(b"x" * (MESSAGE_LIMIT_BYTES - 100))) == MESSAGE_LIMIT_BYTES - 100
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"x" * (MESSAGE_LIMIT_BYTES + 1))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await server.stop()


async def test_a_taken_port_is_refused_not_shared() -> None:
    server = await echo_server()
    with pytest.raises(CannotListen, match=f"port {server.port}: another process has it"):
        await GrpcServer("127.0.0.1", server.port, []).start()
    await server.stop()


async def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = Tls(tmp_path / "server.pem", tmp_path / "server.key")
    with pytest.raises(CannotListen, match=r"server\.key cannot be read: No such file"):
        await GrpcServer("127.0.0.1", 0, [], tls=missing).start()


async def test_stop_lets_running_calls_end_within_the_grace() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request: bytes, _context: Any) -> bytes:
        begun.set()
        await go_on.wait()
        return b"done"

    server = GrpcServer("127.0.0.1", 0, [], stop_grace_s=30)
    handlers: dict[str, Any] = {"Slow": grpc.unary_unary_rpc_method_handler(slow)}
    server.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method: Any = channel.unary_unary("/t.T/Slow")
        call = method(b"")
        await begun.wait()
        stopping = asyncio.create_task(server.stop(), name="stop")
        await asyncio.sleep(0)
        go_on.set()
        assert await call == b"done"
        await stopping


def test_run_gives_the_exit_code_of_main_on_uvloop() -> None:
    async def main() -> int:
        return 3 if "uvloop" in type(asyncio.get_running_loop()).__module__ else 0

    assert run(main) == 3


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "left"), [(64, 128, 500, 128), (64, 1_000, 500, 500), (400, 1_000, 300, 400)]
)
def test_the_limit_of_open_files_is_raised_as_far_as_the_system_lets(
    soft: int, hard: int, asked: int, left: int
) -> None:
    program = f"""
import resource
from taskyard_service.server import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
raise_file_limit({asked})
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(left), str(hard)]
