"""Messages for tests of the doors: hypothesis strategies that fill any message of the contract with hostile values."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from taskyard_core.engine.events import Refused
from taskyard_core.violations import Violation

M = TypeVar("M", bound=Message)
Field = Any  # a FieldDescriptor, which has two classes of which one is private

NASTY_TEXTS = (
    "", "x", "noop", "*", " ", "a\0b", "tab\there", "\x7f", "naïve", "日本語", "🙂", "${inputs.x}", "${", "$${x}",
    "x" * 201, '{"a": 1}', '{"a": "\\u0000"}', '{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1e999}', "[1]", "nul", "{",
    "[" * 300, "a=1", "a in (", "zone notin (x,y),!b", "true", "'; drop table instances; --",
)  # fmt: skip
INT32 = (-(2**31), -1, 0, 1, 5, 10, 11, 100, 2**31 - 1)
INT64 = (*INT32, -(2**63), 2**63 - 1)
DOUBLES = (float("nan"), float("inf"), -1.0, 0.0, 0.5, 1.0, 2.0, 1e300)

texts = st.one_of(st.sampled_from(NASTY_TEXTS), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: texts,
    FieldDescriptor.CPPTYPE_INT32: st.sampled_from(INT32),
    FieldDescriptor.CPPTYPE_INT64: st.sampled_from(INT64),
    FieldDescriptor.CPPTYPE_DOUBLE: st.sampled_from(DOUBLES),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(0, 99),
}


# What a well-meant field holds, by the end of its name; anything else of its type by the type.
_TAME_TEXTS = {
    "_json": ("", "{}", '{"a": "x", "n": [1.5, null]}', '{"é": "${inputs.a}"}'),
    "selector": ("", "a=1", "zone in (x,y),!spot"),
    "affinity": ("", "b"),
    "spread": ("", "zone"),
    "traceparent": ("", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    "protocol": ("", "grpc"),
    "callback_url": ("",),
    "grpc_addr": ("",),
    "task_name": ("", "noop"),
}
_TAME_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: st.sampled_from(["x", "noop", "日本語", "a-b.c", "🙂"]),
    FieldDescriptor.CPPTYPE_INT32: st.integers(1, 10),
    FieldDescriptor.CPPTYPE_INT64: st.integers(1, 1_000),
    FieldDescriptor.CPPTYPE_DOUBLE: st.just(1.0),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(0, 5),
}
_tame_map = st.dictionaries(st.sampled_from(["a", "lang", "zone"]), st.sampled_from(["1", "x-y", ""]), max_size=3)


def messages(kind: type[M], depth: int = 4) -> st.SearchStrategy[M]:
    """Returns messages of a kind with any of their fields set: half of them well meant, half to anything at all."""

    @st.composite
    def build(draw: st.DrawFn) -> M:
        return _draw(draw, kind, depth, tame=draw(st.booleans()))

    return build()


def _draw(draw: st.DrawFn, kind: type[M], depth: int, *, tame: bool) -> M:
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.booleans()):
            _fill(draw, message, field, depth, tame=tame)
    return message


def _fill(draw: st.DrawFn, message: Message, field: Field, depth: int, *, tame: bool) -> None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        for key, value in draw(_tame_map if tame else st.dictionaries(texts, texts, max_size=3)).items():
            getattr(message, field.name)[key] = value
    elif nested is not None:
        count = draw(st.integers(0, 3)) if field.is_repeated else 1
        for _ in range(count if depth else 0):
            inner = _draw(draw, GetMessageClass(nested), depth - 1, tame=tame)
            target = getattr(message, field.name)
            if tame and isinstance(inner, Duration):
                inner.seconds, inner.nanos = draw(st.integers(1, 3_600)), 0
            (target.add() if field.is_repeated else target).CopyFrom(inner)
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(_scalar(field, tame=tame), max_size=4)))
    else:
        setattr(message, field.name, draw(_scalar(field, tame=tame)))


def _scalar(field: Field, *, tame: bool) -> st.SearchStrategy[Any]:
    if not tame:
        return _SCALARS[field.cpp_type]
    for ending, values in _TAME_TEXTS.items():
        if field.name.endswith(ending):
            return st.sampled_from(values)
    return _TAME_SCALARS[field.cpp_type]


def fields_of(refused: object) -> list[str]:
    """Returns the fields that a refusal is about."""
    assert isinstance(refused, Refused), refused
    return [violation.field for violation in refused.violations]


def check_violations(violations: list[Violation]) -> None:
    """Checks what is true of every violation that leaves the scheduler."""
    assert 1 <= len(violations) <= 20
    for violation in violations:
        assert violation.field
        assert len(violation.description) < 1_200, violation.description
        assert "\0" not in violation.description
        (violation.field + violation.description).encode()
