"""Finds Taskyard's services through entry points; says what to install for one that is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from taskyard_cli.exits import CliError, Exit

GROUP = "taskyard.services"
_DISTRIBUTIONS = {"scheduler": "taskyard-scheduler", "worker": "taskyard-worker"}


def require(*names: str) -> None:
    """Checks that services are installed, without loading them: that takes seconds, and their processes do it.

    Raises:
        CliError: One is not installed.
    """
    for name in names:
        _entry_point(name)


def service_main(name: str) -> Callable[[Sequence[str]], int]:
    """Returns the `main` of a service: it takes the arguments and returns the exit code.

    Raises:
        CliError: It is not installed, or what is installed cannot be loaded.
    """
    found = _entry_point(name)
    try:
        main: Callable[[Sequence[str]], int] = found.load()
    except ImportError as error:
        raise CliError(
            f"the {name} is installed and cannot be loaded ({error}): install {_DISTRIBUTIONS.get(name, name)} anew",
            Exit.FAILED,
        ) from error
    return main


def _entry_point(name: str) -> EntryPoint:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        distribution = _DISTRIBUTIONS.get(name, "taskyard[all]")
        raise CliError(f"the {name} is not installed here: `pip install {distribution}`", Exit.USAGE)
    return found[0]
