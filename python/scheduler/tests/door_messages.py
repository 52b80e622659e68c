"""Messages for tests of the doors: hypothesis strategies that fill any message of the contract with hostile values."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from taskyard_core.engine.events import Refused
from taskyard_core.violations import Violation

M = TypeVar("M", bound=Message)

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


def messages(kind: type[M], depth: int = 4) -> st.SearchStrategy[M]:
    """Returns messages of a kind with any of their fields set to anything that the wire can carry."""

    @st.composite
    def build(draw: st.DrawFn) -> M:
        message = kind()
        for field in kind.DESCRIPTOR.fields:
            if draw(st.booleans()):
                _fill(draw, message, field, depth)
        return message

    return build()


def _fill(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        for key, value in draw(st.dictionaries(texts, texts, max_size=3)).items():
            getattr(message, field.name)[key] = value
    elif nested is not None:
        if depth == 0:
            return
        inner = messages(nested._concrete_class, depth - 1)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(inner, max_size=3)))
        else:
            getattr(message, field.name).CopyFrom(draw(inner))
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(_SCALARS[field.cpp_type], max_size=4)))
    else:
        setattr(message, field.name, draw(_SCALARS[field.cpp_type]))


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
