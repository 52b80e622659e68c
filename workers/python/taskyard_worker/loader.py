"""Loads handlers from a file or a module, and says where a handler's function can be found again.

Used by the worker command and, in the process of an isolated handler, to load the same function.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from taskyard_worker.errors import LoadError, WorkerError
from taskyard_worker.registry import TaskRegistry, default_registry
from taskyard_worker.verdict import describe

MAIN_ALIAS = "__taskyard_main__"
"""Name under which a program's own file is loaded again, so that its `if __name__ == "__main__"` does not run."""


SHOWN = 500
"""Characters of an exception's text that are shown."""


def load_tasks(source: str, registry: TaskRegistry = default_registry) -> ModuleType:
    """Load a module for its handlers: a path ending in `.py`, or a module's dotted name.

    The file's folder, or the current one for a name, is put on the import path, as Python does for a program.

    Args:
        source: The path or the name.
        registry: Where the handlers are to be afterwards.

    Raises:
        LoadError: It does not exist, or raises an error when it is loaded, or registers no handler.
    """
    before = len(registry)
    module = _load(source)
    # One that was loaded before, perhaps by the one before it, adds nothing now.
    if len(registry) == before and not any(_belongs(handler.function, module) for handler in registry):
        raise LoadError(f"{source} registers no handler: {_how_to_register(module)}")
    return module


def _belongs(function: Callable[..., Any], module: ModuleType) -> bool:
    of = getattr(function, "__module__", None) or ""
    return of == module.__name__ or of.startswith(f"{module.__name__}.")


def _how_to_register(module: ModuleType) -> str:
    if any(isinstance(value, TaskRegistry) and len(value) for value in vars(module).values()):
        return (
            "those in a TaskRegistry of its own are for a Worker that a program runs; "
            "decorate them with `task` of taskyard_worker"
        )
    return (
        'put `@task("NAME")` above the function that runs tasks of the type NAME (`from taskyard_worker import task`)'
    )


def _load(source: str) -> ModuleType:
    if source.endswith(".py") or "/" in source:
        path = Path(source).resolve()
        if not path.is_file():
            raise LoadError(f"there is no file {source!r} with handlers; give a Python file or a module's name")
        add_to_path(str(path.parent))
        return load_file(path, path.stem)
    add_to_path(str(Path.cwd()))
    return load_module(source)


def load_module(name: str) -> ModuleType:
    """Import a module by its name. Raises LoadError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise LoadError(f"there is no module {name!r}; is its folder on the import path?") from error
        raise LoadError(f"module {name!r} cannot be loaded: {_fault(error, Path.cwd())}") from error
    except KeyboardInterrupt:
        raise  # Ctrl-C while it loads
    except BaseException as error:
        raise LoadError(f"module {name!r} cannot be loaded: {_fault(error, Path.cwd())}") from error


def load_file(path: Path, name: str) -> ModuleType:
    """Load a file as the module of that name, unless it is loaded already. Raises LoadError."""
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    if loaded is not None:
        name = f"{name}_{abs(hash(str(path))):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise  # Ctrl-C while it loads
    except BaseException as error:
        del sys.modules[name]
        raise LoadError(f"{path} cannot be loaded: {_fault(error, path.parent)}") from error
    return module


def _fault(error: BaseException, folder: Path) -> str:
    """Return an exception in one line, with file and line of the fault."""
    text = str(error) if isinstance(error, WorkerError) else describe(error)
    place = _place(error, folder)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        text, place = f"{type(error).__name__}: {error.msg}", f"{error.filename}:{error.lineno}"
    elif isinstance(error, SystemExit):
        text = f"it ends the program ({text})"
    text = " ".join(text.split())
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return f"{text}, at {place}" if place else text


def _place(error: BaseException, folder: Path) -> str:
    """Return `file:line` of what its author can mend: where it was left last in the folder, else in the file itself."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<frozen ") and frame.f_globals.get("__package__") != __package__
    ]
    own = [(file, line) for file, line in frames if _is_in(folder, file)]
    found = own[-1:] or frames[:1]
    return "".join(f"{file}:{line}" for file, line in found)


def _is_in(folder: Path, file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(folder) and "site-packages" not in path.parts


def source_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return where a function can be found by another process: its module, that module's file, its name there."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None) or ""
    return {"module": function.__module__, "file": file, "name": function.__qualname__}


def function_from(source: dict[str, str]) -> Callable[..., Any]:
    """Find the function again. Raises LoadError."""
    name, file = source["module"], source["file"]
    if name == "__main__":
        found: Any = load_file(Path(file), MAIN_ALIAS)
    elif importable(name, file):
        found = load_module(name)
    else:
        found = load_file(Path(file), name)
    for part in source["name"].split("."):
        if not hasattr(found, part):
            raise LoadError(f"{file or name} has no {source['name']!r} when it is loaded in a process of its own")
        found = getattr(found, part)
    if not callable(found):
        raise LoadError(f"{source['name']!r} in {file or name} cannot be called")
    function: Callable[..., Any] = found
    return function


def importable(name: str, file: str) -> bool:
    """Tell whether importing the name gives the file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and (not file or spec.origin == file)


def add_to_path(folder: str) -> None:
    """Put a folder first on the import path."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
