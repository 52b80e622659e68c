"""YAML: what it means, and a place and a way out for what it must not mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from taskyard_cli.problems import BadFile, Mark
from taskyard_cli.workflows import yaml_source
from taskyard_cli.workflows.yaml_source import read_yaml


@pytest.fixture(params=["libyaml", "pure"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(yaml_source, "_LOADER", yaml.SafeLoader)


def value(text: str) -> Any:
    return read_yaml(text.encode(), "f.yaml").value


def complaint(text: str | bytes) -> str:
    with pytest.raises(BadFile) as caught:
        read_yaml(text.encode() if isinstance(text, str) else text, "f.yaml")
    return str(caught.value)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: 1", {"a": 1}),
        ("a: -7\nb: 1.5\nc: 1e3\nd: .5", {"a": -7, "b": 1.5, "c": 1000.0, "d": 0.5}),
        ("a: true\nb: False", {"a": True, "b": False}),
        ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
        ('a: "no"\nb: \'012\'\nc: "1:30"', {"a": "no", "b": "012", "c": "1:30"}),
        ("a: 2026-11-29\nb: v1\nc: 1.2.3", {"a": "2026-11-29", "b": "v1", "c": "1.2.3"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("- a\n- [b, {c: d}]", ["a", ["b", {"c": "d"}]]),
        ("1: x", {"1": "x"}),
        ("a: ${steps.a.output}", {"a": "${steps.a.output}"}),
        ("d: &d {x: 1, y: 2}\ne:\n  <<: *d\n  y: 3", {"d": {"x": 1, "y": 2}, "e": {"x": 1, "y": 3}}),
        ("a: &a [1]\nb: *a", {"a": [1], "b": [1]}),
        ("\ufeffa: 语言 👩‍🚀", {"a": "语言 👩‍🚀"}),
    ],
)
def test_values(text: str, wanted: Any) -> None:
    assert value(text) == wanted


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("country: no", "1:10: country", 'write false, or "no" in quotes'),
        ("a:\n  - b: on", "2:8: a[0].b", 'write true, or "on" in quotes'),
        ("yes: 1", "1:1", "in quotes"),
        ("a: 1\nb: 2\na: 3", "3:1: a", "there already, in line 1"),
        ("a: 010", "1:4: a", "not the same number to all readers"),
        ("a: 1:30", "1:4: a", "not the same number to all readers"),
        ("a: 1_000", "1:4: a", "in quotes as a text"),
        ("a: 0x1F", "1:4: a", "in quotes as a text"),
        ("a: .inf", "1:4: a", "in quotes as a text"),
        ("a: .nan", "1:4: a", "in quotes as a text"),
        ("a: 1e999", "1:4: a", "in quotes as a text"),
        ("a: !!python/object:os.system x", "1:4: a", "tag"),
        ("a: !secret x", "1:4: a", "tag"),
        ("a: !!set {x}", "1:4: a", "tag"),
        ("? [a]\n: b", "1:3", "key must be a text"),
        ("a: 1\n---\nb: 2", "2:1", "second document"),
        ("a:\n\tb: 1", "2:1", "tab"),
        ("a: x: y", "1:5", "`: `"),
        ("a: @x", "1:4", "begin with `@`"),
        ("a: `x`", "1:4", "put it in quotes"),
        ('a: "\\ud83d\\ude00"', "1:", "write the character itself"),
        ("a: *x", "1:4", "no anchor"),
        ("a: &a [*a]", "1:4: a[0]", "contains itself"),
        ("a: [1, 2", "", ""),
        ('a: "x', "1:6", ""),
    ],
)
def test_what_is_refused_has_its_place_and_a_way_out(text: str, place: str, says: str) -> None:
    said = complaint(text)
    assert said.startswith(f"f.yaml:{place}"), said
    assert says in said


def test_nothing_is_no_value() -> None:
    assert complaint("") == "f.yaml: is empty"
    assert complaint("# only a comment\n") == "f.yaml: is empty"


@pytest.mark.usefixtures("reader")
def test_bytes_that_are_no_text() -> None:
    assert complaint(b"a: 1\nb: \xff") == "f.yaml:2:4: byte 0xff is not UTF-8; save the file as UTF-8"
    assert "U+0000" in complaint("a: x\0y")
    assert complaint("a: x\nb: \x07").startswith("f.yaml:2:4: the character U+0007")


@pytest.mark.usefixtures("reader")
def test_bombs_are_refused_quickly() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{','.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(12)
    )
    assert "aliases make more than 100,000 values" in complaint(bomb)
    assert "nested deeper than 100 levels" in complaint("a: " + "[" * 101 + "]" * 101)
    assert "nested deeper than 100 levels" in complaint("[" * 1_100)
    assert "at most 16,777,216" in complaint(b"a" * (16 << 20) + b"b")


def test_a_place_for_each_value() -> None:
    document = read_yaml(b"a:\n  - b: 1\n    c: two\n", "f.yaml")
    assert document.mark(("a", 0, "c")) == Mark(3, 5)
    assert document.mark(("a", 0, "c", "deeper", 3)) == Mark(3, 5)
    assert document.texts == {("a", 0, "b"): "1"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcXYZ_- é", min_size=1), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(_JSON.filter(lambda each: each is not None))
def test_json_is_yaml(wanted: Any) -> None:
    """Every JSON document means the same as YAML, since a program may write workflow files as JSON."""
    assert value(json.dumps(wanted, ensure_ascii=False)) == wanted


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        said = read_yaml(text.encode(errors="replace"), "f.yaml").file
    except BadFile as error:
        said = str(error)
    assert said.startswith("f.yaml")
