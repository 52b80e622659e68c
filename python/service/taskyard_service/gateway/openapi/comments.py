"""The comments of the contract, which generated code drops: read from an image with source info."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2

IMAGE = ("taskyard.v1", "contract.binpb")
"""Where `make proto` leaves the image."""

Comments: TypeAlias = Mapping[str, str]
"""Comments by the full name of what they are about: a service, method, message, field, enum or enum value."""
_CHILDREN = {
    # By kind of descriptor: the numbers of the fields that hold what has comments, as in a location's path.
    "file": {4: ("message_type", "message"), 5: ("enum_type", "enum"), 6: ("service", "service")},
    "message": {2: ("field", "leaf"), 3: ("nested_type", "message"), 4: ("enum_type", "enum")},
    "enum": {2: ("value", "leaf")},
    "service": {2: ("method", "leaf")},
}


def contract_files() -> Sequence[descriptor_pb2.FileDescriptorProto]:
    """Returns the files of the contract with their source info."""
    package, name = IMAGE
    content = (resources.files(package) / name).read_bytes()
    return descriptor_pb2.FileDescriptorSet.FromString(content).file


def contract_comments() -> Comments:
    """Returns the comments of the contract."""
    return comments_of(contract_files())


def comments_of(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> Comments:
    """Returns the comments of files that have their source info."""
    return MappingProxyType({name: text for file in files for name, text in _comments(file)})


def _comments(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    for location in file.source_code_info.location:
        if location.leading_comments:
            name = _name(file, location.path)
            if name:
                yield name, _clean(location.leading_comments)


def _name(file: descriptor_pb2.FileDescriptorProto, path: Iterable[int]) -> str:
    """Returns the full name that a location's path leads to; empty: to something else."""
    here: Any = file
    kind, name = "file", file.package
    steps = iter(path)
    for number in steps:
        member = _CHILDREN.get(kind, {}).get(number)
        index = next(steps, None)
        if member is None or index is None:
            return ""
        here = getattr(here, member[0])[index]
        # A value of an enum has the enum's scope; its own name here leads through the enum, so that none is met twice.
        name = f"{name}.{here.name}" if name else here.name
        kind = member[1]
    return "" if kind == "file" else name


def _clean(text: str) -> str:
    return "\n".join(line.removeprefix(" ") for line in text.strip("\n").split("\n")).strip()
