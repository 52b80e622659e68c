"""The task types that every worker offers unless told otherwise, and what it offers of them and of its own.

Their inputs and outputs are those of the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from taskyard_worker.attempts import Attempt
from taskyard_worker.calling import CallPort
from taskyard_worker.embeddings.models import Models
from taskyard_worker.errors import RegistrationError
from taskyard_worker.processes import ProcessHost
from taskyard_worker.registry import Handler, Mode, TaskRegistry, make_handler
from taskyard_worker.settings import WorkerSettings
from taskyard_worker.tasks.embedding import Embedding
from taskyard_worker.tasks.http import http
from taskyard_worker.tasks.index import Index
from taskyard_worker.tasks.replay import replay
from taskyard_worker.tasks.search import Search
from taskyard_worker.tasks.shell import Shell
from taskyard_worker.tasks.sleep import sleep
from taskyard_worker.tasks.text_process import text_process
from taskyard_worker.web.endpoint import Endpoint

NO_ENDPOINT = "it needs an endpoint, set TASKYARD_LLM_BASE_URL"


def shell_handler(host: ProcessHost, environ: Mapping[str, str]) -> Handler:
    """Return the handler of `shell`."""
    shell = Shell(host, environ)

    def invoke(attempt: CallPort) -> Any:
        if not isinstance(attempt, Attempt):
            raise TypeError("shell runs in the worker itself")
        return shell.run(attempt)

    return Handler("shell", shell.run, Mode.LOOP, invoke, killable=True)


def builtin_handlers(host: ProcessHost, environ: Mapping[str, str], settings: WorkerSettings) -> list[Handler]:
    """Return all of them that the settings allow: `llm_call` needs an endpoint."""
    endpoint = endpoint_of(settings)
    models = Models(endpoint, settings.embedding_model)
    handlers = [
        shell_handler(host, environ),
        make_handler("sleep", sleep),
        make_handler("replay", replay),
        make_handler("text_process", text_process),
        make_handler("http", http),
        make_handler("embedding", Embedding(models).run),
        make_handler("index", Index(models).run),
        make_handler("search", Search(models).run),
    ]
    if endpoint is not None:
        # here, since few workers need them and what they check with
        from taskyard_worker.llm.apart import Apart
        from taskyard_worker.tasks.llm_call import LlmCall

        handlers.append(make_handler("llm_call", LlmCall(endpoint, settings.llm_model, Apart(host, environ)).run))
    return handlers


def endpoint_of(settings: WorkerSettings) -> Endpoint | None:
    """Return the endpoint that the settings name; None: they name none."""
    if not settings.llm_base_url:
        return None
    return Endpoint(settings.llm_base_url, settings.llm_api_key.get_secret_value())


def offered(own: TaskRegistry, builtin: Iterable[Handler], only: Iterable[str] | None) -> TaskRegistry:
    """Return what a worker offers: its own handlers, and built-in ones whose names these have not taken.

    Args:
        own: The handlers that were loaded.
        builtin: The built-in handlers to offer.
        only: Offer these task types and no others; None: all.

    Raises:
        RegistrationError: A name of `only` has no handler, or nothing is left to offer.
    """
    handlers = {handler.name: handler for handler in builtin}
    handlers.update((handler.name, handler) for handler in own)
    names = list(handlers) if only is None else list(dict.fromkeys(only))
    result = TaskRegistry()
    for name in names:
        if name not in handlers:
            known = ", ".join(sorted(handlers)) or "none"
            why = f" ({NO_ENDPOINT})" if name == "llm_call" else ""
            raise RegistrationError(f"there is no handler for task type {name!r}{why}; known here: {known}")
        result.add(handlers[name])
    if not len(result):
        raise RegistrationError("this worker would offer no task type; load handlers with --tasks")
    return result
