"""A session begins with a registration, lives by heartbeats, and ends when it is superseded or the worker fails."""

from __future__ import annotations

import asyncio

import pytest
from worker_fakes import Answers, FakeLink, assignment, gated, working

from taskyard.v1.workers_pb2 import HeartbeatRequest, HeartbeatResponse, RegisterResponse, WorkerConfig
from taskyard_worker import TaskRegistry
from taskyard_worker.errors import NotAccepted, SessionSuperseded, Unauthenticated
from taskyard_worker.link import LinkError

ACCEPTED = RegisterResponse(accepted=True, heartbeat_interval_sec=1, session_epoch=1)


async def test_a_superseded_session_ends_the_worker(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        (await bench.link.stream()).fail("ABORTED", "SESSION_SUPERSEDED")
        with pytest.raises(SessionSuperseded, match="another worker registered as 'worker-1'"):
            await bench.ended()


async def test_a_heartbeat_of_a_superseded_session_ends_the_worker(registry: TaskRegistry) -> None:
    gated(registry)
    link = FakeLink(heartbeat_answers=Answers(LinkError("ABORTED", "SESSION_SUPERSEDED", "newer")))
    link.register_answers = Answers(ACCEPTED)
    async with working(registry, link) as bench:
        with pytest.raises(SessionSuperseded):
            await bench.ended()


class LateLink(FakeLink):
    """Answers the first heartbeat, with an error, when it is told to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.verdict: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self.heartbeats.append(request)
        self.changed()
        if len(self.heartbeats) == 1:
            raise await self.verdict
        return HeartbeatResponse(ok=True)


@pytest.mark.parametrize(("code", "reason"), [("ABORTED", "SESSION_SUPERSEDED"), ("NOT_FOUND", "UNKNOWN_WORKER")])
async def test_what_is_said_of_an_earlier_session_is_not_taken_for_this_one(
    registry: TaskRegistry, code: str, reason: str
) -> None:
    gated(registry)
    again = RegisterResponse(accepted=True, heartbeat_interval_sec=1, session_epoch=2)
    link = LateLink(register_answers=Answers(ACCEPTED, again))
    async with working(registry, link) as bench:
        stream = await link.stream(1)
        bench.runtime.session.beat_now()
        await link.changed.until(lambda: len(link.heartbeats) == 1)
        stream.fail("NOT_FOUND", "UNKNOWN_WORKER")
        await link.stream(2)
        link.verdict.set_result(LinkError(code, reason, "of session 1"))
        await link.changed.until(lambda: len(link.heartbeats) == 3)
        assert [beat.session_epoch for beat in link.heartbeats] == [1, 2, 2]
        assert (len(link.registrations), len(link.streams)) == (2, 2)


async def test_a_replaced_stream_is_not_the_end(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        (await bench.link.stream(1)).fail("ABORTED", "STREAM_REPLACED")
        await bench.link.stream(2)


async def test_a_worker_that_is_not_accepted_ends_with_the_reason(registry: TaskRegistry) -> None:
    link = FakeLink(register_answers=Answers(RegisterResponse(accepted=False, message="the id is another tenant's")))
    async with working(registry, link) as bench:
        with pytest.raises(NotAccepted, match="the id is another tenant's"):
            await bench.ended()


async def test_a_refused_registration_ends_the_worker(registry: TaskRegistry) -> None:
    for code, error in (("INVALID_ARGUMENT", NotAccepted), ("UNAUTHENTICATED", Unauthenticated)):
        link = FakeLink(register_answers=Answers(LinkError(code, "", "because")))
        async with working(registry, link) as bench:
            with pytest.raises(error, match="because"):
                await bench.ended()


async def test_a_scheduler_that_is_not_there_yet_is_waited_for(registry: TaskRegistry) -> None:
    gated(registry)
    down = LinkError("UNAVAILABLE", "", "nobody listens")
    async with working(registry, FakeLink(register_answers=Answers(down, down, ACCEPTED))) as bench:
        await bench.link.stream()
        assert len(bench.link.registrations) == 3


async def test_heartbeats_list_every_attempt_held(registry: TaskRegistry) -> None:
    gated(registry)

    @registry.task("quick")
    async def quick() -> None: ...

    link = FakeLink(acknowledge=False, register_answers=Answers(ACCEPTED))
    async with working(registry, link):
        stream = await link.stream()
        stream.assign(assignment("runs"), assignment("ended", "quick"))
        await stream.result("ended")
        before = len(link.heartbeats)
        await link.changed.until(lambda: len(link.heartbeats) > before)
        beat = link.heartbeats[-1]
        assert set(beat.attempt_tokens) == {"runs", "ended"}
        assert (beat.worker_id, beat.session_epoch, beat.active_tasks) == ("worker-1", 1, 1)
        assert (beat.cpu_usage, beat.memory_mb) == (0.5, 64)


async def test_a_heartbeat_that_is_not_ok_opens_another_stream(registry: TaskRegistry) -> None:
    gated(registry)
    link = FakeLink(
        register_answers=Answers(ACCEPTED),
        heartbeat_answers=Answers(HeartbeatResponse(ok=False), HeartbeatResponse(ok=True)),
    )
    async with working(registry, link):
        first = await link.stream(1)
        await link.stream(2)
        assert first.closed


async def test_a_connection_on_which_heartbeats_get_no_answer_is_given_up(registry: TaskRegistry) -> None:
    gated(registry)
    silent = LinkError("DEADLINE_EXCEEDED", "", "Heartbeat: Deadline Exceeded")
    link = FakeLink(
        register_answers=Answers(ACCEPTED),
        heartbeat_answers=Answers(silent, HeartbeatResponse(ok=True), silent, silent, HeartbeatResponse(ok=True)),
    )
    async with working(registry, link) as bench:
        first = await link.stream(1)
        for beats in (1, 2, 3):
            bench.runtime.session.beat_now()
            await link.changed.until(lambda beats=beats: len(link.heartbeats) >= beats)  # type: ignore[misc]
            assert (link.renewals, first.closed) == (0, False)
        bench.runtime.session.beat_now()
        await link.changed.until(lambda: link.renewals == 1)
        assert first.closed
        await link.stream(2)


async def test_the_scheduler_may_change_the_heartbeat_interval(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.push(config=WorkerConfig(heartbeat_interval_sec=1))
        bench.runtime.session.beat_now()
        await bench.link.changed.until(lambda: len(bench.link.heartbeats) >= 2)


async def test_a_fault_of_the_worker_ends_it_instead_of_hanging(
    registry: TaskRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _, _ = gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])

        def broken(*values: object) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(bench.runtime.metrics, "observe", broken)
        gate.set()
        with pytest.raises(RuntimeError, match="a fault"):
            await bench.ended()
