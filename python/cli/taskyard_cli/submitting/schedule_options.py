"""Options that `submit` and `run` share: when it is due, until when it may begin, its tags, and only looking."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from taskyard_cli.durations import parse_duration
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.values import not_empty

PANEL = "When, and what it is found by"

At = Annotated[
    str | None,
    typer.Option(
        "--at",
        callback=not_empty,
        rich_help_panel=PANEL,
        help="Not before then: 2026-12-01T08:00 (local), or ...Z.",
    ),
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", callback=not_empty, rich_help_panel=PANEL, help="Not before so long from now, e.g. 10m."),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires",
        callback=not_empty,
        rich_help_panel=PANEL,
        help="End it if it has not started by this time, or within this time from now.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", callback=not_empty, rich_help_panel=PANEL, help="A word to find it by; may be repeated."),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Only look: is it right, what would it be, and where would it go? Nothing is made."),
]


def schedule_of(at: str | None, delay: str | None, expires: str | None, tags: list[str] | None) -> dict[str, Any]:
    """Returns what `new_task` and `new_run` take of it.

    Raises:
        CliError: One is no time or no duration.
    """
    given: dict[str, Any] = {"tags": tags or []}
    if at is not None:
        given["schedule_time"] = _time(at, "--at")
    if delay is not None:
        given["start_delay"] = _span(delay, "--delay")
    if expires is not None:
        given["expire_time"] = _time_or_span(expires)
    return given


def _time_or_span(text: str) -> datetime:
    try:
        return datetime.now(UTC) + parse_duration(text)
    except ValueError:
        return _time(text, "--expires", also=", or a duration such as 2h")


def since_time(text: str) -> datetime:
    """Returns what `--since` says: a time, or so long ago.

    Raises:
        CliError: It is neither.
    """
    try:
        return datetime.now(UTC) - parse_duration(text)
    except ValueError:
        return _time(text, "--since", also=", or a duration such as 10m")
    except OverflowError:
        raise CliError(f"--since: `{text[:40]}` is before any time; leave it out", Exit.USAGE) from None


def _span(text: str, option: str) -> Any:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CliError(f"{option}: {error}", Exit.USAGE) from None


def _time(text: str, option: str, also: str = "") -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        way = f"write one such as 2026-12-01T08:00 (local time) or 2026-12-01T08:00Z{also}"
        raise CliError(f"{option}: `{text[:40]}` is no time; {way}", Exit.USAGE) from None
    return found if found.tzinfo is not None else found.astimezone()
