"""Writes docs/configuration.md from the settings classes of the services.

Not where settings are decided: each service's `settings.py` is. `--check` fails when the page is not what they say.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys

from pydantic import BaseModel
from written import ROOT, settle

from taskyard_service.settings import Row, describe

TARGET = ROOT / "docs" / "configuration.md"
PACKAGES = ("taskyard_scheduler", "taskyard_api", "taskyard_ai", "taskyard_worker", "taskyard_client", "taskyard_cli")
INTRODUCTION = """\
# Configuration

Every setting is an environment variable. One that is not set, or empty, has its default. A value that breaks its
rule stops the process at its start with a sentence that names the variable, the value, the rule and the way out.

`TASKYARD_ADDRESS`, `TASKYARD_TOKEN`, `TASKYARD_CA` and `TASKYARD_DATA` mean the same to every command, see
[how a command finds the scheduler](cli.md#how-it-finds-the-scheduler).

This page is generated from the settings classes by `tools/make_configuration.py`; do not edit it.
"""


def settings_classes() -> list[type[BaseModel]]:
    """Returns the settings classes of all packages that are installed, in the order of PACKAGES."""
    found: list[type[BaseModel]] = []
    for package in PACKAGES:
        name = f"{package}.settings"
        if importlib.util.find_spec(package) is None or importlib.util.find_spec(name) is None:
            continue
        module = importlib.import_module(name)
        found += [value for value in vars(module).values() if is_settings(value, module.__name__)]
    return found


def is_settings(value: object, module: str) -> bool:
    """Tells whether a module's value is a settings class that the module itself defines."""
    return (
        inspect.isclass(value)
        and issubclass(value, BaseModel)
        and value.__module__ == module
        and value.__name__.endswith("Settings")
    )


def page(classes: list[type[BaseModel]]) -> str:
    """Returns the whole page."""
    return "\n".join([INTRODUCTION, *(section(cls) for cls in classes)])


def section(cls: type[BaseModel]) -> str:
    """Returns a heading, what the class says of itself, and a table of its settings."""
    lines = [
        f"## {cls.__name__.removesuffix('Settings')}",
        "",
        inspect.cleandoc(cls.__doc__ or ""),
        "",
        "| Variable | Value | Default | Meaning |",
        "| --- | --- | --- | --- |",
        *(line(row) for row in describe(cls)),
        "",
    ]
    return "\n".join(lines)


def line(row: Row) -> str:
    """Returns one row of a table."""
    value = " ".join(part for part in (row.kind, row.range) if part)
    if row.unit and row.unit not in ("port",):
        value += f", {row.unit}"
    default = "required" if row.required else f"`{row.default}`" if row.default else ""
    cells = (f"`{row.variable}`", value, default, row.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    """Writes the page, or with --check only compares; returns the exit code."""
    classes = settings_classes()
    if not classes:
        print("no settings class found: run `make setup` first", file=sys.stderr)
        return 1
    return settle({TARGET: page(classes)}, "make_configuration.py")


if __name__ == "__main__":
    sys.exit(main())
