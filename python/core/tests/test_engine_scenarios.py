"""Plays the scenario files: what the guarantees and the table of known faults say, step by step, in plain text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from enginescript import Script, dump, parse

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
UPDATE = os.environ.get("TASKYARD_UPDATE_SCENARIOS") == "1"


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_scenario(file: Path) -> None:
    blocks, rest = parse(file.read_text())
    script = Script()
    for block in blocks:
        came = script.play(block.command)
        if UPDATE:
            block.expected = came
        else:
            assert came == block.expected, f"{file.name}: {block.command}"
    text = dump(blocks, rest)
    if UPDATE:
        file.write_text(text)
    assert text == file.read_text(), "the file is not in the form in which it would be written"


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 25


def test_a_wrong_expectation_is_found() -> None:
    blocks, _ = parse("submit a\n----\na: ASSIGNED\n")
    assert Script().play(blocks[0].command) == ["a: QUEUED"] != blocks[0].expected


def test_files_survive_their_reading() -> None:
    text = "# Why\n\nsubmit a\n----\na: QUEUED\n\n# And\nwhy a\n----\nNO\n"
    assert dump(*parse(text)) == text
