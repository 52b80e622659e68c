"""The built-in task type `embedding`: vectors of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard_worker.context import Context
from taskyard_worker.embeddings.models import Models, Spent
from taskyard_worker.errors import InvalidInput
from taskyard_worker.outcome import Outcome
from taskyard_worker.tasks.texts import text_of
from taskyard_worker.verdict import output_text
from taskyard_worker.web.waiting import Patience

MAX_TEXTS = 10_000


class Embedding:
    """Runs `embedding` tasks.

    Args:
        models: The models of this worker.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    async def run(self, ctx: Context, text: Any = None, texts: Any = None, model: Any = None, **rest: Any) -> Outcome:
        """Return the vectors, and how many tokens they took in the metadata where that is counted.

        Args:
            ctx: The attempt.
            text: A text, or
            texts: a list of them.
            model: Its name; None: the worker's default.
            rest: Nothing.

        Raises:
            InvalidInput: The input breaks a rule.
            NonRetryable: The endpoint refuses the texts.
            Retryable: It gave no vectors, and may later.
        """
        given = read_texts(text, texts, rest)
        chosen, spent = self._models.find(model), Spent()
        vectors = await chosen.embed(given, Patience(ctx), spent)
        output = {"dimensions": len(vectors[0]), "model": chosen.name, "vectors": vectors}
        return Outcome(TASK_STATUS_SUCCESS, output_text(output), metadata=counted(chosen.name, spent))


def counted(model: str, spent: Spent) -> dict[str, str]:
    """Return the metadata of a result."""
    return {"model": model, **({} if spent.tokens is None else {"total_tokens": str(spent.tokens)})}


def read_texts(text: Any, texts: Any, rest: Mapping[str, Any]) -> list[str]:
    """Check the input. Raises InvalidInput."""
    if rest:
        known = "text, texts and model"
        raise InvalidInput(f"{next(iter(rest))[:200]!r} is no input of embedding, which has {known}; correct its name")
    if (text is None) == (texts is None):
        raise InvalidInput("an embedding task has either 'text' or 'texts'; give exactly one of them")
    given = [text] if texts is None else texts
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_TEXTS:
        raise InvalidInput(f"'texts' must be a list of 1 to {MAX_TEXTS:,} texts")
    return [text_of("text" if texts is None else f"texts[{place}]", each) for place, each in enumerate(given)]
