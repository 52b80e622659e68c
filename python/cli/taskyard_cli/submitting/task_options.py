"""The options that describe one task, written once for every command that submits, and the task that they make."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from taskyard.v1.tasks_pb2 import TaskSubmission
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.submitting.schedule_options import At, Delay, Expires, Tags, schedule_of
from taskyard_cli.values import json_object, not_empty, pairs, seconds
from taskyard_client import Placement, Resources, Retry, Timeouts, new_task

RETRIES, LIMITS, PLACE = "Retries", "Time limits", "Where it runs, and with what"

_Duration = str | None


def described(
    task_type: Annotated[
        str | None,
        typer.Argument(callback=not_empty, help="Which handler runs it, for example `shell`.", show_default=False),
    ] = None,
    *,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="key=value; may be repeated. Text; a handler with `int`, `float` or `bool` parameters reads it.",
        ),
    ] = None,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            "-i",
            help="The whole typed input, a JSON object; @FILE reads it, @- stdin. (In `run`, -i is one name=value.)",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(callback=not_empty, help="Task definition whose type and defaults apply.")
    ] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 (first) to 10 (last); default 5.")] = None,
    attempts: Annotated[
        int | None,
        typer.Option(min=1, max=100, rich_help_panel=RETRIES, help="Attempts in all, the first included; default 3."),
    ] = None,
    retry_delay: Annotated[
        _Duration, typer.Option(rich_help_panel=RETRIES, help="Wait before the second attempt; default 1s.")
    ] = None,
    retry_factor: Annotated[
        float | None,
        typer.Option(
            min=1, max=100, rich_help_panel=RETRIES, help="What each further wait is multiplied by; default 2."
        ),
    ] = None,
    retry_max_delay: Annotated[
        _Duration,
        typer.Option(
            rich_help_panel=RETRIES, help="Longest wait; default 60s, or the first delay where that is longer."
        ),
    ] = None,
    retry_jitter: Annotated[
        float | None,
        typer.Option(min=0, max=1, rich_help_panel=RETRIES, help="Random share by which waits vary; default 0.2."),
    ] = None,
    run_timeout: Annotated[
        _Duration, typer.Option(rich_help_panel=LIMITS, help="For one attempt, for example 30s; default 1h.")
    ] = None,
    queued_timeout: Annotated[
        _Duration, typer.Option(rich_help_panel=LIMITS, help="For the wait for a worker; default none.")
    ] = None,
    start_timeout: Annotated[
        _Duration, typer.Option(rich_help_panel=LIMITS, help="Until its worker says that it started; default 5s.")
    ] = None,
    total_timeout: Annotated[
        _Duration, typer.Option(rich_help_panel=LIMITS, help="For everything together; default none.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            callback=not_empty, rich_help_panel=PLACE, help="Labels that the worker must have: lang=java,!spot."
        ),
    ] = None,
    affinity: Annotated[
        str | None,
        typer.Option(
            callback=not_empty, rich_help_panel=PLACE, help="Labels of workers to prefer while one has a free slot."
        ),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(min=0, max=1_000, rich_help_panel=PLACE, help="Cores that it holds while it runs, e.g. 2 or 0.5."),
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option(min=0, max=100_000_000, rich_help_panel=PLACE, help="Memory that it holds, in MiB.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=0, max=1_000, rich_help_panel=PLACE, help="Whole GPUs that it holds.")
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", rich_help_panel=PLACE, help="Never two attempts alive at once.")
    ] = False,
    at: At = None,
    delay: Delay = None,
    expires: Expires = None,
    tag: Tags = None,
) -> TaskSubmission:
    """Returns the task that the options describe.

    Raises:
        CliError: An option cannot be read, or neither a type nor a definition is named.
    """
    if not task_type and not task:
        raise CliError("say which: a task type (such as `shell`) or --task NAME", Exit.USAGE)
    return new_task(
        task_type or "",
        json_object(input_, "--input") if input_ is not None else None,
        task_name=task or "",
        params=pairs(param or [], "--param"),
        priority=priority,
        retry=_retry(attempts, retry_delay, retry_factor, retry_max_delay, retry_jitter),
        timeouts=_timeouts(queued_timeout, start_timeout, run_timeout, total_timeout),
        placement=Placement(selector or "", affinity or "") if selector or affinity else None,
        resources=resources_of(cpus, memory_mb, gpus),
        exclusive=True if exclusive else None,
        **schedule_of(at, delay, expires, tag),
    )


def takes_task(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `described` in front of its own, and the task in their place.

    Args:
        command: Its first parameter is the task; the others are options of its own.
    """
    theirs, (_, *own) = inspect.signature(described), inspect.signature(command).parameters.values()
    options = [*theirs.parameters.values(), *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)]

    @functools.wraps(command)
    def call(task_type: str | None = None, **given: Any) -> None:
        of_task = {name: given.pop(name) for name in list(given) if name in theirs.parameters}
        command(described(task_type, **of_task), **given)

    hints = [get_type_hints(each, include_extras=True) for each in (described, command)]  # each in its own module
    call.__annotations__ = hints[0] | hints[1]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect looks at first
        [each.replace(annotation=call.__annotations__[each.name]) for each in options]
    )
    return call


def _retry(
    attempts: int | None, delay: _Duration, factor: float | None, longest: _Duration, jitter: float | None
) -> Retry | None:
    if all(each is None for each in (attempts, delay, factor, longest, jitter)):
        return None
    first_delay, max_delay = seconds(delay, "--retry-delay"), seconds(longest, "--retry-max-delay")
    return Retry(attempts, first_delay, factor, max_delay, jitter)


def _timeouts(queued: _Duration, start: _Duration, run: _Duration, total: _Duration) -> Timeouts | None:
    given = {"queued": queued, "start": start, "run": run, "total": total}
    if all(each is None for each in given.values()):
        return None
    return Timeouts(**{name: seconds(text, f"--{name}-timeout") for name, text in given.items()})


def resources_of(cpus: float | None, memory_mb: int | None, gpus: int | None) -> Resources | None:
    """Returns what a task asks for; None where nothing was said, which leaves a definition's.

    Raises:
        CliError: Cores are given more finely than they are counted.
    """
    if cpus is None and memory_mb is None and gpus is None:
        return None
    if cpus is not None and round(cpus, 3) != cpus:
        way = f"write {max(0.001, round(cpus, 3)):g}"
        raise CliError(f"--cpus is {cpus:g}: cores are counted to a thousandth; {way}", Exit.USAGE)
    return Resources(round((cpus or 0) * 1_000), memory_mb or 0, gpus or 0)
