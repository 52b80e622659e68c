"""Files and modules with handlers: found, loaded, and where they cannot be, with what is to be mended and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskyard_worker.errors import LoadError
from taskyard_worker.loader import function_from, load_tasks, source_of
from taskyard_worker.registry import default_registry

HEAD = "from taskyard_worker import task\n"
HANDLER = f"{HEAD}@task('work')\ndef work(): return 'done'\n"


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path, modules, here = list(sys.path), set(sys.modules), Path.cwd()
    monkeypatch.setattr(default_registry, "_handlers", {})
    yield
    sys.path[:] = path
    os.chdir(here)
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_a_file_is_loaded_with_its_neighbours_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    text = f"{HEAD}import neighbour\n@task('work')\ndef work():\n    return neighbour.VALUE\n"
    (tmp_path / "my_tasks.py").write_text(text)
    source = source_of(load_tasks(str(tmp_path / "my_tasks.py")).work)
    del sys.modules["my_tasks"]
    default_registry._handlers.clear()  # as in the process of an isolated handler
    assert function_from(source)() == 7


def test_a_module_is_loaded_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "tasks.py").write_text(
        f"{HEAD}class Group:\n    @staticmethod\n    @task('work')\n    def work(): return 'found'\n"
    )
    os.chdir(tmp_path)
    module = load_tasks("package.tasks")
    assert function_from(source_of(module.Group.work))() == "found"


def test_a_file_named_like_a_known_module_does_not_replace_it(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(HANDLER)
    module = load_tasks(str(tmp_path / "json.py"))
    assert module.work() == "done"
    assert sys.modules["json"].__file__ != str(tmp_path / "json.py")
    assert function_from(source_of(module.work))() == "done"


def refused(source: str) -> str:
    with pytest.raises(LoadError) as caught:
        load_tasks(source)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("def (", 1, "SyntaxError: invalid syntax"),
        ("x = 1\n  y = 2\n", 2, "IndentationError: unexpected indent"),
        ("\n\n1/0\n", 3, "ZeroDivisionError: division by zero"),
        ("import no_such_module_here\n", 1, "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("from taskyard_worker import tusk\n", 1, "ImportError: cannot import name 'tusk' from 'taskyard_worker'"),
        ("def f():\n    return unknown\nf()\n", 2, "NameError: name 'unknown' is not defined"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError: Expecting property name"),
        ("raise ValueError('one\\ntwo')\n", 1, "ValueError: one two"),
        ("raise ValueError\n", 1, "ValueError"),
        ("import sys\nsys.exit(3)\n", 2, "it ends the program (SystemExit: 3)"),
        ("class Odd(Exception):\n    def __str__(self): return 1 / 0\nraise Odd\n", 3, "Odd"),
        (
            f"{HEAD}@task\ndef greet(name): ...\n",
            2,
            "@task needs the name of the task type: write @task('greet') above",
        ),
        (f"{HEAD}@task(5)\ndef greet(name): ...\n", 2, "@task needs the name of the task type: write @task('NAME')"),
        (f"{HEAD}@task('a')\ndef a(x, /): ...\n", 2, "task type 'a': parameter 'x' cannot be given by name"),
        (f"{HANDLER}{HANDLER}", 5, "task type 'work' has a handler already (work); give one another name"),
    ],
)
@pytest.mark.parametrize("by", ["file", "module"])
def test_a_fault_is_one_sentence_with_file_and_line(text: str, line: int, said: str, by: str, tmp_path: Path) -> None:
    file = tmp_path / "broken_handlers.py"
    file.write_text(text)
    os.chdir(tmp_path)
    sentence = refused(str(file) if by == "file" else "broken_handlers")
    what = str(file) if by == "file" else "module 'broken_handlers'"
    assert sentence.startswith(f"{what} cannot be loaded: {said}")
    assert sentence.endswith(f", at {file}:{line}")


def test_a_fault_in_a_neighbour_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = {}['x']\n")
    (tmp_path / "tasks.py").write_text("import neighbour\n")
    assert refused(str(tmp_path / "tasks.py")).endswith(f"KeyError: 'x', at {tmp_path}/neighbour.py:1")


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise ValueError('x' * 10_000)\n")
    assert len(refused(str(tmp_path / "tasks.py"))) < 1_000


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("missing.py", "there is no file 'missing.py' with handlers; give a Python file or a module's name"),
        ("no_such_module_here", "there is no module 'no_such_module_here'; is its folder on the import path?"),
        ("os.no_such_module", "there is no module 'os.no_such_module'"),
        ("", "module '' cannot be loaded: ValueError: Empty module name"),
    ],
)
def test_what_is_not_there_is_said(source: str, said: str) -> None:
    assert refused(source).startswith(said)


HOW = 'registers no handler: put `@task("NAME")` above the function that runs tasks of the type NAME'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", HOW),
        ("def work(): ...\n", HOW),
        ("from taskyard_worker import task\ntask('work')\ndef work(): ...\n", HOW),
        ("from taskyard_worker import TaskRegistry\nmine = TaskRegistry()\n", HOW),
        ("from taskyard_worker import TaskRegistry\nmine = TaskRegistry()\n@mine.task('work')\ndef work(): ...\n",
         "registers no handler: those in a TaskRegistry of its own are for a Worker that a program runs"),
    ],
)  # fmt: skip
def test_a_file_without_a_handler_is_refused_and_told_how(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text(text)
    assert refused(str(file)).startswith(f"{file} {said}")


def test_a_file_whose_handlers_came_with_another_is_none_without(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(HANDLER)
    (tmp_path / "outer.py").write_text("import inner\n")
    load_tasks(str(tmp_path / "outer.py"))
    load_tasks(str(tmp_path / "inner.py"))
    load_tasks(str(tmp_path / "inner.py"))
    assert [handler.name for handler in default_registry] == ["work"]
