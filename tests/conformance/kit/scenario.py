"""Reads scenarios, strictly: what nobody knows is refused with file, line and the way out. Plays nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.kit import steps  # noqa: F401  # so that every verb is in the table
from conformance.kit.unmet import one_of
from conformance.kit.verb import KINDS, VERBS, Verb

FOLDER = Path(__file__).parents[1] / "scenarios"
FIELDS = {"about": str, "core": bool, "scheduler": str, "steps": list}
SCHEDULERS = ("scripted", "real")


class ScenarioError(Exception):
    """A scenario file is wrong; the text has its place, what is wrong and the way out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a verb with its fields."""

    line: int
    verb: Verb
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played. `about`: what the users of a worker lose if it is broken."""

    name: str
    about: str
    core: bool
    scheduler: str
    steps: tuple[Step, ...]


def read_all(folder: Path = FOLDER) -> list[Scenario]:
    """Reads every scenario of a folder, in the order of their numbers. Raises ScenarioError."""
    return [read(path) for path in sorted(folder.glob("*.yaml"))]


def read(path: Path) -> Scenario:
    """Reads one scenario; its name is the file's, without its number. Raises ScenarioError."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path.name}: it is no YAML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path.name}: it cannot be read as a text in UTF-8: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise ScenarioError(f"{path.name}:1: a scenario is a mapping with {', '.join(FIELDS)}")
    return Reader(path.name).scenario(path.stem.partition("-")[2], root)


class Reader:
    """Reads one file; knows its name, for complaints."""

    def __init__(self, file: str) -> None:
        self._file = file

    def scenario(self, name: str, root: yaml.MappingNode) -> Scenario:
        """Returns the scenario that the file's node is."""
        if not name:
            raise ScenarioError(f"{self._file}: the file's name has no number; write NN-{self._file}")
        found = dict(self._pairs(root))
        for field, node in found.items():
            if field not in FIELDS:
                raise self._error(node, f"a scenario has no field `{field}`; {one_of(field, FIELDS)}")
        for field in FIELDS.keys() - found.keys():
            raise self._error(root, f"the field `{field}` is missing; a scenario has {', '.join(FIELDS)}")
        values = {field: self._value(node) for field, node in found.items() if field != "steps"}
        for field, value in values.items():
            if not isinstance(value, FIELDS[field]):
                raise self._error(found[field], f"`{field}` is {value!r}, but must be a {FIELDS[field].__name__}")
        scheduler = values["scheduler"]
        if scheduler not in SCHEDULERS:
            raise self._error(found["scheduler"], f"`scheduler` is {scheduler!r}; {one_of(scheduler, SCHEDULERS)}")
        return Scenario(name, values["about"], values["core"], scheduler, self._steps(found["steps"], scheduler))

    def _steps(self, node: yaml.Node, scheduler: str) -> tuple[Step, ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self._error(node, "`steps` must be a list with at least one step")
        return tuple(self._step(each, scheduler) for each in node.value)

    def _step(self, node: yaml.Node, scheduler: str) -> Step:
        if not isinstance(node, yaml.MappingNode) or len(node.value) != 1:
            raise self._error(node, "a step is one verb and its fields, such as `- started: a`")
        name, value = next(iter(self._pairs(node)))
        verb = VERBS.get(name)
        if verb is None:
            raise self._error(node, f"there is no verb `{name}`; {one_of(name, VERBS)}")
        if scheduler not in verb.schedulers:
            raise self._error(
                node, f"the verb `{name}` is for scenarios with `scheduler: {verb.schedulers[0]}`, not {scheduler}"
            )
        return Step(node.start_mark.line + 1, verb, self._fields(verb, value))

    def _fields(self, verb: Verb, node: yaml.Node) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            value = self._value(node)
            if value is None:
                given: dict[str, Any] = {}
            elif verb.main:
                given = {verb.main: value}
            else:
                raise self._error(node, f"`{verb.name}` has no fields; leave {value!r} out")
        else:
            for field, each in self._pairs(node):
                if field not in verb.fields and not verb.rest:
                    raise self._error(each, f"`{verb.name}` has no field `{field}`; {one_of(field, verb.fields)}")
            given = {field: self._value(each) for field, each in self._pairs(node)}
        self._check(verb, given, node)
        return given

    def _check(self, verb: Verb, given: dict[str, Any], node: yaml.Node) -> None:
        for name, field in verb.fields.items():
            if field.required and name not in given:
                raise self._error(node, f"`{verb.name}` needs the field `{name}`")
            if name in given and not field.fits(given[name]):
                raise self._error(node, f"`{verb.name}.{name}` is {given[name]!r}, but must be {KINDS[field.kind][0]}")

    def _pairs(self, node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
        names = [str(key.value) for key, _ in node.value]
        for key, _ in node.value:
            if names.count(str(key.value)) > 1:
                raise self._error(key, f"`{key.value}` is given twice; keep one of them")
        return [(str(key.value), value) for key, value in node.value]

    def _value(self, node: yaml.Node) -> Any:
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        except yaml.MarkedYAMLError as error:
            raise self._error(node, f"the value is none that YAML knows: {error.problem}") from error
        except ValueError as error:
            raise self._error(node, f"the value is none that YAML knows: {error}") from error
        finally:
            loader.dispose()

    def _error(self, node: yaml.Node, text: str) -> ScenarioError:
        return ScenarioError(f"{self._file}:{node.start_mark.line + 1}: {text}")
