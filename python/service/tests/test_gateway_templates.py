"""Path templates as google/api/http.proto has them, and which of several a path belongs to."""

from __future__ import annotations

import pytest
from gateway_kit import SERVICE, compiled, message

from taskyard_service.errors import NotFound
from taskyard_service.gateway.methods import Binding, bindings_of, methods_of
from taskyard_service.gateway.router import NotAllowed, Router
from taskyard_service.gateway.templates import BadTemplate, read_template


@pytest.mark.parametrize(
    ("text", "parts", "variables", "verb"),
    [
        ("/v1/tasks", ("v1", "tasks"), [], ""),
        ("/v1/tasks:submit", ("v1", "tasks"), [], "submit"),
        ("/v1/tasks/{id}", ("v1", "tasks", "*"), [("id", 2, 3)], ""),
        ("/v1/tasks/{id}:cancel", ("v1", "tasks", "*"), [("id", 2, 3)], "cancel"),
        ("/v1/tasks/{id}/logs:stream", ("v1", "tasks", "*", "logs"), [("id", 2, 3)], "stream"),
        ("/v1/{w.name}/x/{n}", ("v1", "*", "x", "*"), [("w.name", 1, 2), ("n", 3, 4)], ""),
        ("/v1/{name=shelves/*/books/*}:x", ("v1", "shelves", "*", "books", "*"), [("name", 1, 5)], "x"),
        ("/v1/{name=files/**}", ("v1", "files", "**"), [("name", 1, None)], ""),
        ("/v1/*/x", ("v1", "*", "x"), [], ""),
    ],
)
def test_a_template_is_read(
    text: str, parts: tuple[str, ...], variables: list[tuple[str, int, int | None]], verb: str
) -> None:
    template = read_template(text)
    assert template.parts == parts
    assert [(each.field, each.start, each.end) for each in template.variables] == variables
    assert template.verb == verb


@pytest.mark.parametrize(
    "text", ["", "v1/tasks", "/v1//tasks", "/v1/{id", "/v1/id}", "/v1/{id=**}/x", "/v1/a{id}", "/"]
)
def test_a_bad_template_is_refused(text: str) -> None:
    with pytest.raises(BadTemplate):
        read_template(text)


def binding(verb: str, path: str) -> Binding:
    compiled()
    (method, *_) = methods_of([SERVICE], message("Thing").DESCRIPTOR.file.pool)
    return Binding(method, verb, read_template(path), "", "")


ROUTER = Router(
    [
        binding("GET", "/v1/things"), binding("POST", "/v1/things:submit"), binding("GET", "/v1/things/{id}"),
        binding("POST", "/v1/things/register"), binding("POST", "/v1/things/{id}:cancel"),
        binding("GET", "/v1/{name=shelves/*/books/*}"), binding("GET", "/v1/shelves/{id}/{name=**}"),
        binding("PUT", "/v1/things/{id}"),
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "path", "found", "values"),
    [
        ("GET", "/v1/things", "/v1/things", []),
        ("POST", "/v1/things:submit", "/v1/things:submit", []),
        ("POST", "/v1/things/register", "/v1/things/register", []),
        ("GET", "/v1/things/register", "/v1/things/{id}", ["register"]),
        ("POST", "/v1/things/a:cancel", "/v1/things/{id}:cancel", ["a"]),
        ("POST", "/v1/things/a%3Ab:cancel", "/v1/things/{id}:cancel", ["a:b"]),
        ("POST", "/v1/things/a:b:cancel", "/v1/things/{id}:cancel", ["a:b"]),
        ("PUT", "/v1/things/a:unknown", "/v1/things/{id}", ["a:unknown"]),
        ("PUT", "/v1/things/a:", "/v1/things/{id}", ["a:"]),
        ("PUT", "/v1/thin%67s/a%2Fb", "/v1/things/{id}", ["a/b"]),
        ("GET", "/v1/shelves/1/books/2", "/v1/{name=shelves/*/books/*}", ["shelves/1/books/2"]),
        ("GET", "/v1/shelves/1/x/y/z", "/v1/shelves/{id}/{name=**}", ["1", "x/y/z"]),
    ],
)
def test_a_path_finds_its_template(verb: str, path: str, found: str, values: list[str]) -> None:
    match = ROUTER.find(verb, path)
    template = match.binding.template
    assert template.text == found
    assert [variable.value(match.segments) for variable in template.variables] == values


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("DELETE", "/v1/things", "GET, HEAD"),
        ("GET", "/v1/things:submit", "POST"),
        ("PUT", "/v1/things/a:cancel", "POST"),
        ("DELETE", "/v1/things/register", "GET, HEAD, POST, PUT"),
    ],
)
def test_a_path_of_other_methods_names_them(verb: str, path: str, allowed: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        ROUTER.find(verb, path)
    assert caught.value.allowed == allowed


@pytest.mark.parametrize(
    "path", ["/", "", "/v1", "/v1/things/", "/v1/things/a/", "/v1/things/a%2F/b", "/v1/shelves/1", "*"]
)
def test_a_path_of_nothing_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        ROUTER.find("GET", path)


def test_two_calls_cannot_have_one_path() -> None:
    with pytest.raises(ValueError, match="have one path: GET /v1/things"):
        Router([binding("GET", "/v1/things"), binding("GET", "/v1/things")])


def test_every_binding_of_a_method_is_read() -> None:
    compiled()
    found = bindings_of(methods_of([SERVICE], message("Thing").DESCRIPTOR.file.pool))
    assert [b.template.text for b in found if b.method.name.endswith("/GetThing")] == [
        "/api/v1/things/{name}", "/api/v1/shelves/{shelf.number}/things/{name}", "/api/v1/files/{name=**}",
    ]  # fmt: skip
