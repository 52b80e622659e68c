"""Asks a person and ends at once: what they say is the result of the task, whenever it comes."""

from __future__ import annotations

from pathlib import Path

from taskyard_worker import Context, Deferral, task


@task("ask")
def ask(ctx: Context, question: str, inbox: str, patience_s: float = 86_400) -> Deferral:
    """Leaves the question with its token for whoever decides. A real one would send a message with a link instead.

    No slot is held while they think. Each attempt has a token of its own, so an answer to an earlier one is refused.
    """
    (Path(inbox) / question).write_text(ctx.completion_token, encoding="utf-8")
    ctx.log.info("%s? Answer with: taskyard complete %s", question, ctx.completion_token)
    return ctx.defer(timeout=patience_s)
