from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2
from hypothesis import given
from hypothesis import strategies as st

from taskyard_service import errors
from taskyard_service.errors import FieldViolation, InvalidArgument, NotFound, ResourceExhausted, ServiceError
from taskyard_service.status import DETAILS_KEY, to_grpc, to_proto


def detail(error: ServiceError, kind: type) -> Any:
    found = kind()
    for packed in to_proto(error).details:
        if packed.Unpack(found):
            return found
    raise AssertionError(f"no {kind.__name__}")


def test_reason_domain_and_variables_travel() -> None:
    error = NotFound("TASK_NOT_FOUND", "there is no task 'x'; list them", metadata={"task_id": "x"})
    info = detail(error, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain, dict(info.metadata)) == ("TASK_NOT_FOUND", "taskyard", {"task_id": "x"})
    assert to_proto(error).code == code_pb2.NOT_FOUND
    status = to_grpc(error)
    assert (status.code, status.details) == (grpc.StatusCode.NOT_FOUND, "there is no task 'x'; list them")
    assert status.trailing_metadata[0][0] == DETAILS_KEY


def test_a_limit_says_when_to_come_back() -> None:
    retry = detail(ResourceExhausted("OVERLOADED", "too much", retry_after_s=1.25), error_details_pb2.RetryInfo)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 250_000_000)
    assert len(to_proto(ResourceExhausted("QUOTA", "too much")).details) == 1


def test_violations_travel_and_their_first_is_the_message() -> None:
    error = InvalidArgument([FieldViolation("a", "is 0; give 1 to 10"), FieldViolation("b", "is empty")])
    assert to_proto(error).message == "a: is 0; give 1 to 10 (and 1 more field)"
    bad = detail(error, error_details_pb2.BadRequest)
    assert [(v.field, v.description) for v in bad.field_violations] == [
        ("a", "is 0; give 1 to 10"),
        ("b", "is empty"),
    ]


def test_at_most_twenty_violations_travel_and_how_many_there_were_is_said() -> None:
    error = InvalidArgument([FieldViolation(f"f{n}", "bad") for n in range(57)])
    assert len(detail(error, error_details_pb2.BadRequest).field_violations) == 20
    assert detail(error, error_details_pb2.ErrorInfo).metadata["violations"] == "57"


def test_an_invalid_argument_without_a_field_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="at least one violation"):
        InvalidArgument([])


text = st.text(st.characters(), max_size=3_000) | st.just("漢" * 2_000) | st.just("\ud800" * 500)


@given(
    st.lists(st.builds(FieldViolation, text, text), min_size=1, max_size=40),
    st.dictionaries(st.text("abc", min_size=1, max_size=9), text, max_size=5),
    text,
)
def test_trailers_stay_below_what_receivers_accept(
    violations: list[FieldViolation], metadata: dict[str, str], message: str
) -> None:
    status = to_grpc(InvalidArgument(violations, message=message or None, metadata=metadata))
    percent_encoded = sum(1 if 0x20 <= byte < 0x7F else 3 for byte in status.details.encode())
    base64_encoded = len(status.trailing_metadata[0][1]) * 4 // 3
    assert percent_encoded + base64_encoded < 8_000


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("wide", ["漢" * 2_000, "\U0001f600" * 2_000, "\ud800" * 500, "x" * 3_000])
def test_the_widest_texts_stay_below_it_together(wide: str, count: int) -> None:
    violations = [FieldViolation(wide, wide)] * count
    status = to_grpc(InvalidArgument(violations, message=wide, metadata=dict.fromkeys("abcde", wide)))
    percent_encoded = sum(1 if 0x20 <= byte < 0x7F else 3 for byte in status.details.encode())
    assert percent_encoded + len(status.trailing_metadata[0][1]) * 4 // 3 < 8_000
    details = to_proto(InvalidArgument(violations, message=wide, metadata=dict.fromkeys("abcde", wide))).details
    assert len(details) == 2, "the first violation is told in any case"


def test_every_error_has_a_code_of_its_own_and_says_what_it_is() -> None:
    family = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ServiceError)]
    codes = [error.code for error in family]
    assert len(set(codes)) == len(family) == 14
    assert all(error.__doc__ for error in family)
