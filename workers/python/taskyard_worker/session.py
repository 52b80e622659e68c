"""Keeps this worker in touch with the scheduler: registers, heartbeats, holds a stream open, sends frames and logs.

Four loops, each of which ends only with an error that must stop the worker, or when the worker has said goodbye. What
is said is `work`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from taskyard.v1.policies_pb2 import Resources
from taskyard.v1.workers_pb2 import AppendLogsRequest, DeregisterRequest, HeartbeatRequest, RegisterRequest
from taskyard_worker.backoff import Backoff
from taskyard_worker.errors import NotAccepted, SessionSuperseded, Unauthenticated
from taskyard_worker.link import Link, LinkError, WorkerStream
from taskyard_worker.logbook import LogBook
from taskyard_worker.logs import Logger
from taskyard_worker.work import Work

Load = tuple[float, int]

HEARTBEAT_S = 10.0
"""Until the scheduler says how often."""
SEND_LIMIT_S = 30.0
"""How long sending one frame may take before the stream counts as stuck."""
OPEN_LIMIT_S = 10.0
HEARTBEAT_LIMIT_S = 10.0
MAX_UNANSWERED = 2
"""After so many calls in a row that got no answer the connection is given up: a half-open one never tells."""
STEADY_S = 5.0
"""A stream that lived this long was a good one: the next try comes soon."""
DRAIN_OVERDUE_S = 1.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who registers: the fields of RegisterRequest, which explains them, and those of its resources."""

    worker_id: str
    host: str
    port: int
    capabilities: tuple[str, ...]
    max_concurrency: int
    labels: dict[str, str] = field(default_factory=dict)
    build_id: str = ""
    cpu_millis: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def request(self) -> RegisterRequest:
        """Return the announcement. Who offers no resources leaves them out: that is how the contract says none."""
        offered = Resources(cpu_millis=self.cpu_millis, memory_mb=self.memory_mb, gpus=self.gpus)
        return RegisterRequest(
            worker_id=self.worker_id,
            host=self.host,
            port=self.port,
            capabilities=self.capabilities,
            max_concurrency=self.max_concurrency,
            protocol="grpc",
            labels=self.labels,
            build_id=self.build_id,
            resources=offered if offered.ByteSize() else None,
        )


class Session:
    """The worker's conversation with the scheduler, over as many streams and registrations as it takes.

    Args:
        link: The way to the scheduler.
        identity: Who registers.
        work: What is said.
        logbook: Log lines to send.
        random: Source of jitter.
        wall: Unix time in milliseconds.
        log: The worker's own log.
        drain: Called when the scheduler asks the worker to drain.
        wake: Set when the worker has something to send.
        load: Returns the host's load average of one minute and the worker's resident memory in MiB.

    Attributes:
        frames_sent: Frames sent since the start; for the watchdog.
        beats: Heartbeats tried since the start.
        tries: Streams tried since the start.
        log_calls: Log calls tried since the start.
        streams: Streams opened since the start.
    """

    def __init__(
        self,
        *,
        link: Link,
        identity: Identity,
        work: Work,
        logbook: LogBook,
        random: Random,
        wall: Callable[[], int],
        log: Logger,
        drain: Callable[[], None],
        wake: asyncio.Event,
        load: Callable[[], Load],
    ) -> None:
        self.frames_sent = 0
        self.beats = 0
        self.tries = 0
        self.log_calls = 0
        self.streams = 0
        self._link = link
        self._identity = identity
        self._work = work
        self._logbook = logbook
        self._random = random
        self._wall = wall
        self._log = log
        self._drain = drain
        self._wake = wake
        self._log_wake = asyncio.Event()
        self._logs_sent = asyncio.Event()
        self._registered = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._epoch = 0
        self._leaving = False
        self._left = asyncio.Event()
        self._interval_s = HEARTBEAT_S
        self._stream: WorkerStream | None = None
        self._away = asyncio.Event()  # set while there is no stream
        self._away.set()
        self._away_since = work.loop.time()
        self._stream_since = 0.0
        self._load = load
        self._unanswered = 0

    @property
    def connected(self) -> bool:
        """Whether a stream is open and has said hello."""
        return self._stream is not None

    @property
    def registered(self) -> bool:
        """Whether there is a session. From any thread."""
        return self._registered.is_set()

    @property
    def sending_overdue(self) -> bool:
        """Whether something waits that the sending loop should have taken up."""
        return self._stream is not None and self._wake.is_set()

    def wake_logs(self) -> None:
        """Tell that log lines wait. On the loop only."""
        self._log_wake.set()

    def beat_now(self) -> None:
        """Send a heartbeat at once: an attempt waits for its answer, or the event loop was held."""
        self._beat_now.set()

    async def reopen(self) -> None:
        """Close the stream, so that another is opened."""
        stream = self._stream
        if stream is not None:
            self._stream_gone()
            await stream.close()

    def _stream_gone(self) -> None:
        self._stream = None
        self._away_since = self._work.loop.time()
        self._away.set()

    async def out_of_reach(self, seconds: float) -> None:
        """Return when no stream has been open for so long."""
        while True:
            await self._away.wait()
            left = self._away_since + seconds - self._work.loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)

    # --- the stream ------------------------------------------------------------------------------

    async def converse(self) -> None:
        """Register and hold a stream open, again and again, until the session has been ended.

        Raises:
            NotAccepted: The scheduler does not want this worker.
            SessionSuperseded: A newer session of this worker id exists.
            Unauthenticated: The scheduler refuses the token, at the first registration.
        """
        backoff = Backoff(self._random)
        while True:
            if self._leaving:
                await self._left.wait()  # whoever ends first ends the worker: let the goodbye be said
                return
            began = self._work.loop.time()
            try:
                self.tries += 1
                if not self._registered.is_set():
                    await self._register()
                await self._hold_stream()
            except LinkError as error:
                self._lost(error)
                if error.code == "DEADLINE_EXCEEDED":
                    await self._got_no_answer()
            except TimeoutError:
                self._log.warning("the stream could not be opened in time", seconds=OPEN_LIMIT_S)
                await self._got_no_answer()
            if self._work.loop.time() - began >= STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    def _lost(self, error: LinkError) -> None:
        if error.superseded:
            raise SessionSuperseded(superseded_text(self._identity.worker_id)) from error
        if error.unknown_worker:
            self._registered.clear()
            self._log.info("the scheduler does not know this worker; registering again")
            return
        if self._leaving:
            return
        self._log.warning("the connection was lost; trying again", code=error.code, error=error.message)

    async def _register(self) -> None:
        try:
            response = await self._link.register(self._identity.request())
        except LinkError as error:
            if error.code in ("UNAUTHENTICATED", "PERMISSION_DENIED") and self._epoch == 0:
                raise Unauthenticated(f"{error.message}; the worker's token is TASKYARD_TOKEN") from error
            if error.code == "INVALID_ARGUMENT":
                raise NotAccepted(error.message) from error
            raise
        if not response.accepted:
            raise NotAccepted(response.message or "the scheduler gave no reason")
        self._unanswered = 0
        self._epoch = response.session_epoch
        if response.heartbeat_interval_sec > 0:
            self._interval_s = float(response.heartbeat_interval_sec)
        self._registered.set()
        self._log.info("registered", worker_id=self._identity.worker_id, session_epoch=self._epoch)

    async def _hold_stream(self) -> None:
        async with asyncio.timeout(OPEN_LIMIT_S):
            stream = await self._link.open_stream()
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await stream.send(self._work.hello(self._epoch))
            self._work.repeat()
            self._stream = stream
            self._away.clear()
            self._stream_since = self._work.loop.time()
            self.streams += 1
            self._wake.set()
            await self._receive(stream)
        finally:
            if self._stream is stream:
                self._stream_gone()
            await stream.close()

    async def _receive(self, stream: WorkerStream) -> None:
        while (frame := await stream.receive()) is not None:
            if self._stream is not stream:
                return
            self._work.receive(frame)
            if frame.drain:
                self._drain()
            if frame.HasField("config") and frame.config.heartbeat_interval_sec > 0:
                self._interval_s = float(frame.config.heartbeat_interval_sec)

    async def send_frames(self) -> None:
        """Send whatever has gathered, as soon as there is a stream and something to say."""
        while True:
            self._work.frames_sent()
            await self._wake.wait()
            self._wake.clear()
            stream = self._stream
            if stream is None:
                self._work.save()
                continue
            try:
                while stream is self._stream and (frame := self._work.next_frame()) is not None:
                    async with asyncio.timeout(SEND_LIMIT_S):
                        await stream.send(frame)
                    self.frames_sent += 1
            except (LinkError, TimeoutError) as error:
                self._log.info("a frame could not be sent; opening another stream", error=str(error) or "stuck")
                if self._stream is stream:
                    await self.reopen()

    # --- heartbeats ------------------------------------------------------------------------------

    def heartbeat(self, held: Sequence[str] = (), started: Sequence[str] = ()) -> HeartbeatRequest:
        """Return a heartbeat: of what is held, or of what a held worker has started. From any thread."""
        cpu_usage, memory_mb = self._load()
        return HeartbeatRequest(
            worker_id=self._identity.worker_id,
            active_tasks=self._work.active,
            cpu_usage=cpu_usage,
            memory_mb=memory_mb,
            timestamp=self._wall(),
            session_epoch=self._epoch,
            attempt_tokens=held,
            started_tokens=started,
        )

    async def keep_alive(self) -> None:
        """Send heartbeats: the first after half the interval.

        Raises:
            SessionSuperseded: A newer session of this worker id exists.
        """
        wait_s = self._interval_s / 2
        first = True
        while True:
            await self._registered.wait()
            if first:
                wait_s, first = self._interval_s / 2, False
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._beat_now.wait()
            self._beat_now.clear()
            wait_s = self._interval_s
            self.beats += 1
            await self._beat()

    async def _beat(self) -> None:
        since, tokens = self._work.loop.time(), list(self._work.held_tokens())
        request = self.heartbeat(tokens)
        try:
            async with asyncio.timeout(HEARTBEAT_LIMIT_S):
                response = await self._link.heartbeat(request)
        except TimeoutError:
            self._log.warning("the heartbeat got no answer in time", seconds=HEARTBEAT_LIMIT_S)
            await self._got_no_answer()
        except LinkError as error:
            if not self._registered.is_set() or request.session_epoch != self._epoch:
                return  # its session is over already: what is said of that one says nothing of the next
            self._lost(error)
            if error.unknown_worker:
                await self.reopen()
            elif error.code == "DEADLINE_EXCEEDED":
                await self._got_no_answer()
        else:
            self._unanswered = 0
            self._work.renewed(tokens, since, response.lost_tokens)
            if not response.ok and self._stream is not None and self._stream_since < since:
                self._log.warning("the scheduler does not see this worker's stream; opening another")
                await self.reopen()

    async def _got_no_answer(self) -> None:
        """Give the connection up once it has swallowed several calls; what is half-open would do so for minutes."""
        self._unanswered += 1
        if self._unanswered < MAX_UNANSWERED or self._leaving:
            return
        self._unanswered = 0
        self._log.warning("the connection carries nothing any more; opening another", calls=MAX_UNANSWERED)
        await self.reopen()
        await self._link.renew()

    # --- logs ------------------------------------------------------------------------------------

    async def send_logs(self) -> None:
        """Send log lines as they come; while one call is under way, the next gathers."""
        backoff = Backoff(self._random)
        while True:
            if self._logbook.empty:
                await self._log_wake.wait()
            self._log_wake.clear()
            await self._registered.wait()
            self.log_calls += 1
            try:
                await self._send_chunks()
                backoff.reset()
            except LinkError as error:
                self._log.info("log lines wait: they could not be sent", code=error.code, error=error.message)
                await asyncio.sleep(backoff.next_s())

    async def logs_sent(self) -> None:
        """Return when no log line waits."""
        while not self._logbook.empty:
            self._logs_sent.clear()
            await self._logs_sent.wait()

    async def _send_chunks(self) -> None:
        chunks = self._logbook.chunks()
        if not chunks:
            return
        request = AppendLogsRequest(worker_id=self._identity.worker_id, session_epoch=self._epoch, chunks=chunks)
        response = await self._link.append_logs(request)
        for ack in response.acks:
            self._logbook.acknowledge(ack)
        if self._logbook.empty:
            self._logs_sent.set()

    # --- the end ---------------------------------------------------------------------------------

    async def deregister(self) -> None:
        """End the session, if there is one."""
        if not self._registered.is_set():
            return
        self._leaving = True
        try:
            await self._link.deregister(
                DeregisterRequest(worker_id=self._identity.worker_id, session_epoch=self._epoch)
            )
        except LinkError as error:
            self._log.warning("could not deregister; the scheduler will notice", code=error.code, error=error.message)
        finally:
            self._left.set()


def superseded_text(worker_id: str) -> str:
    """Return what a person reads when another worker has taken this one's id."""
    return (
        f"another worker registered as {worker_id!r} later than this one, which therefore stops; "
        "give each worker an id or a data directory of its own (TASKYARD_WORKER_ID, TASKYARD_DATA)"
    )
