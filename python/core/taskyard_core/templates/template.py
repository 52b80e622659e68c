"""Compiled templates: texts and JSON-like values with references in them, and their rendering."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from taskyard_core.templates.errors import TemplateError
from taskyard_core.templates.parser import parse
from taskyard_core.templates.references import Reference
from taskyard_core.templates.scope import RENDER_LIMIT, Rendering, Scope, as_part, as_text, resolve
from taskyard_core.violations import cut

DEPTH_LIMIT: Final = 100
"""How deep lists and objects may be nested in a value with templates."""

_SHORT_WORD = re.compile(r"\w{1,60}")
_Node = Callable[[Rendering], object]


class Template:
    """A text with references.

    Attributes:
        field: Path of the field that holds it.
        source: The text as it was written.
        references: What it refers to, in order.
    """

    __slots__ = ("_parts", "field", "references", "source")

    def __init__(self, source: str, field: str, parts: list[str | Reference]) -> None:
        self.field = field
        self.source = source
        self._parts = tuple(parts)
        self.references = tuple(part for part in parts if isinstance(part, Reference))

    @property
    def is_constant(self) -> bool:
        """Whether it renders as the same text in every scope."""
        return not self.references

    @property
    def literal(self) -> str:
        """The text around the references, escapes undone; of a constant template, what it renders as."""
        return "".join(part for part in self._parts if isinstance(part, str))

    @property
    def is_whole(self) -> bool:
        """Whether it is exactly one reference, so that a value template keeps the type of what it finds."""
        return len(self._parts) == 1 and bool(self.references)

    def render(self, scope: Scope, limit: int = RENDER_LIMIT) -> str:
        """Return the text: strings as they are, other values as compact JSON (null as `null`).

        Args:
            scope: What the references see.
            limit: Characters that references may produce.

        Raises:
            RenderError: A reference finds nothing, or the text grows beyond `limit`.
        """
        return self.literal if self.is_constant else self.render_text(Rendering(scope, limit))

    def render_text(self, rendering: Rendering) -> str:
        """Render as a part of a greater rendering."""
        pieces: list[str] = []
        written = as_text if self.is_whole else as_part
        for part in self._parts:
            if isinstance(part, Reference):
                text = written(resolve(part, rendering.scope, self.field), self.field, part)
                rendering.charge(len(text), self.field, part)
                pieces.append(text)
            else:
                pieces.append(part)
        return "".join(pieces)

    def render_value(self, rendering: Rendering) -> object:
        """Return the value itself that the only reference finds."""
        reference = self.references[0]
        value = resolve(reference, rendering.scope, self.field)
        rendering.charge_value(value, self.field, reference)
        return value


class ValueTemplate:
    """A JSON-like value whose strings may hold references.

    A string that is exactly one reference becomes the value found, with its type; any other renders as text.

    Attributes:
        templates: Its strings that hold references, in order.
        references: What they refer to, in order.
    """

    __slots__ = ("_constant", "_node", "references", "templates")

    def __init__(self, constant: object, node: _Node | None, templates: list[Template]) -> None:
        self._constant = constant
        self._node = node
        self.templates = tuple(templates)
        self.references = tuple(reference for each in templates for reference in each.references)

    @property
    def is_constant(self) -> bool:
        """Whether it renders as the same value in every scope."""
        return self._node is None

    def render(self, scope: Scope, limit: int = RENDER_LIMIT) -> object:
        """Return the value. Parts without references, and values found, are shared: do not change them.

        Args:
            scope: What the references see.
            limit: Characters that references may produce in all.

        Raises:
            RenderError: A reference finds nothing, or the value grows beyond `limit`.
        """
        return self._constant if self._node is None else self._node(Rendering(scope, limit))


def compile_text(source: str, where: str) -> Template:
    """Compile a template that renders as text.

    Args:
        source: The text.
        where: Path of the field that holds it, for errors.

    Raises:
        TemplateError: The text does not follow the template language.
    """
    return Template(source, where, parse(source, where))


def compile_value(value: object, where: str) -> ValueTemplate:
    """Compile a JSON-like value (None, bool, int, float, str, list, dict with str keys) with templates in it.

    Keys of objects are literal; `$${` stands for `${` in them as in texts.

    Args:
        value: The value. It is copied, all but its strings and numbers.
        where: Path of the field that holds it, for errors.

    Raises:
        TemplateError: A string does not follow the template language, a key holds a reference, or the value
            is nested too deeply.
        TypeError: The value is not JSON-like.
    """
    templates: list[Template] = []
    constant, node = _compile(value, where, templates, 0)
    return ValueTemplate(constant, node, templates)


def _compile(value: object, where: str, templates: list[Template], depth: int) -> tuple[object, _Node | None]:
    """Return the value as a constant, or what renders it."""
    if isinstance(value, str):
        return _compile_string(value, where, templates)
    if not isinstance(value, list | dict):
        if value is None or isinstance(value, bool | int | float):
            return value, None
        raise TypeError(f"{where}: {cut(value)} is not JSON-like")
    if depth == DEPTH_LIMIT:
        sentence = f"lists and objects are nested deeper than {DEPTH_LIMIT}; flatten the value"
        raise TemplateError(where, cut(value), 0, sentence)
    if isinstance(value, list):
        return _compile_list(value, where, templates, depth)
    return _compile_object(value, where, templates, depth)


def _compile_string(source: str, where: str, templates: list[Template]) -> tuple[object, _Node | None]:
    if "${" not in source:
        return source, None
    template = compile_text(source, where)
    if template.is_constant:
        return template.literal, None
    templates.append(template)
    return None, template.render_value if template.is_whole else template.render_text


def _compile_list(
    items: list[object], where: str, templates: list[Template], depth: int
) -> tuple[object, _Node | None]:
    compiled = [_compile(item, f"{where}[{place}]", templates, depth + 1) for place, item in enumerate(items)]
    if all(node is None for _, node in compiled):
        return [constant for constant, _ in compiled], None

    def render(rendering: Rendering) -> object:
        return [constant if node is None else node(rendering) for constant, node in compiled]

    return None, render


def _compile_object(
    members: dict[str, object], where: str, templates: list[Template], depth: int
) -> tuple[object, _Node | None]:
    constants: dict[str, object] = {}
    nodes: list[tuple[str, _Node]] = []
    for written, member in members.items():
        key = _compile_key(written, where)
        place = f"{where}.{key}" if _SHORT_WORD.fullmatch(key) else f"{where}[{cut(key, 60)}]"
        constants[key], node = _compile(member, place, templates, depth + 1)
        if node is not None:
            nodes.append((key, node))
    if not nodes:
        return constants, None

    def render(rendering: Rendering) -> object:
        rendered = constants.copy()  # keeps the order of the keys
        for key, node in nodes:
            rendered[key] = node(rendering)
        return rendered

    return None, render


def _compile_key(written: object, where: str) -> str:
    if not isinstance(written, str):
        raise TypeError(f"{where}: the key {cut(written)} is not a string")
    key = compile_text(written, where)
    if not key.is_constant:
        sentence = "a key cannot hold a reference; put it into the value, or write $${ for a literal ${"
        raise TemplateError(where, written, key.references[0].position, sentence)
    return key.literal
