"""What is said of artifacts: heads of uploads, ids, and ranges, checked and brought into the form that is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_core.artifacts import SCHEME, is_id
from taskyard_core.names import check_name
from taskyard_core.violations import InvalidInput, Violation, cut
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.texts import request_id_fault
from taskyard_service.errors import OutOfRange

MEDIA_TYPE_DEFAULT: Final = "application/octet-stream"
MEDIA_TYPE_LIMIT: Final = 200
_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE = re.compile(rf"{_WORD}/{_WORD}(?: *;[ -~]*)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Head:
    """What is said of an artifact before its bytes. `size` None and `sha256` "" are not known."""

    name: str
    media_type: str
    size: int | None
    sha256: str
    request_id: str


def read_head(head: pb.ArtifactHead, path: str = "head.") -> Head:
    """Returns what a head says.

    Raises:
        InvalidInput: It breaks a rule.
    """
    findings = Findings()
    sha256 = head.sha256.lower()
    findings.add(f"{path}name", check_name(head.name) if head.name else None)
    findings.add(f"{path}media_type", _media_type_fault(head.media_type))
    if head.HasField("size") and head.size < 0:
        findings.add(f"{path}size", f"{head.size} is less than 0: give the number of bytes, or leave it out")
    if sha256 and not _SHA256.fullmatch(sha256):
        findings.add(f"{path}sha256", f"{cut(head.sha256)} is not 64 hexadecimal digits; `sha256sum FILE` tells them")
    if head.request_id:
        findings.add(f"{path}request_id", request_id_fault(head.request_id))
    findings.raise_any()
    size = head.size if head.HasField("size") else None
    return Head(head.name, head.media_type or MEDIA_TYPE_DEFAULT, size, sha256, head.request_id)


def _media_type_fault(text: str) -> str | None:
    if not text or (len(text) <= MEDIA_TYPE_LIMIT and _MEDIA_TYPE.fullmatch(text)):
        return None
    return f"{cut(text)} is no media type of at most {MEDIA_TYPE_LIMIT} characters; write for example text/csv"


def require_artifact(artifact_id: str, field: str = "artifact_id") -> None:
    """Checks that an artifact is named by its id.

    Raises:
        InvalidInput: It is empty, or no id.
    """
    if is_id(artifact_id):
        return
    if artifact_id.startswith(SCHEME):
        hint = f"{cut(artifact_id)} is a URI; give what follows {SCHEME}, up to `#`"
    elif artifact_id:
        hint = f"{cut(artifact_id)} is no id of an artifact, which looks like 018f3b5e-7c1a-7abc-9def-0123456789ab"
    else:
        hint = "it is empty; give the id of an artifact; `taskyard artifacts list` lists them"
    raise InvalidInput([Violation(field, hint)])


def read_range(offset: int, length: int, size: int) -> tuple[int, int]:
    """Returns the first byte and the number of bytes that are wanted of so many.

    Raises:
        InvalidInput: One is negative.
        OutOfRange: There is no byte at the offset.
    """
    findings = Findings()
    for field, value in (("offset", offset), ("length", length)):
        findings.add(field, f"{value} is less than 0" if value < 0 else None)
    findings.raise_any()
    if offset > max(0, size - 1):
        raise OutOfRange(
            "OFFSET_BEYOND_END",
            f"the artifact has {size} bytes, and none at offset {offset}",
            metadata={"size": str(size), "offset": str(offset)},
        )
    return offset, min(length or size, size - offset)
