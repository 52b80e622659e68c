"""Measures the peers: a Redis of their own, their workers as shipped with two processes, tasks one by one."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import Redis

from bench.child import Child
from bench.figures import figure
from bench.peers.environment import LOCK, PeerFailed, environment
from bench.plan import Plan

HERE = Path(__file__).resolve().parent
PROCESSES = 2
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Peer:
    """How one peer is started and loaded.

    Attributes:
        name: Its name among the figures.
        worker: Its worker's command line.
        load: The script that measures it.
        tasks: How many tasks are measured.
        settings: What a reader must know of how it runs.
    """

    name: str
    worker: str
    load: str
    tasks: int
    settings: str


CELERY = Peer(
    "celery",
    f"celery --app noop_celery worker --pool prefork --concurrency {PROCESSES} --loglevel ERROR",
    "load_celery.py",
    5_000,
    f"prefork, {PROCESSES} processes, results on",
)
DRAMATIQ = Peer(
    "dramatiq",
    f"dramatiq noop_dramatiq --processes {PROCESSES}",
    "load_dramatiq.py",
    10_000,
    f"{PROCESSES} processes of 8 threads, no results",
)
PEERS = (CELERY, DRAMATIQ)
WARM_UP = 500


def measure_peers(plan: Plan, folder: Path) -> tuple[dict[str, float], dict[str, Any]]:
    """Returns each peer's tasks a second, and what was measured under which settings.

    Raises:
        PeerFailed: A peer could not be set up or did not do its work.
        FileNotFoundError: There is no Redis on this machine.
    """
    programs = environment()
    server = Redis(folder / "redis")
    server.start()
    try:
        environ = _environ(server, programs)
        rates, facts = {}, {}
        for peer in PEERS:
            tasks = plan.count(peer.tasks, least=50)
            measured = [_measure(peer, programs, folder, environ, tasks) for _ in range(min(plan.repeats, 2))]
            rates[peer.name] = figure(max(measured))  # the better: in doubt for the peer
            facts[peer.name] = {
                "tasks": tasks, "repeats": [figure(rate) for rate in measured], "version": _version(peer.name),
                "settings": f"{peer.settings}; Redis keeps nothing on disk",
            }  # fmt: skip
        return rates, facts
    finally:
        server.stop()


def _environ(server: Redis, programs: Path) -> dict[str, str]:
    address = server.url.rpartition("/")[0]
    return dict(os.environ) | {
        "PEER_BROKER": f"{address}/0", "PEER_RESULTS": f"{address}/1", "PYTHONPATH": str(HERE),
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }  # fmt: skip


def _measure(peer: Peer, programs: Path, folder: Path, environ: dict[str, str], tasks: int) -> float:
    subprocess.run(["redis-cli", "-u", environ["PEER_BROKER"], "flushall"], check=True, capture_output=True)
    program, *arguments = peer.worker.split()
    worker = Child(peer.name, [str(programs / program), *arguments], folder, environ)
    try:
        command = [str(programs / "python"), str(HERE / peer.load), str(WARM_UP), str(tasks)]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=folder
        )
        worker.check()
        if done.returncode:
            raise PeerFailed(f"{peer.load} failed:\n{done.stdout}{done.stderr}")
        rate: float = json.loads(done.stdout.splitlines()[-1])["rate"]
        worker.stop()
        return rate
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"{peer.name} did not do {tasks} tasks in {TIMEOUT_S:g} s:\n{worker.log_tail()}") from None
    finally:
        worker.kill()


def _version(name: str) -> str:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return next(line.split()[0].partition("==")[2] for line in lines if line.startswith(f"{name}=="))
