"""What is to be held back: its scope and name, checked. Whether there is such a thing is for the engine to say."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import pauses_pb2 as pb
from taskyard_core.names import check_name
from taskyard_core.pauses import PauseScope
from taskyard_core.violations import InvalidInput, Violation

_NAMELESS: Final = (PauseScope.TENANT, PauseScope.ALL)


def read_scope(scope: int, name: str) -> PauseScope:
    """Returns the scope.

    Raises:
        InvalidInput: There is no such scope, or the name is not as the scope demands.
    """
    if not scope or scope not in pb.PauseScope.values():
        names = ", ".join(each.name for each in PauseScope)
        raise InvalidInput([Violation("scope", f"{scope} is no scope; give one of {names}")])
    read = PauseScope(scope)
    if read in _NAMELESS:
        said = f"{read.name} has no name; leave it empty" if name else None
    else:
        said = check_name(name) if name else f"{read.name} needs the name of what is meant"
    if said is not None:
        raise InvalidInput([Violation("name", said)])
    return read
