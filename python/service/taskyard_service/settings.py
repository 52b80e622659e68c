"""Settings of a process: one frozen class each, made from environment variables, checked at once.

Nothing here reads the environment by itself: `load` is given it, in a process' main.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "TASKYARD_"
VALUE_LIMIT = 200

UNITS = {
    "_s": "seconds",
    "_ms": "milliseconds",
    "_hours": "hours",
    "_days": "days",
    "_bytes": "bytes",
    "_mib": "MiB",
    "_percent": "percent",
    "_port": "port",
}
"""The unit that the end of a setting's name says."""


class SettingsError(ValueError):
    """Some settings are wrong; the text has a sentence for each."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = list(sentences)
        super().__init__("\n".join(self.sentences))


class Settings(BaseSettings):
    """Base of every settings class. Each field has a description, and each number a unit.

    The unit is the end of the name (`_s`, `_ms`, `_hours`, `_days`, `_bytes`, `_mib`, `_percent`, `_port`),
    or `json_schema_extra={"unit": "tasks"}`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuses a class whose settings a user could not understand.

        Raises:
            TypeError: A field has no description, or a number no unit.
        """
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not field.description:
                raise TypeError(f"{cls.__name__}.{name} has no description; a user needs one")
            if _is_number(field.annotation) and not unit_of(name, field):
                raise TypeError(f"{cls.__name__}.{name} is a number without a unit; name it or give one")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves out every implicit source: a constructor that reads the environment cannot be tested."""
        return (init_settings,)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Self:
        """Returns the settings that `environ` gives; an empty variable counts as not set.

        Raises:
            SettingsError: A value breaks its rule, or one is missing that has no default.
        """
        values: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            text = environ.get(variable_of(cls, name), "")
            if text != "":
                values[name] = _items(text) if _is_list(field.annotation) else text
        try:
            return cls(**values)
        except ValidationError as error:
            # Without its inputs: they may be secrets, and a chained exception is printed with them.
            raise SettingsError(_sentence(cls, detail) for detail in error.errors()) from None


def unknown_variables(environ: Mapping[str, str], classes: Iterable[type[BaseModel]]) -> list[str]:
    """Returns a sentence for each variable with our prefix that no class knows: so a typing error shows."""
    known = {variable_of(cls, name) for cls in classes for name in cls.model_fields}
    sentences = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            # Compared without the prefix, which would make everything look alike.
            near = difflib.get_close_matches(name[len(PREFIX) :], [k[len(PREFIX) :] for k in known], n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else "; it has no effect"
            sentences.append(f"{name} is no setting{hint}")
    return sentences


@dataclass(frozen=True, slots=True)
class Row:
    """What the documentation says about one setting.

    Attributes:
        variable: Its environment variable.
        kind: What it takes: `text`, `integer`, `one of: a, b`.
        default: Its default as one would write it; empty when there is none.
        required: True when it must be given.
        unit: What a number counts; empty for others.
        range: What a number may be; empty when it is not bounded.
        description: What it does.
    """

    variable: str
    kind: str
    default: str
    required: bool
    unit: str
    range: str
    description: str


def describe(cls: type[BaseModel]) -> list[Row]:
    """Returns a row for each setting of the class, in its order."""
    return [
        Row(
            variable_of(cls, name),
            _kind(field.annotation),
            _default(field),
            field.is_required(),
            unit_of(name, field),
            _range(field),
            " ".join((field.description or "").split()),
        )
        for name, field in cls.model_fields.items()
    ]


def variable_of(cls: type[BaseModel], name: str) -> str:
    """Returns the environment variable of a field."""
    return f"{cls.model_config.get('env_prefix') or PREFIX}{name}".upper()


def unit_of(name: str, field: FieldInfo) -> str:
    """Returns the unit of a number, empty for what is none."""
    if not _is_number(field.annotation):
        return ""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("unit"):
        return str(extra["unit"])
    if name == "port":
        return UNITS["_port"]
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def _sentence(cls: type[BaseModel], detail: ErrorDetails) -> str:
    location = detail["loc"]
    name = str(location[0]) if location else ""
    field = cls.model_fields.get(name)
    message = detail["msg"].removeprefix("Value error, ")
    if field is None:  # a rule over several settings: it names them itself
        return message
    variable = variable_of(cls, name)
    if detail["type"] == "missing":
        return f"{variable} is not set and has no default; set it: {field.description}"
    shown = "a secret that" if _is_secret(field) else f"{str(detail['input'])[:VALUE_LIMIT]!r}, which"
    return f"{variable} is {shown} breaks its rule: {_decapitalised(message)}. Set it to {_wanted(name, field)}"


def _wanted(name: str, field: FieldInfo) -> str:
    parts = [_kind(field.annotation), _range(field)]
    unit = unit_of(name, field)
    wanted = " ".join(part for part in parts if part) + (f" ({unit})" if unit else "")
    default = _default(field)
    return f"{wanted}, or leave it unset for {default}" if default else wanted


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return "one of: " + ", ".join(str(value) for value in arguments if value != "")
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(argument) for argument in arguments if argument is not type(None))
    if _is_list(annotation):
        return "a list, separated by commas"
    if origin is dict:
        return "a list of name=value, separated by commas"
    named = {bool: "true or false", int: "an integer", float: "a number", Path: "a path", str: "text"}
    if annotation in (SecretStr, SecretBytes):
        return "a secret"
    return named.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required() or _is_secret(field):
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{name}={item}" for name, item in value.items())
    return str(value)


def _range(field: FieldInfo) -> str:
    rules = {type(rule): rule for rule in field.metadata if isinstance(rule, Ge | Gt | Le | Lt)}
    low, high = rules.get(Ge), rules.get(Le)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f"from {low.ge} to {high.le}"
    words = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}
    bounds = [f"{word} {getattr(rules[kind], kind.__name__.lower())}" for kind, word in words.items() if kind in rules]
    return " and ".join(bounds)


def _is_number(annotation: Any) -> bool:
    arguments = typing.get_args(annotation)
    return annotation in (int, float) or int in arguments or float in arguments


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (list, tuple, set, frozenset)


def _is_secret(field: FieldInfo) -> bool:
    secrets = (SecretStr, SecretBytes)
    return field.annotation in secrets or any(a in secrets for a in typing.get_args(field.annotation))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _decapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
