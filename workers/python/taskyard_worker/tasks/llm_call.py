"""The built-in task type `llm_call`: a prompt to a model of the configured endpoint, its answer streamed and returned.

A cancel closes the connection, so the endpoint need not go on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard_worker.context import Context
from taskyard_worker.errors import InvalidInput, NonRetryable, Retryable
from taskyard_worker.llm.answer import Answer
from taskyard_worker.llm.apart import Apart
from taskyard_worker.llm.chat import complete
from taskyard_worker.llm.schema import Misfit, Schema
from taskyard_worker.outcome import Outcome
from taskyard_worker.tasks.texts import text_of
from taskyard_worker.verdict import output_text
from taskyard_worker.web.endpoint import Endpoint
from taskyard_worker.web.waiting import Patience

MAX_TOKENS = 10_000_000
MAX_TEMPERATURE = 2.0
CUT = "length"
"""The finish reason of an answer that reached `max_tokens`."""
INPUTS = ("prompt", "model", "system", "temperature", "max_tokens", "response_schema")


@dataclass(frozen=True, slots=True)
class Order:
    """A checked input. `options`: what is sent beside the messages."""

    messages: list[dict[str, str]]
    options: dict[str, Any]
    schema: Schema | None


class LlmCall:
    """Runs `llm_call` tasks.

    Args:
        endpoint: Who is asked.
        model: The model of tasks that name none.
        apart: Compares answers with schemas that may take long.
    """

    def __init__(self, endpoint: Endpoint, model: str, apart: Apart) -> None:
        self._endpoint = endpoint
        self._model = model
        self._apart = apart

    async def run(
        self, ctx: Context, temperature: float | None = None, max_tokens: int | None = None, **rest: Any
    ) -> Outcome:
        """Return the answer, its tokens in the metadata too.

        Args:
            ctx: The attempt.
            temperature: 0 to 2; None: the endpoint's.
            max_tokens: Most tokens of the answer; None: the endpoint's.
            rest: The others of INPUTS.

        Raises:
            InvalidInput: The input breaks a rule.
            NonRetryable: The endpoint or the model refuses it.
            Retryable: No answer, half of one, or one that does not follow the schema, also when asked again.
        """
        given = {**rest, "temperature": temperature, "max_tokens": max_tokens}
        order = await asyncio.to_thread(read_order, given, self._model)  # a long schema takes its time
        talk = Talk(ctx, self._endpoint, order, self._apart)
        answer = await talk.ask(order.messages)
        if order.schema is None:
            return talk.outcome(answer, answer.text)
        try:
            return talk.outcome(answer, await talk.read(order.schema, answer))
        except Misfit as misfit:
            return await talk.ask_again(order.schema, answer, misfit)


class Talk:
    """What is said with the model in one attempt, and what it costs.

    Args:
        ctx: The attempt.
        endpoint: Who is asked.
        order: The input.
        apart: Compares answers with schemas that may take long.
    """

    def __init__(self, ctx: Context, endpoint: Endpoint, order: Order, apart: Apart) -> None:
        self._ctx = ctx
        self._endpoint = endpoint
        self._order = order
        self._apart = apart
        self._patience = Patience(ctx)
        self._usage: dict[str, int] = {}

    async def ask(self, messages: list[dict[str, str]]) -> Answer:
        """Return the answer to some messages; what it says is streamed to whoever watches.

        Raises:
            NonRetryable: The model will not answer, or its answer was cut off before it followed the schema.
        """
        payload = {**self._order.options, "messages": messages}
        answer = await complete(self._endpoint, payload, self._patience, self._ctx.stream)
        for name, count in answer.usage.items():
            self._usage[name] = self._usage.get(name, 0) + count
        if answer.refusal and not answer.text:
            raise NonRetryable(f"the model refused: {answer.refusal[:500]}")
        if self._order.schema is not None and answer.finish_reason == CUT:
            raise NonRetryable("the answer reached 'max_tokens' before its JSON was complete; allow more of them")
        return answer

    async def read(self, schema: Schema, answer: Answer) -> Any:
        """Return the value of an answer. Raises Misfit, or InvalidInput: the schema cannot be compared with."""
        if schema.is_quick(answer.text):
            return schema.read(answer.text)
        value = await asyncio.to_thread(schema.value_of, answer.text)
        await self._apart.compare(schema, value)
        return value

    async def ask_again(self, schema: Schema, answer: Answer, misfit: Misfit) -> Outcome:
        """Tell the model once what is wrong with its answer, and return the next one."""
        self._ctx.log.warning("the answer does not follow the schema (%s); asking once more", misfit)
        await self._ctx.stream("\n")
        repair = (
            f"Your answer does not follow the schema: {misfit}. Answer again, with the corrected JSON and nothing else."
        )
        said = [{"role": "assistant", "content": answer.text}, {"role": "user", "content": repair}]
        again = await self.ask([*self._order.messages, *said])
        try:
            return self.outcome(again, await self.read(schema, again))
        except Misfit as error:
            raise Retryable(f"the answer does not follow 'response_schema', also when asked again: {error}") from error

    def outcome(self, answer: Answer, response: Any) -> Outcome:
        """Return the end of the attempt."""
        output = {
            "response": response,
            "tokens": self._usage.get("total_tokens"),
            "model": answer.model or self._order.options["model"],
            "finish_reason": answer.finish_reason,
        }
        counted = {name: str(count) for name, count in self._usage.items()}
        return Outcome(TASK_STATUS_SUCCESS, output_text(output), metadata={"model": output["model"], **counted})


def read_order(values: Mapping[str, Any], model: str) -> Order:
    """Check the input. Raises InvalidInput."""
    given = {name: value for name, value in values.items() if value is not None}
    if unknown := next((name for name in given if name not in INPUTS), None):
        raise InvalidInput(
            f"{unknown[:200]!r} is no input of llm_call, which has {', '.join(INPUTS)}; correct its name"
        )
    if "prompt" not in given:
        raise InvalidInput("the input lacks 'prompt', the text that the model is to answer")
    messages = [{"role": "user", "content": text_of("prompt", given["prompt"])}]
    if "system" in given:
        messages.insert(0, {"role": "system", "content": text_of("system", given["system"])})
    options: dict[str, Any] = {"model": text_of("model", given.get("model", model))}
    if "temperature" in given:
        options["temperature"] = number_of("temperature", given["temperature"], MAX_TEMPERATURE)
    if "max_tokens" in given:
        options["max_tokens"] = count_of("max_tokens", given["max_tokens"])
    schema = Schema(given["response_schema"]) if "response_schema" in given else None
    if schema is not None:
        options["response_format"] = schema.request()
    return Order(messages, options, schema)


def number_of(field: str, value: Any, most: float) -> float:
    """Return a number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or math.isnan(value):
        raise InvalidInput(f"{field!r} is {str(value)[:200]}; it must be a number from 0 to {most:g}")
    return value


def count_of(field: str, value: Any) -> int:
    """Return a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOKENS:
        raise InvalidInput(f"{field!r} is {str(value)[:200]}; it must be a whole number from 1 to {MAX_TOKENS:,}")
    return value
