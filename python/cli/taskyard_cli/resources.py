"""Resources in words, as tasks ask for them and workers have them in use. Not the options that give them."""

from __future__ import annotations

from taskyard.v1.policies_pb2 import Resources

_UNITS = ("m CPU", " MiB", " GPU")


def asked_for(some: Resources) -> str:
    """Returns `500m CPU, 1 GPU`; nothing where nothing is asked for."""
    return ", ".join(f"{amount}{unit}" for amount, unit in zip(_amounts(some), _UNITS, strict=True) if amount)


def in_use(used: Resources, offered: Resources) -> str:
    """Returns `500/4000m CPU, 1/2 GPU`: a worker that came back with a smaller offer may use more than it has."""
    both = zip(_amounts(used), _amounts(offered), _UNITS, strict=True)
    return ", ".join(f"{held}/{had}{unit}" for held, had, unit in both if held or had)


def _amounts(some: Resources) -> tuple[int, int, int]:
    return some.cpu_millis, some.memory_mb, some.gpus
