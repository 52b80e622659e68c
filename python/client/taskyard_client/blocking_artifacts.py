"""The calls about artifacts for code without asyncio. Every method is one of ArtifactCalls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints

from taskyard_client.artifact_calls import ArtifactCalls
from taskyard_client.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[ArtifactCalls, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingArtifacts, P], T]:
    @functools.wraps(method)
    def blocking(self: BlockingArtifacts, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._calls, *args, **kwargs))

    return blocking


def _each(
    method: Callable[Concatenate[ArtifactCalls, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[BlockingArtifacts, P], Iterator[T]]:
    @functools.wraps(method)
    def blocking(self: BlockingArtifacts, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._calls, *args, **kwargs))

    item: Any = get_args(get_type_hints(method)["return"])[0]
    signature = inspect.signature(method).replace(return_annotation=Iterator[item])
    blocking.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` looks at
    blocking.__annotations__ = {**method.__annotations__, "return": Iterator[item]}
    return blocking


class BlockingArtifacts:
    """The calls about artifacts; see ArtifactCalls.

    Args:
        calls: Makes them.
        thread: Has the event loop that they are made on.
    """

    def __init__(self, calls: ArtifactCalls, thread: LoopThread) -> None:
        self._calls = calls
        self._thread = thread

    upload = _call(ArtifactCalls.upload)
    open = _each(ArtifactCalls.open)
    read = _call(ArtifactCalls.read)
    download = _call(ArtifactCalls.download)
    get = _call(ArtifactCalls.get)
    list = _each(ArtifactCalls.list)
    delete = _call(ArtifactCalls.delete)
    resolve = _call(ArtifactCalls.resolve)
