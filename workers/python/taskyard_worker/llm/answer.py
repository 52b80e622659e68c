"""The answer of a chat completion, put together from its events or read as a whole. No I/O."""

from __future__ import annotations

import json
from typing import Any

from taskyard_worker.errors import NonRetryable, Retryable
from taskyard_worker.text.source import source
from taskyard_worker.web.statuses import EXCERPT

DONE = "[DONE]"
MAX_CHARACTERS = 4 * 1024 * 1024
"""Of an answer; a model that goes on for ever must not fill the worker."""
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class Answer:
    """What a model has answered so far.

    Attributes:
        model: Which model says that it answers; empty: none has said.
        finish_reason: Why it ended, such as `stop` or `length`; empty while it has not said.
        refusal: Why it would not answer.
        usage: Tokens by what they are counted for, as the endpoint says.
        done: The endpoint has said that nothing more comes.
    """

    def __init__(self) -> None:
        self.model = ""
        self.finish_reason = ""
        self.refusal = ""
        self.usage: dict[str, int] = {}
        self.done = False
        self._parts: list[str] = []
        self._size = 0

    @property
    def text(self) -> str:
        """The text so far; the halves of a character that came apart are one."""
        return source("".join(self._parts))

    @property
    def complete(self) -> bool:
        """Whether it has ended, rather than been cut off."""
        return self.done or bool(self.finish_reason)

    def take(self, event: str) -> str:
        """Take in an event of a stream; return the text that it adds.

        Raises:
            Retryable: It is no event of a chat completion, or the endpoint says that it failed.
            NonRetryable: The answer is too long.
        """
        if event.strip() == DONE:
            self.done = True
            return ""
        return self._take(read_object(event), "delta")

    def take_whole(self, body: str) -> str:
        """Take in an answer that came in one piece; return its text. Raises as `take` does."""
        text = self._take(read_object(body), "message")
        self.done = True
        return text

    def _take(self, chunk: dict[str, Any], part: str) -> str:
        if chunk.get("error"):
            raise Retryable(f"the endpoint broke off: {json.dumps(chunk['error'], ensure_ascii=False)[:EXCERPT]}")
        self.model = text_in(chunk, "model") or self.model
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self.usage = {name: usage[name] for name in _COUNTS if type(usage.get(name)) is int}
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return ""
        choice = choices[0]
        self.finish_reason = text_in(choice, "finish_reason") or self.finish_reason
        delta = choice.get(part)
        if not isinstance(delta, dict):
            return ""
        self.refusal += text_in(delta, "refusal")
        return self._add(text_in(delta, "content"))

    def _add(self, text: str) -> str:
        if text:
            self._parts.append(text)
            self._size += len(text)
            if self._size > MAX_CHARACTERS:
                raise NonRetryable(f"the answer has more than {MAX_CHARACTERS:,} characters; set 'max_tokens'")
        return text


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object of an event. Raises Retryable."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Retryable(f"the endpoint sent what is no chat completion: {text[:200]!r}")
    return value


def text_in(holder: dict[str, Any], name: str) -> str:
    """Return a text that may be missing."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""
