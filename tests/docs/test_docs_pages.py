"""The pages against the program: links lead somewhere, commands exist, tables of codes are complete."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote, unquote, urlsplit

import pytest
import typer
from e2e.http_calls import BINDINGS, FILES

import taskyard_client
import taskyard_worker
from docs.pages import PAGES, ROOT, blocks, without_blocks
from taskyard.v1.workflows_pb2 import Workflow, WorkflowStep
from taskyard_cli.exits import Exit
from taskyard_cli.main import build
from taskyard_client import AsyncClient, RunHandle, TaskHandle
from taskyard_core.retry import FailureKind
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.workflows import read_workflow
from taskyard_scheduler.services.artifact_bytes import BYTES_PATH, UPLOAD_PATH
from taskyard_service.status import HTTP_STATUS
from taskyard_worker import Context, TaskLog, WorkerSettings
from taskyard_worker.context import to_json
from taskyard_worker.errors import NonRetryable
from taskyard_worker.registry import Handler
from taskyard_worker.tasks import llm_call, search, shell
from taskyard_worker.tasks.builtin import builtin_handlers
from taskyard_worker.verdict import failure_text, output_text

TOLD_TO_COMMANDS = "TASKYARD_TASK_ID"
"""What `shell` tells its command: no setting."""
CODES = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", without_blocks(page))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_index_has_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in PAGES if page.parent.name == "docs" and f"({page.name})" not in text] == ["index.md"]


def commands(page: Path) -> Iterator[str]:
    """Yields the command lines of `taskyard` in a page's shell blocks and running text."""
    for block in blocks(page):
        if block.language == "sh":
            yield from re.findall(r"\btaskyard\b(?: [^\n]+)?", block.text)
    yield from re.findall(r"`(taskyard(?: [^`…]+)?)`", without_blocks(page))


def words_of(command: str) -> list[str]:
    """Returns the words of a command line up to a comment or to what ends a command in a shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: not set(word) <= set("()<>|&;"), lexer))


def wrong(command: str, tree: Any) -> str:
    """Returns what of a command line the program does not know; empty when it knows all."""
    words = words_of(command)[1:]
    while words and (subcommands := getattr(tree, "commands", None)) and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in subcommands and name != name.upper():
            return name
        tree = subcommands.get(name, tree)
    if tree.context_settings.get("ignore_unknown_options"):  # its options are the service's own
        return ""
    known = {option for parameter in tree.params for option in parameter.opts} | {"--help", "--version"}
    given = (word for word in words if word.startswith("-") and word != "-")  # `-` alone is stdin or stdout
    return next((word for word in given if word.split("=")[0] not in known), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_with_its_options(page: Path) -> None:
    tree = typer.main.get_command(build())
    assert {command: found for command in commands(page) if (found := wrong(command, tree))} == {}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("taskyard nope", "nope"),
        ("taskyard submit x --nope", "--nope"),
        ("taskyard runs nope", "nope"),
        ("taskyard artifacts get x -o -", ""),
        ("taskyard", ""),
    ],
)
def test_a_wrong_command_is_found(command: str, found: str) -> None:
    assert wrong(command, typer.main.get_command(build())) == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_is_one_that_is_read(page: Path) -> None:
    settings = (ROOT / "docs/configuration.md").read_text()
    known = set(re.findall(r"^\| `(TASKYARD_\w+)`", settings, re.MULTILINE))
    assert len(known) > 20
    assert set(re.findall(r"\bTASKYARD_[A-Z_]+", page.read_text())) - known - {TOLD_TO_COMMANDS} == set()


def test_every_variable_that_the_code_names_is_on_the_page() -> None:
    settings = (ROOT / "docs/configuration.md").read_text()
    known = set(re.findall(r"^\| `(TASKYARD_\w+)`", settings, re.MULTILINE))
    sources = [*ROOT.glob("python/*/taskyard_*/**/*.py"), *ROOT.glob("workers/python/taskyard_worker/**/*.py")]
    assert len(sources) > 100
    named = {name: path.name for path in sources for name in re.findall(r"\bTASKYARD_[A-Z_]*[A-Z]\b", path.read_text())}
    assert {name: file for name, file in named.items() if name not in known | {TOLD_TO_COMMANDS}} == {}


def test_the_address_of_a_database_has_the_password_that_its_user_was_made_with() -> None:
    text = (ROOT / "docs/production.md").read_text()
    ((user, password),) = re.findall(r"CREATE USER '(\w+)'@'%' IDENTIFIED BY '([^']+)'", text)
    ((address,),) = [re.findall(r"TASKYARD_DATABASE='([^']+)'", text)]
    found = urlsplit(address)
    assert (unquote(found.username or ""), unquote(found.password or "")) == (user, password)
    assert f"CREATE DATABASE {found.path.strip('/')} " in text
    assert quote(password, safe="") != password


def test_what_the_page_about_http_calls_is_there() -> None:
    text = (ROOT / "docs/http.md").read_text()
    named = re.findall(r"\btaskyard\.v1\.(\w+)/(\w+)", text)
    services = {name: service for file in FILES for name, service in file.DESCRIPTOR.services_by_name.items()}
    assert len(named) >= 6
    assert [(service, method) for service, method in named if method not in services[service].methods_by_name] == []
    paths = "\n".join(binding.template.text for binding in BINDINGS)
    used = {re.sub(r"\$\w+", "{}", path) for path in re.findall(r"\$TASKYARD(/api/v1/[^\s\"'?]*)", text)}
    shapes = re.sub(r"\{[^}]*\}", "{}", paths).splitlines()
    shapes += ["/api/v1/openapi.json", "/api/v1/workflows/greet"]
    shapes += [re.sub(r"\{[^}]*\}", "{}", path) for path in (BYTES_PATH, UPLOAD_PATH)]  # written by hand
    assert used - set(shapes) == set()


def test_the_page_about_http_has_every_code_that_it_can_answer_with() -> None:
    listed = first_cells("http.md", "Errors")
    assert {str(code) for code in HTTP_STATUS.values()} - listed == {"200", "499", "504"}
    named = set(CODES.findall((ROOT / "docs/http.md").read_text()))
    assert {code.name for code, status in HTTP_STATUS.items() if str(status) in listed} - named == {
        "UNKNOWN",
        "DATA_LOSS",
    }


def codes_of(message: str) -> set[str]:
    """Returns the codes that the contract lists in the comment of a message's first field."""
    text = (ROOT / "proto/taskyard/v1/tasks.proto").read_text()
    body = text.split(f"\nmessage {message} {{", 1)[1].split("= 1;", 1)[0]
    listed = set(CODES.findall(body.partition("Machine-readable: ")[2]))
    assert len(listed) > 10
    return listed


def first_cells(page: str, heading: str) -> set[str]:
    """Returns the words of the first column of the table under a heading."""
    section = (ROOT / "docs" / page).read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert all(len(cell.strip()) > 3 for row in rows for cell in row.strip("|").split("|")[1:]), "an empty cell"
    return {word.strip() for row in rows for word in row.split("|")[1].split(",")}


def test_every_reason_to_wait_says_what_to_do() -> None:
    assert first_cells("troubleshooting.md", "Why does my task wait?") == codes_of("WaitReason")


def test_every_kind_of_failure_is_explained() -> None:
    listed = first_cells("troubleshooting.md", "Why did it fail?")
    assert listed == codes_of("TaskError")
    assert {kind.value for kind in FailureKind} <= listed


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800"], ids=["NaN", "an object", "half a character"])
def test_an_output_that_is_no_json_fails_as_its_row_says(value: object, request: pytest.FixtureRequest) -> None:
    with pytest.raises(NonRetryable) as caught:
        output_text(value)
    _, kind = failure_text(caught.value)
    rows = [line for line in (ROOT / "docs/troubleshooting.md").read_text().splitlines() if "JSON cannot hold" in line]
    assert [kind in row.split("|")[1] for row in rows] == [True]
    assert request.node.callspec.id in rows[0]


def test_a_secret_in_a_template_is_refused_as_the_page_says() -> None:
    step = WorkflowStep(id="a", task_type="x", params={"p": "${secret:name}"})
    with pytest.raises(InvalidInput, match="keeps no secrets"):
        read_workflow("t", Workflow(name="w", steps=[step]), {})
    (row,) = [line for line in (ROOT / "docs/concepts.md").read_text().splitlines() if "`${secret:name}`" in line]
    assert "`taskyard workflow apply` refuses it" in row


def test_every_failure_says_whether_it_is_retried() -> None:
    section = (ROOT / "docs/concepts.md").read_text().split("\n## Retries\n", 1)[1].split("\n## ", 1)[0]
    yes, no = (line for line in section.splitlines() if line.startswith("| ") and CODES.match(line, 2))
    assert {kind for kind in FailureKind if kind.value in yes} == {kind for kind in FailureKind if kind.retryable}
    assert {kind for kind in FailureKind if kind.value in no} == {kind for kind in FailureKind if not kind.retryable}


CLIENT_PAGE = ROOT / "docs/client.md"


def test_every_public_name_of_the_client_is_on_its_page() -> None:
    text = CLIENT_PAGE.read_text()
    handles = (TaskHandle, RunHandle)
    names = {*taskyard_client.__all__, *(name for kind in (AsyncClient, *handles) for name in dir(kind))} - {"close"}
    wanted = {name for name in names if not name.startswith(("_", "close_"))}
    assert len(wanted) > 60
    assert {name for name in wanted if not re.search(rf"\b{name}\b", text)} == set()


def test_every_argument_of_a_submission_and_a_connection_is_in_a_table() -> None:
    arguments = {
        "Connect": set(inspect.signature(taskyard_client.Client).parameters),
        "Submit a task": set(inspect.signature(AsyncClient.submit).parameters) - {"self"},
        "Lists": set(inspect.signature(AsyncClient.list_tasks).parameters) - {"self"},
    }
    found = {heading: {cell.strip("`") for cell in first_cells("client.md", heading)} for heading in arguments}
    assert {heading: wanted - found[heading] for heading, wanted in arguments.items() if wanted - found[heading]} == {}


def test_the_table_of_errors_has_each_and_which_are_tried_again() -> None:
    section = CLIENT_PAGE.read_text().split("\n## Errors\n", 1)[1].split("\n## ", 1)[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section, re.MULTILINE))
    errors = [kind for kind in vars(taskyard_client).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert rows.keys() == {kind.__name__ for kind in errors} - {"TaskyardError"}
    assert {name for name, again in rows.items() if not again.startswith("no")} == {"Unavailable", "Overloaded"}


def test_every_block_of_python_of_the_client_is_run() -> None:
    assert [
        str(block) for block in blocks(CLIENT_PAGE) if block.language == "python" and "run" not in block.words
    ] == []


WORKER_PAGE = ROOT / "docs/worker.md"


def test_every_public_name_of_the_worker_and_of_the_context_is_on_its_page() -> None:
    text = WORKER_PAGE.read_text()
    names = {*taskyard_worker.__all__, *(name for kind in (Context, TaskLog) for name in dir(kind))}
    wanted = {name for name in names if not name.startswith("_")}
    assert len(wanted) > 25
    assert {name for name in wanted if not re.search(rf"\b{name}\b", text)} == set()
    members = {name for name in dir(Context) if not name.startswith("_")}
    assert members - set(re.findall(r"\bctx\.(\w+)", text)) == set()


TYPES_PAGE = ROOT / "docs/task-types.md"
ENDPOINT = WorkerSettings(llm_base_url="http://127.0.0.1:1/v1")


def inputs_of(handler: Handler) -> set[str]:
    """Returns the names of a built-in type's input, as its code reads them."""
    if handler.name == "shell":
        return set(re.findall(r'values\.get\("(\w+)"\)', inspect.getsource(shell)))
    if handler.name in ("llm_call", "search"):
        return set({"llm_call": llm_call, "search": search}[handler.name].INPUTS)
    if handler.name == "text_process":
        return {"text", "operation"}
    return set(inspect.signature(handler.function).parameters) - {"ctx", "rest"}


JAVA_ONLY = {"data_pipeline"}
"""Types of the page that no Python worker has."""


def test_the_page_of_the_task_types_has_each_with_its_inputs() -> None:
    text = TYPES_PAGE.read_text()
    headings = re.findall(r"^## `(\w+)`$", text, re.MULTILINE)
    handlers = {handler.name: handler for handler in builtin_handlers(Mock(), {}, ENDPOINT)}
    assert set(headings) == set(handlers) | JAVA_ONLY
    for name, handler in handlers.items():
        cells = {cell.strip("`") for cell in first_cells("task-types.md", f"`{name}`")}
        assert cells == inputs_of(handler), name
    assert {*json.loads(to_json(shell.ended(0, "", "")))} - set(re.findall(r"`(\w+)`", text)) == set()


def test_every_block_of_python_of_the_worker_is_run() -> None:
    left = [each for each in blocks(WORKER_PAGE) if each.language == "python" and "run" not in each.words]
    assert [str(block) for block in left if not block.options.get("file")] == []


def test_every_exit_code_is_in_its_table() -> None:
    assert {str(code.value) for code in Exit} <= first_cells("cli.md", "Exit codes")
