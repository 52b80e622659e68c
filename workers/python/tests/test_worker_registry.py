from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from worker_fakes import assignment

from taskyard_worker import Context, InvalidInput, TaskRegistry
from taskyard_worker.errors import RegistrationError
from taskyard_worker.registry import Mode, make_handler


class FakeCall:
    """The little of an attempt that calling a handler needs."""

    def __init__(self, **values: Any) -> None:
        self.task_id = assignment("t").task_id
        self._values = values

    def input(self) -> dict[str, Any]:
        return self._values

    def is_flat(self, name: str) -> bool:
        return False


class Bound:
    def work(self) -> None: ...


def call(function: Callable[..., Any], **values: Any) -> Any:
    fake: Any = FakeCall(**values)
    return make_handler("work", function).invoke(fake)


def test_a_handler_gets_what_its_parameters_ask_for() -> None:
    assert call(lambda: "nothing") == "nothing"
    assert call(lambda ctx: ctx.task_id) == "task-t"
    assert call(lambda context: context.task_id) == "task-t"
    assert call(lambda input: input, a=1) == {"a": 1}
    assert call(lambda ctx, input: (ctx.task_id, input), a=1) == ("task-t", {"a": 1})
    assert call(lambda input, ctx: (ctx.task_id, input), a=1) == ("task-t", {"a": 1})
    assert call(lambda text, times=2: text * times, text="ab", other=1) == "abab"
    assert call(lambda ctx, text: (ctx.task_id, text), text="x") == ("task-t", "x")
    assert call(lambda text, **rest: (text, rest), text="x", other=1) == ("x", {"other": 1})


def test_a_parameter_annotated_as_context_gets_it_under_any_name() -> None:
    def handler(me: Context, input: dict[str, Any]) -> Any:
        return me.task_id, input

    def by_name(me: taskyard_worker.Context) -> Any:  # type: ignore[name-defined]  # noqa: F821 - a string at run time
        return me.task_id

    assert call(handler) == ("task-t", {})
    assert call(by_name) == "task-t"


def test_a_missing_key_is_an_invalid_input_that_names_it() -> None:
    with pytest.raises(InvalidInput, match="lacks 'text'"):
        call(lambda text: text, other=1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda text, /: text, "parameter 'text' cannot be given by name"),
        (lambda *texts: texts, "parameter 'texts' cannot be given by name"),
    ],
)
def test_a_signature_that_cannot_be_served_is_refused(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(RegistrationError, match=said):
        make_handler("work", function)


def test_a_generator_is_no_handler() -> None:
    def handler() -> Any:
        yield 1

    with pytest.raises(RegistrationError, match="is a generator"):
        make_handler("work", handler)


def test_an_isolated_handler_must_be_found_by_its_name() -> None:
    with pytest.raises(RegistrationError, match="cannot be defined inside another function"):
        TaskRegistry().task("work", isolated=True)(lambda: None)
    with pytest.raises(RegistrationError, match="nor be a method of an object"):
        make_handler("work", Bound().work, isolated=True)


async def async_work() -> None: ...


def sync_work() -> None: ...


class AsyncCallable:
    async def __call__(self) -> None: ...


def test_where_a_handler_runs_follows_from_how_it_is_written() -> None:
    assert make_handler("work", async_work).mode is Mode.LOOP
    assert make_handler("work", partial(async_work)).mode is Mode.LOOP
    assert make_handler("work", AsyncCallable()).mode is Mode.LOOP
    assert make_handler("work", sync_work).mode is Mode.THREAD
    isolated = make_handler("work", sync_work, isolated=True)
    assert (isolated.mode, isolated.killable) == (Mode.PROCESS, True)


@pytest.mark.parametrize("name", ["", " x", "x ", "a\0b", "x" * 201])
def test_a_name_must_be_a_name(name: str) -> None:
    with pytest.raises(RegistrationError, match="a name has 1 to 200 characters"):
        TaskRegistry().task(name)(sync_work)


def test_a_name_has_one_handler_and_the_function_stays_what_it_is() -> None:
    registry = TaskRegistry()
    assert registry.task("work")(sync_work) is sync_work
    with pytest.raises(RegistrationError, match="'work' has a handler already \\(sync_work\\)"):
        registry.task("work")(async_work)
    assert "work" in registry
    assert len(registry) == 1
