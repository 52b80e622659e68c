"""Wakes those who follow an instance's log when a line comes. Memory goes by followers, not by tasks."""

from __future__ import annotations

import asyncio
from types import TracebackType

Key = tuple[str, str]


class Subscription:
    """One follower's wake-up. Enter it, then in turn read until nothing is left and `wait`."""

    def __init__(self, wakeups: Wakeups, key: Key) -> None:
        self._wakeups = wakeups
        self._key = key
        self._event = asyncio.Event()

    def __enter__(self) -> Subscription:
        self._wakeups.add(self._key, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wakeups.remove(self._key, self)

    async def wait(self) -> None:
        """Returns when something has come since it last returned, perhaps at once."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Makes `wait` return."""
        self._event.set()


class Wakeups:
    """All followers, by instance."""

    def __init__(self) -> None:
        self._followers: dict[Key, set[Subscription]] = {}

    def __len__(self) -> int:
        return len(self._followers)

    def subscription(self, tenant: str, task_id: str) -> Subscription:
        """Returns a new follower of one instance; it counts from when it is entered."""
        return Subscription(self, (tenant, task_id))

    def wake(self, tenant: str, task_id: str) -> None:
        """Wakes every follower of one instance."""
        for follower in self._followers.get((tenant, task_id), ()):
            follower.wake()

    def wake_all(self) -> None:
        """Wakes every follower, as when the store goes down."""
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()

    def add(self, key: Key, follower: Subscription) -> None:
        """Begins to wake a follower."""
        self._followers.setdefault(key, set()).add(follower)

    def remove(self, key: Key, follower: Subscription) -> None:
        """No longer wakes a follower."""
        followers = self._followers.get(key)
        if followers is not None:
            followers.discard(follower)
            if not followers:
                del self._followers[key]
