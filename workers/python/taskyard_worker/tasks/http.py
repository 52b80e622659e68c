"""The built-in task type `http`: one request and its answer.

The input may come from people who are not trusted with this machine's network. Whoever offers `http` lets everyone
who may submit such tasks send requests from here, also to what only this machine reaches: leave it out (`--only`) where
that is too much. What headers carry stands in no error and no log.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from taskyard_worker.context import Context, to_json
from taskyard_worker.errors import InvalidInput, NonRetryable
from taskyard_worker.web.connections import broken, connected, read_at_most, shown
from taskyard_worker.web.statuses import MAY_WAIT, excerpt, failure
from taskyard_worker.web.waiting import Patience

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Of an answer, once it is decompressed."""
LARGE = 64 * 1024
"""Characters of JSON that are read in a thread, so that the worker's event loop goes on."""
MAX_HEADERS = 100
MAX_NAME = 100
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SUCCESSES = ("2xx",)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,99}/[a-z0-9][a-z0-9!#$&^_.+-]{0,99}")
_EXPECTED = re.compile(r"[1-5](?:xx|[0-9]{2})")
_OURS = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""Headers about the connection, which are the worker's business."""
_NO_SECRETS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class Order:
    """A checked input. `expect`: statuses and classes of them, such as `204` and `2xx`."""

    method: str
    url: httpx.URL
    headers: tuple[tuple[str, str], ...]
    content: bytes | None
    expect: tuple[str, ...]

    def __str__(self) -> str:
        """Return the request for people, without what may be secret."""
        return f"{self.method} {shown(self.url)}"

    @property
    def secrets(self) -> list[str]:
        """What nobody may see who sees an error."""
        values = [value for name, value in self.headers if name.lower() not in _NO_SECRETS]
        return [*values, *filter(None, (self.url.password, self.url.userinfo.decode()))]

    @property
    def file_name(self) -> str:
        """What the answer is called where it becomes a file."""
        last = self.url.path.rpartition("/")[2]
        return "".join(filter(str.isprintable, last)).strip()[:MAX_NAME].strip()

    def expects(self, status: int) -> bool:
        """Tell whether a status is one of those that are wanted."""
        return str(status) in self.expect or f"{status // 100}xx" in self.expect


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def kind(self) -> str:
        """The media type of the body, without what else is said of it; empty where it has none."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind if _MEDIA_TYPE.fullmatch(kind) else ""

    async def output(self, ctx: Context, name: str) -> dict[str, Any]:
        """Return the task's output; a body that is no text is an artifact of that name."""
        body: Any = text_of(self.body, self.headers)
        if body is None:
            body = await ctx.artifacts.put(self.body, name=name, media_type=self.kind)
        elif self.kind == "application/json" or self.kind.endswith("+json"):
            value = await asyncio.to_thread(json_value, body) if len(body) > LARGE else json_value(body)
            body = body if value is None else value[0]
        return {"status": self.status, "headers": dict(self.headers), "body": body}


async def http(
    ctx: Context,
    url: Any,
    method: Any = "GET",
    headers: Any = None,
    body: Any = None,
    expect: Any = None,
    **rest: Any,
) -> dict[str, Any]:
    """Send a request and return its answer; it is sent again when the server says how long to wait.

    Args:
        ctx: The attempt.
        url: Where to, http or https.
        method: One of METHODS.
        headers: An object of texts.
        body: A text, sent as it is, or any other JSON, sent as JSON; None: no body.
        expect: The statuses that are a success: `204`, `"2xx"`, or a list of such.
        rest: Nothing.

    Raises:
        InvalidInput: The input breaks a rule.
        NonRetryable: A redirect, or an answer that blames the request, or one that is too large.
        Retryable: No connection, a broken one, or an answer that may be another one later.
    """
    order = read_order(url, method, headers, body, expect, rest)
    patience = Patience(ctx)
    async with connected() as client:
        while True:
            answer = await send(client, order)
            if order.expects(answer.status):
                return await answer.output(ctx, order.file_name)
            refusal = refusal_of(order, answer)
            if answer.status not in MAY_WAIT:
                raise failure(answer.status, refusal)
            await patience.wait(refusal, answer.headers.get("retry-after"))


async def send(client: httpx.AsyncClient, order: Order) -> Answer:
    """Send the request once. Raises Retryable and NonRetryable."""
    headers = [(name.encode(), value.encode()) for name, value in order.headers]
    try:
        async with client.stream(order.method, order.url, headers=headers, content=order.content) as response:
            body = await read_at_most(response, MAX_BODY_BYTES, lambda: too_long(order))
            return Answer(response.status_code, response.headers, body)
    except httpx.TransportError as error:
        raise broken(str(order), error) from error
    except httpx.DecodingError as error:
        raise NonRetryable(f"{order}: the answer is not compressed as it says: {error}") from error


def too_long(order: Order) -> NonRetryable:
    """Return the failure of an answer that is too large."""
    return NonRetryable(
        f"{order}: the answer has more than {MAX_BODY_BYTES:,} bytes; fetch it by a handler of your own"
    )


def refusal_of(order: Order, answer: Answer) -> str:
    """Return what became of a request, for people."""
    try:
        phrase = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = ""
    text = f"{order} was answered {answer.status}{phrase}, and {' or '.join(order.expect)} was expected"
    target = answer.headers.get("location")
    if 300 <= answer.status < 400 and target:
        return f"{text}; redirects are not followed: it leads to {place(order.url, target)}"
    said = excerpt(answer.body, order.secrets)
    return f"{text}: {said}" if said else text


def place(url: httpx.URL, target: str) -> str:
    """Return where a redirect leads, for people."""
    try:
        return shown(url.join(target))
    except httpx.InvalidURL:
        return "what is no address"


def text_of(body: bytes, headers: httpx.Headers) -> str | None:
    """Return a body as text, by the charset that its headers name, else UTF-8; None when it is none."""
    charset = httpx.Response(200, headers=headers).charset_encoding or "utf-8"
    try:
        text = decoded(body, charset)
    except UnicodeError:
        return None
    return None if "\0" in text else text


def decoded(body: bytes, charset: str) -> str:
    """Decode a body. Raises UnicodeError."""
    try:
        return body.decode(charset)
    except LookupError:
        return body.decode()


def json_value(text: str) -> tuple[Any] | None:
    """Return the value of a JSON text that can be a task's output; None when it is none."""
    try:
        value = json.loads(text)
        to_json(value).encode()
    except (ValueError, RecursionError):
        return None
    return (value,)


def read_order(url: Any, method: Any, headers: Any, body: Any, expect: Any, rest: Mapping[str, Any]) -> Order:
    """Check the input. Raises InvalidInput."""
    if rest:
        known = "url, method, headers, body and expect"
        raise InvalidInput(f"{next(iter(rest))[:200]!r} is no input of http, which has {known}; correct its name")
    pairs, address = read_headers(headers), read_url(url)
    names = {name.lower() for name, _ in pairs}
    if address.userinfo and "authorization" in names:
        raise InvalidInput("'url' has a user and 'headers.authorization' another: give one of them")
    content, kind = read_body(body)
    if kind and "content-type" not in names:
        pairs = (*pairs, ("content-type", kind))
    return Order(read_method(method), address, pairs, content, read_expect(expect))


def read_method(method: Any) -> str:
    """Check the method."""
    if isinstance(method, str) and method.upper() in METHODS:
        return method.upper()
    raise InvalidInput(f"'method' is {shown_value(method)}; it must be one of {', '.join(METHODS)}")


def read_url(url: Any) -> httpx.URL:
    """Check the address. An error does not repeat it, since it may hold a password."""
    rule = "'url' must be an address such as https://example.org/path?query=1"
    if not isinstance(url, str):
        raise InvalidInput(rule)
    try:
        read = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidInput(f"{rule}, and this one is none") from error
    if read.scheme not in ("http", "https") or not read.host:
        raise InvalidInput(f"{rule}; it has the scheme {read.scheme[:20]!r} and the host {read.host[:200]!r}")
    return read


def read_headers(headers: Any) -> tuple[tuple[str, str], ...]:
    """Check the headers. An error names a header and never has its value."""
    if headers is None:
        return ()
    if not isinstance(headers, dict) or len(headers) > MAX_HEADERS:
        raise InvalidInput(f"'headers' must be an object of names and texts, at most {MAX_HEADERS} of them")
    return tuple(read_header(name, value) for name, value in headers.items())


def read_header(name: str, value: Any) -> tuple[str, str]:
    """Check one header."""
    if not _TOKEN.fullmatch(name):
        raise InvalidInput(f"'headers' has the name {name[:200]!r}; a name is letters, digits and signs of ASCII")
    if name.lower() in _OURS:
        raise InvalidInput(f"'headers.{name}' is set by the worker: leave it out")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or _CONTROL.search(value) or not encodes(value):
        raise InvalidInput(f"'headers.{name}' must be text on one line")
    return name, value.strip()


def encodes(text: str) -> bool:
    """Tell whether a text is valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_body(body: Any) -> tuple[bytes | None, str]:
    """Return what is sent, and its content type."""
    if body is None:
        return None, ""
    try:
        if isinstance(body, str):
            return body.encode(), "text/plain; charset=utf-8"
        return to_json(body).encode(), "application/json"
    except ValueError as error:
        raise InvalidInput(f"'body' cannot be sent: {error}") from error


def read_expect(expect: Any) -> tuple[str, ...]:
    """Return the statuses that are a success."""
    if expect is None:
        return SUCCESSES
    given = expect.split(",") if isinstance(expect, str) else expect if isinstance(expect, list) else [expect]
    wanted = tuple(str(each).strip().lower() for each in given if not isinstance(each, bool))
    if not wanted or len(wanted) < len(given) or not all(map(_EXPECTED.fullmatch, wanted)):
        rule = "a status such as 204, a class of them such as 2xx, or a list of those"
        raise InvalidInput(f"'expect' is {shown_value(expect)}; it must be {rule}")
    return wanted


def shown_value(value: Any) -> str:
    """Return a value for an error."""
    return repr(value)[:200]
