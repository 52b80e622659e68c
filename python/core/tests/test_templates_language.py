"""The template language: what parses into what, and where and how the rest is refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.templates import Reference, TemplateError, compile_text, compile_value, escape
from taskyard_core.templates.references import Segment


@pytest.mark.parametrize(
    ("source", "root", "path"),
    [
        ("${inputs.x}", "inputs", ("x",)),
        ("${inputs}", "inputs", ()),
        ("${ inputs.x\n}", "inputs", ("x",)),
        ('${inputs["a b"][0].名前}', "inputs", ("a b", 0, "名前")),
        ("${inputs['a}\\'\\\\\"b']}", "inputs", ("a}'\\\"b",)),
        ("${steps.a.output}", "steps", ("a", "output")),
        ("${steps.a.output.b[12].c}", "steps", ("a", "output", "b", 12, "c")),
        ('${steps["a.b-c"].output.d}', "steps", ("a.b-c", "output", "d")),
        ("${steps.1.output.2}", "steps", ("1", "output", "2")),
        ("${run.id}", "run", ("id",)),
        ("${run.attempt}", "run", ("attempt",)),
        ("${trigger.time}", "trigger", ("time",)),
        ("${secret:db/password-1.x}", "secret", ("db/password-1.x",)),
    ],
)
def test_a_reference_parses(source: str, root: str, path: tuple[Segment, ...]) -> None:
    (reference,) = compile_text(source, "input").references
    assert (reference.root, reference.path, reference.position) == (root, path, 0)
    (again,) = compile_text(f"${{{reference.text()}}}", "input").references
    assert again == reference


@given(
    st.sampled_from(["inputs", "steps"]),
    st.lists(st.text(max_size=8) | st.integers(0, 10_000_000), max_size=6),
    st.text(max_size=8),
)
def test_every_path_is_written_so_that_it_parses_back(root: str, rest: list[Segment], name: str) -> None:
    path = (name, "output", *rest) if root == "steps" else (name, *rest)
    reference = Reference(root, path, 2)
    (again,) = compile_text(f"a ${{{reference.text()}}} b", "input").references
    assert again == reference


def test_a_reference_says_what_it_reads() -> None:
    sources = ("${steps.a.output}", "${inputs.b}", "${secret:c}", "${inputs}")
    references = [compile_text(source, "input").references[0] for source in sources]
    assert [reference.step for reference in references] == ["a", None, None, None]
    assert [reference.input for reference in references] == [None, "b", None, None]
    assert [reference.secret for reference in references] == [None, None, "c", None]


@pytest.mark.parametrize(
    ("source", "position", "said"),
    [
        ("a ${inputs.x", 2, "no end"),
        ("a ${", 4, "is expected"),
        ("${}", 2, "inputs, steps, run, trigger, vars, secret"),
        ("${input.x}", 2, "Did you mean 'inputs'?"),
        ("${foo}", 2, "'foo' is unknown"),
        ("${inputs.}", 9, "after '.'"),
        ("${inputs.a-b}", 10, '["..."]'),
        ("${inputs.a b}", 11, '["..."]'),
        ("${inputs[a]}", 9, "index"),
        ("${inputs.a[-1]}", 11, "index from 0"),
        ("${inputs.a[1}", 12, "']'"),
        ("${inputs.a[99999999]}", 19, "99999999"),
        ('${inputs["a}', 9, "close it with"),
        ('${inputs["\\n"]}', 11, "backslash"),
        ("${inputs[0]}", 11, "name"),
        ("${steps}", 7, "incomplete"),
        ("${steps.a}", 9, "incomplete"),
        ("${steps[0].output}", 17, "incomplete"),
        ("${steps.a.outptu}", 16, "Did you mean 'output'?"),
        ("${run}", 5, "incomplete"),
        ("${run.ids}", 9, "Did you mean 'id'?"),
        ("${run.id.x}", 10, "no parts"),
        ("${run.worker}", 12, "write ${run.id}, ${run.attempt}, ${run.workflow}, ${run.version} or ${run.tenant}"),
        ("${vars}", 6, "${vars.name}"),
        ("${vars[0]}", 9, "${vars.name}"),
        ("${trigger.tim}", 13, "Did you mean 'time'?"),
        ("${secret}", 8, "':'"),
        ("${secret:}", 9, "secret's name"),
        ("${secret:a b}", 11, "expected"),
        ("${inputs" + ".a" * 101 + "}", 210, "100"),
    ],
)
def test_an_error_is_located_and_explained(source: str, position: int, said: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_text(source, "steps[2].input")
    error = caught.value
    assert (error.field, error.source, error.position) == ("steps[2].input", source, position)
    assert said in error.sentence
    assert error.violations[0].field == "steps[2].input"


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$${x}", "${x}"),
        ("$$${x}", "$${x}"),
        ("$ {x} $", "$ {x} $"),
        ("a$${b$${", "a${b${"),
        ("}", "}"),
    ],
)
def test_literal_text(source: str, literal: str) -> None:
    template = compile_text(source, "input")
    assert template.is_constant
    assert template.literal == literal


def test_a_reference_directly_after_an_escape_or_another() -> None:
    template = compile_text("$${${inputs.a}${inputs.b}$${", "input")
    assert template.literal == "${${"
    assert [reference.position for reference in template.references] == [3, 14]


@given(st.text(st.sampled_from("${}ab\\\"'. é\0")))
def test_an_escaped_text_is_a_constant_that_renders_as_itself(text: str) -> None:
    template = compile_text(escape(text), "input")
    assert template.is_constant
    assert template.literal == text
    if "${" not in text:
        assert escape(text) == text


WORDS = ["${", "$${", "inputs", "steps", ".output", "run.id", "secret:", '["', '"]', "\0", "é"]
FRAGMENTS = st.sampled_from([*"${}[].\"'\\ 0a-:", *WORDS])


@given(st.lists(FRAGMENTS, max_size=25).map("".join) | st.text())
def test_any_text_compiles_or_is_refused_with_its_place(source: str) -> None:
    error = error_of(source)
    if error is None:
        references = compile_text(source, "input").references
        assert all(source.startswith("${", reference.position) for reference in references)
    else:
        assert "${" in source
        assert 0 <= error.position <= len(source)
        assert error.violations[0].description.isprintable()
        assert len(error.violations[0].description) < 3_000


def error_of(source: str) -> TemplateError | None:
    try:
        compile_text(source, "input")
    except TemplateError as error:
        return error
    return None


@pytest.mark.parametrize(
    "source",
    [
        "$" * 500_000,
        "$${" * 200_000,
        "${inputs.a}" * 50_000,
        '${inputs["' + "\\\\" * 300_000 + '"]}',
        "${" + " " * 500_000 + "inputs}",
        "${inputs[" + "9" * 500_000 + "]}",
        "${" + "x" * 500_000,
        "${inputs" + ".a" * 200_000,
        "{" * 500_000 + "${",
    ],
    ids=lambda source: source[:12],
)
def test_half_a_megabyte_of_anything_is_read_in_linear_time(source: str) -> None:
    began = time.process_time()
    error_of(source)
    assert time.process_time() - began < 5


def test_keys_of_objects_are_literal() -> None:
    assert compile_value({"$${a}": 1}, "input").is_constant
    with pytest.raises(TemplateError, match="a key cannot hold a reference") as caught:
        compile_value({"x": {"y ${inputs.a}": 1}}, "input")
    assert (caught.value.field, caught.value.position) == ("input.x", 2)


def test_errors_in_values_name_the_place_in_the_value() -> None:
    with pytest.raises(TemplateError) as caught:
        compile_value({"a": [1, {"b c": "x ${"}]}, "steps[0].input")
    assert caught.value.field == "steps[0].input.a[1]['b c']"


def test_values_nested_too_deeply_are_refused() -> None:
    value: object = "x"
    for _ in range(100):
        value = [value]
    assert compile_value(value, "input").is_constant
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TemplateError, match="nested deeper than 100"):
        compile_value(value, "input")
    while isinstance(value, list):  # dismantled by hand: freeing so deep a value recurses in C
        value = value.pop()


@pytest.mark.parametrize("value", [{1: "a"}, object(), {"a": {2, 3}}, [b"x"]])
def test_what_is_no_json_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="input"):
        compile_value(value, "input")
