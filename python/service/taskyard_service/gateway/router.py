"""Finds the binding for a method and a path, on the path's raw segments: a name may hold `/` and `:` when encoded.

A literal segment goes before a variable, a custom verb before a name that ends like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote

from taskyard_service.errors import FieldViolation, InvalidArgument, NotFound, ServiceError, Unimplemented
from taskyard_service.gateway.methods import Binding
from taskyard_service.gateway.templates import MANY, ONE
from taskyard_service.status import cut

ENCODED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")
NEAR = 3
"""Paths that are named where one is not found."""
ALIKE = 4
"""Characters that a path begins with in common with one that is said to be near."""


class NotAllowed(Unimplemented):
    """The path is there, and not for this HTTP method."""

    http_status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, verb: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        hint = "; a `:` that belongs to a name is written %3A" if ":" in path else ""
        said = f"{cut(path)} takes {self.allowed}, not {cut(verb, 40)}{hint}"
        super().__init__("METHOD_NOT_ALLOWED", said, metadata={"allow": self.allowed})


@dataclass(slots=True)
class _Node:
    """A place in the tree of templates. `ends`: bindings that end here, by custom verb and HTTP method."""

    literals: dict[str, _Node] = field(default_factory=dict)
    one: _Node | None = None
    many: _Node | None = None
    ends: dict[str, dict[str, Binding]] = field(default_factory=dict)

    def child(self, part: str) -> _Node:
        if part == ONE:
            self.one = self.one or _Node()
            return self.one
        if part == MANY:
            self.many = self.many or _Node()
            return self.many
        return self.literals.setdefault(part, _Node())


@dataclass(frozen=True, slots=True)
class Match:
    """A binding, and the decoded segments of the path that it was found by."""

    binding: Binding
    segments: list[str]


class Router:
    """Knows all bindings.

    Args:
        bindings: A later one does not replace an earlier one of the same path and method: that is refused.
        others: Paths that somebody else serves, to be named where a path is not found.
    """

    def __init__(self, bindings: Iterable[Binding], others: Iterable[str] = ()) -> None:
        self._root = _Node()
        self._known = list(others)
        for binding in bindings:
            self._add(binding)

    def _add(self, binding: Binding) -> None:
        node = self._root
        for part in binding.template.parts:
            node = node.child(part)
        by_method = node.ends.setdefault(binding.template.verb, {})
        if binding.verb in by_method:
            taken = by_method[binding.verb].method.name
            raise ValueError(f"{binding.method.name} and {taken} have one path: {binding.verb} {binding.template.text}")
        by_method[binding.verb] = binding
        if binding.verb == "GET" and not binding.method.streams:
            by_method["HEAD"] = binding
        self._known.append(binding.template.text)

    def find(self, verb: str, raw_path: str) -> Match:
        """Returns the binding of an HTTP method and a raw path, which begins with `/`.

        Raises:
            NotFound: There is no such path; says what is near.
            NotAllowed: The path is there for other methods.
            InvalidArgument: The path cannot be decoded.
        """
        raw = raw_path[1:].split("/")
        head, colon, custom = raw[-1].rpartition(":")
        forms = [([*raw[:-1], head], custom), (raw, "")] if colon and custom else [(raw, "")]
        allowed: set[str] = set()
        for parts, custom_verb in forms:
            segments = _decoded(parts, raw_path)
            for node in _ends(self._root, segments, 0):
                by_method = node.ends.get(custom_verb, {})
                if binding := by_method.get(verb):
                    return Match(binding, segments)
                allowed.update(by_method)
            if allowed:
                raise NotAllowed(verb, raw_path, allowed)
        raise self._not_found(raw_path)

    def _not_found(self, raw_path: str) -> ServiceError:
        near = self._near(raw_path)
        hint = f"near it is {', '.join(near)}" if near else f"there is {', '.join(self._known[:NEAR])}, …"
        return NotFound(
            "PATH_NOT_FOUND",
            f"there is nothing at {cut(raw_path)}; {hint}; /api/v1/openapi.json has every path, /docs shows them",
            metadata={"path": cut(raw_path)},
        )

    def _near(self, raw_path: str) -> list[str]:
        """Returns the paths that begin most alike. Cheap, since anyone may ask for what is not there."""
        alike = [(_alike(raw_path, known), known) for known in self._known]
        best = max((length for length, _ in alike), default=0)
        found = sorted((known for length, known in alike if length == best), key=lambda known: (len(known), known))
        return found[:NEAR] if best >= ALIKE else []


def _alike(path: str, known: str) -> int:
    """Returns how many characters two paths begin with in common."""
    pairs = zip(path, known, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(path), len(known)))


def _ends(node: _Node, segments: list[str], at: int) -> Iterable[_Node]:
    """Yields where a path may end, the more literal first."""
    if at == len(segments):
        yield node
        return
    segment = segments[at]
    literal = node.literals.get(segment)
    if literal is not None:
        yield from _ends(literal, segments, at + 1)
    if node.one is not None and segment:
        yield from _ends(node.one, segments, at + 1)
    if node.many is not None and segment:
        yield node.many


def _decoded(raw: list[str], raw_path: str) -> list[str]:
    return [_decode(segment, raw_path) if "%" in segment else segment for segment in raw]


def _decode(segment: str, raw_path: str) -> str:
    try:
        if ENCODED.fullmatch(segment):
            return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        pass
    said = f"the segment {cut(segment)!r} is no percent-encoded UTF-8; encode `%` itself as %25"
    raise InvalidArgument([FieldViolation("path", said)], metadata={"path": cut(raw_path)})
