"""The observable history of one scenario: what any worker must show alike, without times, ids and repeats.

Not the story that `-v` prints, which has everything in the order in which it came.
"""

from __future__ import annotations

from conformance.kit.seen import Seen, output_of, status_name
from conformance.kit.stage import Stage

MANY = 20
"""Attempts beyond this number are counted, not listed."""


def history_of(stage: Stage) -> list[str]:
    """Returns the history, line by line: the worker's life first, then each attempt in the order of its assignment.

    How often a result was sent again is left out, since it depends on the moment; so is the acknowledgement of a start,
    which a result implies.
    """
    scripted = stage.scripted
    lines = [f"registered with {each.max_concurrency} slots" for each in scripted.registrations[:1]]
    lines += [f"stream {each.number} began, held {list(each.held)}" for each in scripted.streams if each.held]
    lines += ["told that it drains"] if scripted.draining else []
    lines += ["deregistered"] if scripted.deregistrations else []
    lines += [f"ended with exit code {code}" for code in stage.ends]
    lines += [f"entered {key}" for key, _ in stage.records()]
    lines += stage.told
    attempts = [each for each in stage.attempts.values() if each.token in scripted.attempts]
    for seen in attempts[:MANY]:
        lines += of_attempt(stage, seen)
    if len(attempts) > MANY:
        rest = attempts[MANY:]
        lines.append(f"{len(rest)} more attempts, of which {sum(bool(each.results) for each in rest)} ended")
    return lines


def of_attempt(stage: Stage, seen: Seen) -> list[str]:
    """Returns the history of one attempt."""
    name, lines = seen.name, []
    if any(each.cancel_unconfirmed for each in seen.progress):
        lines.append(f"{name}: would not stop")
    lines += [f"{name}: checkpoint {each.checkpoint}" for each in seen.progress[-1:] if each.HasField("checkpoint")]
    if seen.lines:
        lines.append(f"{name}: {len(seen.lines)} log lines, {seen.lines[0][:20]!r} to {seen.lines[-1][:20]!r}")
    for result in seen.results[:1]:
        kind = f" {result.error_kind}" if result.error_kind else ""
        lines.append(f"{name}: {status_name(result.status)}{kind} {without_names(stage, output_of(result))}".rstrip())
    return lines


def without_names(stage: Stage, output: object) -> str:
    """Returns an output in one line, shortened, without what differs from run to run."""
    if output is None:
        return ""
    if isinstance(output, dict):
        output = {key: "…" if key in ("pid", "artifact") else value for key, value in sorted(output.items())}
    return str(output)[:80]
