"""The checked-in tables: current, complete, and read as they are written."""

from __future__ import annotations

import importlib.util
import json
import unicodedata
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from taskyard_worker.text.tables import CODES, OTHER, tables

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_text_tables", ROOT / "tools" / "make_text_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_current(maker: ModuleType) -> None:
    """On the tables' Unicode version all is made again; on another one only the copies are compared."""
    assert maker.stale() == []


def test_a_changed_copy_is_noticed(maker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / maker.CLASSES).write_text("{}", "utf-8")
    monkeypatch.setattr(maker, "PACKAGED", tmp_path)
    monkeypatch.setattr(maker, "ROOT", tmp_path)
    monkeypatch.setattr(maker, "UNICODE", "another")

    assert maker.stale() == [maker.CLASSES, maker.WORDS]


def test_writing_on_another_unicode_version_is_refused(maker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "UNICODE", "another")
    with pytest.raises(SystemExit, match="Unicode another"):
        maker.write()


def test_ranges_are_disjoint_and_every_class_has_a_code() -> None:
    path = ROOT / "tests" / "conformance" / "text" / "character-classes.json"
    classes = json.loads(path.read_text("utf-8"))["classes"]
    ranges = sorted(tuple(pair) for pairs in classes.values() for pair in pairs)

    assert set(classes) == set(CODES)
    assert all(first <= last for first, last in ranges)
    assert all(left[1] < right[0] for left, right in pairwise(ranges))
    assert len(set(CODES.values()) | {OTHER}) == len(CODES) + 1


@pytest.mark.parametrize(
    ("char", "name"),
    [
        ("\t", "space"),
        ("\u3000", "space"),
        ("\r", "carriage_return"),
        ("\u2029", "line_end"),
        ("\u0000", "control"),
        ("\u001c", "control"),
        ("\u200d", "format"),
        ("\ufe0f", "format"),
        ("\U0001f3fd", "format"),
        ("\u00ad", "invisible"),
        ("\ufeff", "invisible"),
        ("\u0301", "mark"),
        ("\u4e00", "cjk"),
        ("\u3007", "cjk"),
        ("\u30fc", "cjk"),
        ("\U00020000", "cjk"),
        ("\ud55c", "letter"),
        ("\u2163", "letter"),
        ("\uff15", "digit"),
        ("\u300d", "closer"),
        ("\u201d", "closer"),
        ("\u3002", "wide_terminator"),
        ("\u0964", "terminator"),
    ],
)
def test_class(char: str, name: str) -> None:
    assert tables().classes(char) == CODES[name]


@pytest.mark.parametrize("char", ["$", "\u201c", "\U0001f600", "\u0378", "\U0010ffff", "\ufffd", "(", "-"])
def test_no_class(char: str) -> None:
    assert tables().classes(char) == OTHER


def test_lower_case_is_one_to_one_and_that_of_the_standard() -> None:
    keys = tables().keys
    same_version = unicodedata.unidata_version == tables().unicode
    for code in range(0x110000):
        lowered = chr(code).lower()
        if same_version and len(lowered) == 1 and tables().class_codes[code] != "A":
            assert keys[code] == ord(lowered)
    assert [keys[ord(char)] for char in "A\u0130\u03a3\u2019"] == [ord(char) for char in "ai\u03c3'"]


def test_word_lists_are_keys() -> None:
    words = tables().stop_words | tables().abbreviations
    assert all(word.translate(tables().keys) == word for word in words)
    assert all(len(char) == 1 and tables().classes(char) == "C" for char in tables().stop_characters)
    assert all(1 < len(word) <= 12 and set(tables().classes(word)) == {"L"} for word in tables().abbreviations)
