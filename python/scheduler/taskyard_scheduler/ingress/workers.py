"""Registrations, hellos and heartbeats of workers. What they say about attempts is read in `results`."""

from __future__ import annotations

import math
from typing import Final

from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.events import Heartbeat, Hello
from taskyard_core.fleet import ANY_TYPE, Registration
from taskyard_core.selectors import check_label
from taskyard_core.violations import cut
from taskyard_scheduler.ingress.findings import Findings, member, outside
from taskyard_scheduler.ingress.policies import resources_faults
from taskyard_scheduler.ingress.results import read_frame, read_results
from taskyard_scheduler.ingress.texts import name_fault, text_fault

__all__ = ["read_frame", "read_heartbeat", "read_hello", "read_registration", "read_results"]

HOST_LIMIT: Final = 255
BUILD_LIMIT: Final = 200
CAPABILITIES_LIMIT: Final = 1_000
LABELS_LIMIT: Final = 64
STREAM: Final = "grpc"
_LATER: Final = ("http", "grpc-push")


def read_registration(request: pb.RegisterRequest) -> Registration:
    """Reads a worker's announcement.

    Raises:
        InvalidInput: It breaks a rule.
    """
    findings = Findings()
    said = name_fault(request.worker_id)
    findings.add("worker_id", said.replace("the name is", "the worker's id is") if said else None)
    findings.add("host", text_fault(request.host, HOST_LIMIT))
    findings.add("port", outside(request.port, 0, 65_535))
    findings.add("max_concurrency", outside(request.max_concurrency, 1, 100_000))
    findings.add("build_id", text_fault(request.build_id, BUILD_LIMIT))
    _check_protocol(request, findings)
    _check_capabilities(request, findings)
    _check_labels(request, findings)
    findings.extend(resources_faults(request.resources))
    findings.raise_any()
    return Registration(
        host=request.host,
        port=request.port,
        capabilities=tuple(dict.fromkeys(request.capabilities)),
        max_concurrency=request.max_concurrency,
        protocol=STREAM,
        labels=tuple(sorted(request.labels.items())),
        build_id=request.build_id,
        cpu_millis=request.resources.cpu_millis,
        memory_mb=request.resources.memory_mb,
        gpus=request.resources.gpus,
    )


def read_hello(hello: pb.Hello, stream: object) -> Hello:
    """Reads the first word of a stream. Whether the session is good is the engine's to say."""
    attempts = [(held.task_id, held.attempt_token) for held in hello.attempts]
    return Hello(hello.worker_id, hello.session_epoch, stream, attempts)


def read_heartbeat(request: pb.HeartbeatRequest) -> Heartbeat:
    """Reads a sign of life. Figures that make no sense are shown as 0: they decide nothing."""
    usage = request.cpu_usage
    return Heartbeat(
        request.worker_id,
        request.session_epoch,
        list(request.attempt_tokens),
        usage if math.isfinite(usage) and usage > 0 else 0.0,
        max(0, request.memory_mb),
        list(request.started_tokens),
    )


def _check_protocol(request: pb.RegisterRequest, findings: Findings) -> None:
    protocol = request.protocol.lower() or STREAM
    if protocol in _LATER:
        sentence = f"{cut(request.protocol)} is not served by this scheduler; dial its stream: leave the field empty"
        findings.add("protocol", sentence)
        return
    if protocol != STREAM:
        findings.add("protocol", f"{cut(request.protocol)} is no protocol; write 'grpc' or leave it empty")
    for name, owner in (("callback_url", "http"), ("grpc_addr", "grpc-push")):
        value = getattr(request, name)
        if value:
            findings.add(name, f"{cut(value)} is meant for protocol '{owner}' only; leave it empty")


def _check_capabilities(request: pb.RegisterRequest, findings: Findings) -> None:
    count = len(request.capabilities)
    if not 1 <= count <= CAPABILITIES_LIMIT:
        way = "name the task types that the worker runs, or '*' for any"
        findings.add("capabilities", f"{count} capabilities are outside 1 to {CAPABILITIES_LIMIT:,}; {way}")
        return
    for place, capability in enumerate(request.capabilities):
        if capability != ANY_TYPE:
            findings.add(f"capabilities[{place}]", name_fault(capability))


def _check_labels(request: pb.RegisterRequest, findings: Findings) -> None:
    if len(request.labels) > LABELS_LIMIT:
        findings.add("labels", f"{len(request.labels)} labels are more than {LABELS_LIMIT}; leave some out")
        return
    for key in sorted(request.labels):
        findings.add(member("labels", key), check_label(key, request.labels[key]))
