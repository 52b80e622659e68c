"""What a scenario expected and did not see, as a sentence for whoever writes the worker."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable


class Unmet(Exception):
    """The worker did not do what the contract asks; the text says what was expected and what was seen."""


def one_of(given: str, known: Iterable[str]) -> str:
    """Returns the way out for a name that nobody knows."""
    names = sorted(known)
    near = difflib.get_close_matches(str(given), names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"write one of {', '.join(names)}"


def expect_known(what: str, given: str, known: Iterable[str]) -> None:
    """Raises Unmet with the way out when a scenario gives a name that nobody knows."""
    names = list(known)
    if given not in names:
        raise Unmet(f"there is no {what} {given!r}; {one_of(given, names)}")


class Changes:
    """Wakes who waits whenever something was observed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __call__(self) -> None:
        """Tell that something was observed."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, check: Callable[[], bool], within_s: float, sentence: Callable[[], str]) -> None:
        """Returns once `check` holds. Raises Unmet with the sentence when it does not in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not check():
            if (left := deadline - loop.time()) <= 0:
                raise Unmet(f"{sentence()} (waited {within_s:g} s)")
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=left)
            finally:
                self._waiting.discard(waiter)


POLL_S = 0.02
"""How often is looked at what another process writes or is: that has no signal that we could wait on."""


async def poll(check: Callable[[], bool], within_s: float, sentence: Callable[[], str]) -> None:
    """Returns once `check` holds, for what has no signal. Raises Unmet with the sentence when it does not in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not check():
        if loop.time() > deadline:
            raise Unmet(f"{sentence()} (waited {within_s:g} s)")
        await asyncio.sleep(POLL_S)
