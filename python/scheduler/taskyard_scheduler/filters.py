"""The filter language of lists: the part of CEL that becomes SQL, and the fields of each list.

    filter     = [ term { "&&" term } ]      term    = comparison | "(" filter ")"
    comparison = field op literal | literal op field | field "in" "[" literal { "," literal } "]"
    literal    = "text" | 'text' | integer | true | false | timestamp("2025-01-31T12:00:00Z") | ENUM_NAME

What else CEL has is recognised and refused by name, with what can be written instead.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NoReturn, cast

from taskyard.v1 import fleet_pb2, workflows_pb2
from taskyard_core.records import TaskState
from taskyard_core.violations import LocatedError, cut, suggestion
from taskyard_scheduler.store.port import Condition

SOURCE_LIMIT: Final = 4_096
CONDITIONS_LIMIT: Final = 50
VALUES_LIMIT: Final = 200
"""Of one `in` list."""
INTEGER_LIMIT: Final = 2**63

Kind = Literal["text", "integer", "bool", "time", "enum"]
Op = Literal["==", "!=", "<", "<=", ">", ">=", "in"]


class FilterError(LocatedError):
    """A filter does not follow its language, or uses what lists cannot look for."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field that a list can look for: its column, the kind of its values, and an enum's numbers by short name."""

    column: str
    kind: Kind = "text"
    names: Mapping[str, int] | None = None


Fields = Mapping[str, FieldSpec]


def _short_names(enum: Any, prefix: str) -> dict[str, int]:
    return {value.name.removeprefix(prefix): value.number for value in enum.DESCRIPTOR.values if value.number}


_TASK_STATUS: Final = FieldSpec("state", "enum", {state.name: state.value for state in TaskState})
_RUN_STATE: Final = FieldSpec("state", "enum", _short_names(workflows_pb2.RunState, "RUN_STATE_"))
_WORKER_STATE: Final = FieldSpec("state", "enum", _short_names(fleet_pb2.WorkerState, "WORKER_STATE_"))

TASK_FIELDS: Final[Fields] = {
    "task_id": FieldSpec("id"),
    "task_name": FieldSpec("task_name"),
    "task_type": FieldSpec("task_type"),
    "status": _TASK_STATUS,
    "priority": FieldSpec("priority", "integer"),
    "error.kind": FieldSpec("error_kind"),
    "attempt": FieldSpec("attempt", "integer"),
    "retry_count": FieldSpec("retries", "integer"),
    "worker_id": FieldSpec("worker_id"),
    "run_id": FieldSpec("run_id"),
    "step_id": FieldSpec("step_id"),
    "create_time": FieldSpec("created_at", "time"),
    "queue_time": FieldSpec("queued_at", "time"),
    "assign_time": FieldSpec("assigned_at", "time"),
    "start_time": FieldSpec("started_at", "time"),
    "end_time": FieldSpec("ended_at", "time"),
    "revision": FieldSpec("revision", "integer"),
    "idempotency_key": FieldSpec("idempotency_key"),
}
RUN_FIELDS: Final[Fields] = {
    "run_id": FieldSpec("id"),
    "workflow": FieldSpec("workflow"),
    "version": FieldSpec("version", "integer"),
    "state": _RUN_STATE,
    "create_time": FieldSpec("created_at", "time"),
    "end_time": FieldSpec("ended_at", "time"),
    "revision": FieldSpec("revision", "integer"),
    "steps_total": FieldSpec("steps_total", "integer"),
    "steps_ended": FieldSpec("steps_ended", "integer"),
}
WORKFLOW_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "version": FieldSpec("version", "integer"),
    "create_time": FieldSpec("created_at", "time"),
}
DEFINITION_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "number": FieldSpec("number", "integer"),
    "task_type": FieldSpec("task_type"),
    "priority": FieldSpec("priority", "integer"),
    "exclusive": FieldSpec("exclusive", "bool"),
    "create_time": FieldSpec("created_at", "time"),
    "update_time": FieldSpec("updated_at", "time"),
}
"""Definitions are looked for in memory: `task_type` and others are no columns."""
WORKER_FIELDS: Final[Fields] = {
    "worker_id": FieldSpec("worker_id"),
    "host": FieldSpec("host"),
    "port": FieldSpec("port", "integer"),
    "max_concurrency": FieldSpec("max_concurrency", "integer"),
    "state": _WORKER_STATE,
    "active_tasks": FieldSpec("active_tasks", "integer"),
    "session_epoch": FieldSpec("session_epoch", "integer"),
    "last_seen_time": FieldSpec("last_seen_at", "time"),
    "memory_mb": FieldSpec("memory_mb", "integer"),
    "build_id": FieldSpec("build_id"),
    "protocol": FieldSpec("protocol"),
}
QUEUE_FIELDS: Final[Fields] = {
    "task_type": FieldSpec("task_type"),
    "selector": FieldSpec("selector"),
    "waiting": FieldSpec("waiting", "integer"),
    "head_time": FieldSpec("head_at", "time"),
}


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
    return _Parser(text, fields, where).filter()


def matches(conditions: Sequence[Condition], values: Mapping[str, str | int | None]) -> bool:
    """Tells whether a thing in memory meets every condition, as SQL would: None meets none.

    Args:
        conditions: From `parse_filter`.
        values: The thing's values by column.
    """
    for condition in conditions:
        value = values[condition.field]
        if value is None or not _OPERATORS[condition.op](value, condition.value):
            return False
    return True


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, among: value in among,
}
_TURNED: Final[dict[str, Op]] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<float>-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+)
      | (?P<integer>-?(?:0[xX][0-9a-fA-F]+|\d+))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<op>==|!=|<=|>=|&&|\|\||[<>()\[\],!+\-*/%?:={}.|&])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?"}

_WRITE: Final = "join comparisons with '&&', as in status == \"FAILED\" && priority <= 3"
_REFUSED: Final = {
    "||": f"'||' (or) is not offered; write 'in' for one field, as in status in [FAILED, TIMEOUT], else {_WRITE}",
    "!": "'!' (not) is not offered; write the opposite comparison, as in status != SUCCESS",
    "?": f"'? :' (conditions) are not offered; {_WRITE}",
    "+": f"arithmetic ('+') is not offered; write the value itself, or {_WRITE}",
    "-": f"arithmetic ('-') is not offered; write the value itself, or {_WRITE}",
    "*": f"arithmetic ('*') is not offered; write the value itself, or {_WRITE}",
    "/": f"arithmetic ('/') is not offered; write the value itself, or {_WRITE}",
    "%": f"arithmetic ('%') is not offered; write the value itself, or {_WRITE}",
    "[": "an index ('[') is not offered; compare a whole field",
    "{": "a map or message ('{') is not offered; compare with a text, a number or a timestamp",
    "=": "'=' is no comparison; write '=='",
    "&": "'&' is not offered; write '&&'",
    "|": "'|' is not offered; write 'in' for one field, as in status in [FAILED, TIMEOUT]",
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """A field's name or a literal, as it was written."""

    kind: Literal["word", "string", "integer", "bool", "time"]
    value: str | int
    at: int


class _Parser:
    """Reads a filter from left to right with one token of look-ahead; every error knows its place."""

    def __init__(self, source: str, fields: Fields, where: str) -> None:
        self.source = source
        self.fields = fields
        self.where = where
        self.token = self.scan(0)
        self.conditions: list[Condition] = []

    def filter(self) -> list[Condition]:
        if self.token.kind != "end":
            self.terms(0)
            if self.token.kind != "end":
                self.unexpected("here '&&' or the end is expected")
        return self.conditions

    def terms(self, depth: int) -> None:
        while True:
            self.term(depth)
            if not self.take("&&"):
                return

    def term(self, depth: int) -> None:
        if self.take("("):
            if depth == CONDITIONS_LIMIT:
                self.fail("parentheses are nested too deep; remove them", self.token.at)
            self.terms(depth + 1)
            if not self.take(")"):
                self.unexpected("here '&&' or ')' is expected")
            return
        if len(self.conditions) == CONDITIONS_LIMIT:
            self.fail(f"there are more than {CONDITIONS_LIMIT} comparisons; leave some out", self.token.at)
        self.conditions.append(self.comparison())

    def comparison(self) -> Condition:
        left = self.operand()
        if self.token.kind == "word" and self.token.text == "in":
            self.advance()
            return self.membership(left)
        op = self.token
        if op.kind != "op" or op.text not in _TURNED:
            self.unexpected("here a comparison is expected: ==, !=, <, <=, >, >= or 'in [...]'")
        self.advance()
        right = self.operand()
        if self.is_field(left):
            return self.condition(left, cast("Op", op.text), right, op.at)
        if self.is_field(right):
            return self.condition(right, _TURNED[op.text], left, op.at)
        self.fail_field(left if left.kind == "word" or right.kind != "word" else right)

    def membership(self, field: _Operand) -> Condition:
        spec = self.spec(field)
        if not self.take("["):
            self.fail(
                "after 'in' a list is expected, as in [\"a\", \"b\"]; 'in' looks at no map and no field",
                self.token.at,
            )
        values: list[str | int] = []
        while not self.take("]"):
            if values and not self.take(","):
                self.unexpected("here ',' or ']' is expected")
            if len(values) == VALUES_LIMIT:
                self.fail(f"the list has more than {VALUES_LIMIT} values; split the question", self.token.at)
            values.append(self.literal(spec, self.operand()))
        if not values:
            self.fail("the list after 'in' is empty, so nothing could match; name at least one value", self.token.at)
        return Condition(spec.column, "in", tuple(values))

    def condition(self, field: _Operand, op: Op, literal: _Operand, at: int) -> Condition:
        spec = self.spec(field)
        if spec.kind in ("enum", "bool") and op not in ("==", "!="):
            self.fail(f"{cut(field.value)} has no order; compare it with ==, != or 'in'", at)
        return Condition(spec.column, op, self.literal(spec, literal))

    def operand(self) -> _Operand:
        token = self.token
        if token.kind == "string":
            self.advance()
            return _Operand("string", self.unescape(token), token.at)
        if token.kind == "integer":
            self.advance()
            return _Operand("integer", self.integer(token), token.at)
        if token.kind == "word":
            self.advance()
            if self.token.text == "(":
                return self.call(token)
            if token.text in ("true", "false"):
                return _Operand("bool", int(token.text == "true"), token.at)
            return _Operand("word", token.text, token.at)
        if token.kind == "float":
            self.fail("a fraction is compared with no field; write a whole number", token.at)
        self.unexpected("here a field or a value is expected")

    def call(self, name: _Token) -> _Operand:
        if name.text != "timestamp":
            function = name.text.rpartition(".")[2]
            sentence = f'functions such as {function}() are not offered, only timestamp("..."); compare a field'
            self.fail(sentence, name.at)
        self.advance()
        token = self.token
        if token.kind != "string":
            self.unexpected('inside timestamp() a text is expected, as in timestamp("2025-01-31T12:00:00Z")')
        self.advance()
        if not self.take(")"):
            self.unexpected("here ')' is expected")
        return _Operand("time", self.time(self.unescape(token), token.at), name.at)

    def literal(self, spec: FieldSpec, operand: _Operand) -> str | int:
        if spec.kind == "enum" and operand.kind in ("word", "string"):
            return self.enum(spec, operand)
        wanted = {"text": "string", "integer": "integer", "bool": "bool", "time": "time"}.get(spec.kind)
        if operand.kind == wanted:
            return operand.value
        expected = {
            "text": 'a text in quotes, as in "abc"',
            "integer": "a whole number",
            "bool": "true or false",
            "time": 'a time, as in timestamp("2025-01-31T12:00:00Z")',
            "enum": "one of " + ", ".join(spec.names or ()),
        }[spec.kind]
        self.fail(f"this field is compared with {expected}, not with {cut(operand.value)}", operand.at)

    def enum(self, spec: FieldSpec, operand: _Operand) -> int:
        names = spec.names or {}
        number = names.get(str(operand.value))
        if number is None:
            hint = suggestion(str(operand.value), names)
            self.fail(f"{cut(operand.value)} is not one of {', '.join(names)}.{hint}", operand.at)
        return number

    def spec(self, operand: _Operand) -> FieldSpec:
        if not self.is_field(operand):
            self.fail_field(operand)
        return self.fields[str(operand.value)]

    def is_field(self, operand: _Operand) -> bool:
        return operand.kind == "word" and operand.value in self.fields

    def fail_field(self, operand: _Operand) -> NoReturn:
        known = ", ".join(self.fields)
        if operand.kind != "word":
            self.fail(f"a comparison needs a field on one side; it may be {known}", operand.at)
        hint = suggestion(str(operand.value), self.fields)
        self.fail(f"this list cannot look for {cut(operand.value)}; it has {known}.{hint}", operand.at)

    def integer(self, token: _Token) -> int:
        text = token.text.lower()
        value = int(text, 16) if "x" in text else int(text) if len(text) < 21 else INTEGER_LIMIT
        if not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
            self.fail("the number is beyond 64 bits; write a smaller one", token.at)
        return value

    def time(self, text: str, at: int) -> int:
        try:
            time = datetime.fromisoformat(text)
            if time.tzinfo is None:
                raise ValueError("no zone")
            return round(time.timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(f'{cut(text)} is no time; write it as in "2025-01-31T12:00:00Z", with a zone', at)

    def unescape(self, token: _Token) -> str:
        def one(found: re.Match[str]) -> str:
            code = found.group(1)
            if code[0] in "uU" and len(code) > 1:
                number = int(code[1:], 16)
                if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                    self.fail(f"\\{code} is no character; write one that exists", token.at + 1 + found.start())
                return chr(number)
            if code not in _ESCAPES:
                self.fail(f"\\{code} is no escape; write a backslash as two", token.at + 1 + found.start())
            return _ESCAPES[code]

        text = _ESCAPE.sub(one, token.text[1:-1])
        if "\0" in text:
            self.fail("no text holds NUL, so nothing could match; remove it", token.at)
        return text

    def take(self, text: str) -> bool:
        if self.token.kind != "op" or self.token.text != text:
            return False
        self.advance()
        return True

    def advance(self) -> None:
        self.token = self.scan(self.token.at + len(self.token.text))

    def scan(self, at: int) -> _Token:
        found = _TOKEN.match(self.source, at)
        if found is None or found.lastgroup is None:
            while self.source[at : at + 1] in (" ", "\t", "\r", "\n"):
                at += 1
            unclosed = self.source[at] in "\"'"
            self.fail(
                "the text has no end; close its quote" if unclosed else f"{self.source[at]!r} belongs to no filter",
                at,
            )
        return _Token(found.lastgroup, found.group(found.lastgroup), found.start(found.lastgroup))

    def unexpected(self, expected: str) -> NoReturn:
        token = self.token
        if token.kind == "op" and token.text in _REFUSED:
            self.fail(_REFUSED[token.text], token.at)
        if token.kind == "integer" and token.text.startswith("-"):
            self.fail(_REFUSED["-"], token.at)
        self.fail(f"{expected}; {_WRITE}", token.at)

    def fail(self, sentence: str, at: int) -> NoReturn:
        raise FilterError(self.where, self.source, at, sentence)
