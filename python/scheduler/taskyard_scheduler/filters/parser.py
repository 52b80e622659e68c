"""The grammar of filters: comparisons that all must hold, read into conditions that a store understands."""

from __future__ import annotations

from typing import Final, Literal, NoReturn, cast

from taskyard_core.tags import stored_tag
from taskyard_core.violations import cut, suggestion
from taskyard_scheduler.filters.fields import Fields, FieldSpec
from taskyard_scheduler.filters.values import Operand, integer, literal, milliseconds, unescape
from taskyard_scheduler.filters.words import FilterError, Token, Words
from taskyard_scheduler.store.port import Condition

SOURCE_LIMIT: Final = 4_096
CONDITIONS_LIMIT: Final = 50
VALUES_LIMIT: Final = 200
"""Of one `in` list."""

Op = Literal["==", "!=", "<", "<=", ">", ">=", "in"]

_TURNED: Final[dict[str, Op]] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_filter(text: str, fields: Fields, where: str = "filter") -> list[Condition]:
    """Reads a filter. Every condition must hold; an empty filter has none.

    Args:
        text: The filter.
        fields: The fields of the list.
        where: Path of the field that holds it, for errors.

    Raises:
        FilterError: It does not follow the language; says where, and what can be written.
    """
    if len(text) > SOURCE_LIMIT:
        raise FilterError(where, text, SOURCE_LIMIT, f"the filter is longer than {SOURCE_LIMIT} characters; shorten it")
    return _Parser(Words(text, where), fields).filter()


class _Parser:
    """Reads the grammar from left to right."""

    def __init__(self, words: Words, fields: Fields) -> None:
        self.words = words
        self.fields = fields
        self.conditions: list[Condition] = []

    def filter(self) -> list[Condition]:
        if self.words.token.kind != "end":
            self.terms(0)
            if self.words.token.kind != "end":
                self.words.unexpected("here '&&' or the end is expected")
        return self.conditions

    def terms(self, depth: int) -> None:
        while True:
            self.term(depth)
            if not self.words.take("&&"):
                return

    def term(self, depth: int) -> None:
        if self.words.take("("):
            if depth == CONDITIONS_LIMIT:
                self.words.fail("parentheses are nested too deep; remove them")
            self.terms(depth + 1)
            if not self.words.take(")"):
                self.words.unexpected("here '&&' or ')' is expected")
            return
        if len(self.conditions) == CONDITIONS_LIMIT:
            self.words.fail(f"there are more than {CONDITIONS_LIMIT} comparisons; leave some out")
        self.conditions.append(self.comparison())

    def comparison(self) -> Condition:
        left = self.operand()
        if self.words.token.kind == "word" and self.words.token.text == "in":
            self.words.advance()
            return self.membership(left)
        op = self.words.token
        if op.kind != "op" or op.text not in _TURNED:
            self.words.unexpected("here a comparison is expected: ==, !=, <, <=, >, >= or 'in [...]'")
        self.words.advance()
        right = self.operand()
        if self.is_field(left):
            return self.condition(left, cast("Op", op.text), right, op.at)
        if self.is_field(right):
            return self.condition(right, _TURNED[op.text], left, op.at)
        self.fail_field(left if left.kind == "word" or right.kind != "word" else right)

    def membership(self, field: Operand) -> Condition:
        if self.words.token.kind == "word" and not self.is_field(field):
            return self.tagged(field)
        spec = self.spec(field)
        if spec.kind == "tags":
            self.words.fail(f'tags are looked for the other way round: "nightly" in {field.value}', field.at)
        if not self.words.take("["):
            self.words.fail("after 'in' a list is expected, as in [\"a\", \"b\"]; 'in' looks at no map and no field")
        values: list[str | int] = []
        while not self.words.take("]"):
            if values and not self.words.take(","):
                self.words.unexpected("here ',' or ']' is expected")
            if len(values) == VALUES_LIMIT:
                self.words.fail(f"the list has more than {VALUES_LIMIT} values; split the question")
            values.append(literal(self.words, spec, self.operand()))
        if not values:
            self.words.fail("the list after 'in' is empty, so nothing could match; name at least one value")
        return Condition(spec.column, "in", tuple(values))

    def tagged(self, tag: Operand) -> Condition:
        """Reads what follows `"nightly" in`: the field that holds tags."""
        token = self.words.token
        spec = self.spec(self.operand())
        if spec.kind != "tags":
            self.words.fail(f"{cut(token.text)} holds no tags; a list of values is expected after 'in'", token.at)
        if tag.kind != "string":
            self.words.fail(f"a tag is a text in quotes, not {cut(tag.value)}", tag.at)
        return Condition(spec.column, "has", stored_tag(str(tag.value)))

    def condition(self, field: Operand, op: Op, value: Operand, at: int) -> Condition:
        spec = self.spec(field)
        if spec.kind == "tags":
            self.words.fail(f"tags are looked for with 'in': \"nightly\" in {field.value}", at)
        if spec.kind in ("enum", "bool") and op not in ("==", "!="):
            self.words.fail(f"{cut(field.value)} has no order; compare it with ==, != or 'in'", at)
        return Condition(spec.column, op, literal(self.words, spec, value))

    def operand(self) -> Operand:
        token = self.words.token
        if token.kind == "string":
            self.words.advance()
            return Operand("string", unescape(self.words, token), token.at)
        if token.kind == "integer":
            self.words.advance()
            return Operand("integer", integer(self.words, token), token.at)
        if token.kind == "word":
            self.words.advance()
            if self.words.token.text == "(":
                return self.call(token)
            if token.text in ("true", "false"):
                return Operand("bool", int(token.text == "true"), token.at)
            return Operand("word", token.text, token.at)
        if token.kind == "float":
            self.words.fail("a fraction is compared with no field; write a whole number", token.at)
        self.words.unexpected("here a field or a value is expected")

    def call(self, name: Token) -> Operand:
        if name.text != "timestamp":
            function = name.text.rpartition(".")[2]
            sentence = f'functions such as {function}() are not offered, only timestamp("..."); compare a field'
            self.words.fail(sentence, name.at)
        self.words.advance()
        token = self.words.token
        if token.kind != "string":
            self.words.unexpected('inside timestamp() a text is expected, as in timestamp("2025-01-31T12:00:00Z")')
        self.words.advance()
        if not self.words.take(")"):
            self.words.unexpected("here ')' is expected")
        return Operand("time", milliseconds(self.words, unescape(self.words, token), token.at), name.at)

    def spec(self, operand: Operand) -> FieldSpec:
        if not self.is_field(operand):
            self.fail_field(operand)
        return self.fields[str(operand.value)]

    def is_field(self, operand: Operand) -> bool:
        return operand.kind == "word" and operand.value in self.fields

    def fail_field(self, operand: Operand) -> NoReturn:
        known = ", ".join(self.fields)
        if operand.kind != "word":
            self.words.fail(f"a comparison needs a field on one side; it may be {known}", operand.at)
        hint = suggestion(str(operand.value), self.fields)
        self.words.fail(f"this list cannot look for {cut(operand.value)}; it has {known}.{hint}", operand.at)
