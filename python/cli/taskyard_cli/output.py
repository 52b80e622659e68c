"""Answers for programs and people: `-o json` prints one message of the contract as canonical protobuf JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from taskyard_cli.show import out


class Output(StrEnum):
    """For whom the answer is."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]


def print_json(message: Message, *, line: bool = False) -> None:
    """Prints a message as canonical protobuf JSON. `line`: on one line, since it is one of several."""
    if line:
        typer.echo(json_format.MessageToJson(message, ensure_ascii=False, indent=None))
    else:
        typer.echo(json_format.MessageToJson(message, ensure_ascii=False))


def answer(message: Message, output: Output, people: Callable[[], Any], *, line: bool = False) -> None:
    """Prints a message: as JSON, or what `people` returns (something that Rich can print). `line`: see `print_json`."""
    if output is Output.JSON:
        print_json(message, line=line)
    else:
        out().print(people())


def on_terminal() -> bool:
    """Tells whether progress can be shown: stderr is a terminal."""
    return sys.stderr.isatty()
