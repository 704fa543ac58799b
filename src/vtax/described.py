"""Describes what programs read of a dataclass: its fields and properties that have a meaning.

JSON, the columns of tables and docs/data.md are made from these descriptions, which stand where a value is defined:

    duration_s: Annotated[float | None, Means("active time; null until it has ended", unit="s")]

An attribute may have several meanings, each of which takes a part of it. Where that is not there, the key is null.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

Kind = Literal["text", "JSON", "number", "integer", "flag", "time", "list", "object"]
_KINDS: Mapping[Any, Kind] = {
    bool: "flag",
    int: "integer",
    float: "number",
    str: "text",
    Literal: "text",
}


@dataclass(frozen=True)
class Means:
    """The meaning of a value, and when it is empty.

    unit: of a number; empty for counts and shares of 1, `unit` where it is the metric's.
    name: in exports, where it is not that of the attribute.
    take: the attribute of the value that is written for it.
    is_time: Unix time, which is written as a text.
    """

    meaning: str
    unit: str = ""
    name: str = ""
    take: str = ""
    is_time: bool = False


BESIDE = Means("")
"""The parts of this value stand beside the others, not under its name."""


class Only(tuple[str, ...]):
    """The named parts of a value, which stand beside the others as those of BESIDE do.

    The value may be a table of a study, whose keys have descriptions.

    meaning: of all of them, where it is not their own.
    """

    meaning: str

    def __new__(cls, *names: str, meaning: str = "") -> Only:
        """Take the names of attributes, in the order that they are to have."""
        only = super().__new__(cls, names)
        only.meaning = meaning
        return only


Warnings = Annotated[tuple[str, ...], Means("sentences of what to beware of")]


@dataclass(frozen=True)
class Field:
    """A column, or a key.

    path: the attribute that it is.
    of: the described dataclass that it is, or has several of.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    path: str = ""
    of: type | None = None


@cache
def fields_of(described: type) -> tuple[Field, ...]:
    """Return what programs read of a dataclass, in its order, properties last; empty where nothing has a meaning."""
    return tuple(_fields(described))


def values_of(value: Any) -> dict[str, Any]:
    """Return what programs read of a dataclass by name; every field of one that describes none."""
    described = fields_of(type(value))  # type: ignore[arg-type]
    if not described:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    values = {}
    for field in described:
        attribute = _at(value, field.path)
        values[field.name] = moment(attribute) if field.kind == "time" else attribute
    return values


def json_default(value: Any) -> Any:
    """Return what `json.dumps` writes of a value that JSON has no form for.

    Of a dataclass it is what programs read, of all else the text.
    """
    return values_of(value) if is_dataclass(value) else str(value)


def tables_of(described: type, path: str = "") -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Yield (path in JSON, its keys) of a dataclass and of all that it holds."""
    keys = fields_of(described)
    yield path, keys
    for key in keys:
        if key.of is not None:
            name = f"{path}.{key.name}" if path else key.name
            yield from tables_of(key.of, f"{name}[]" if key.kind == "list" else name)


def moment(seconds: float | None) -> str | None:
    """Return a Unix time as ISO 8601 in UTC with milliseconds; None for what is no time."""
    if seconds is None:
        return None
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(described: type) -> Iterator[Field]:
    for attribute, hint in _hints(described):
        if get_origin(hint) is not Annotated:
            continue
        held = _stripped(hint)
        for meaning in get_args(hint)[1:]:
            if isinstance(meaning, Only):
                parts = {field.path: field for field in _fields(held)}
                for name in meaning:
                    yield _beside(parts[name], attribute, meaning.meaning)
            elif meaning is BESIDE:
                for field in fields_of(held):
                    yield _beside(field, attribute)
            elif isinstance(meaning, Means):
                yield _field(attribute, meaning, held)


def _beside(field: Field, attribute: str, meaning: str = "") -> Field:
    return replace(field, path=f"{attribute}.{field.path}", meaning=meaning or field.meaning)


def _field(attribute: str, means: Means, held: Any) -> Field:
    path = f"{attribute}.{means.take}" if means.take else attribute
    for name in filter(None, means.take.split(".")):
        held = _stripped(dict(_hints(held))[name])
    kind = "time" if means.is_time else _kind(held)
    return Field(means.name or attribute, kind, means.unit, means.meaning, path, _held(held))


def _at(value: Any, path: str) -> Any:
    """Return an attribute of an attribute; None where one on the way is."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


@cache
def _hints(described: type) -> tuple[tuple[str, Any], ...]:
    """Return (attribute, its type) of the fields and properties of a dataclass, or of the keys of a study's table."""
    hints: list[tuple[str, Any]] = []
    keys = getattr(described, "model_fields", None)
    if keys:
        for name, key in keys.items():
            hints.append((name, Annotated[key.annotation, Means(key.description or name)]))
        return tuple(hints)
    types_by_name = get_type_hints(described, include_extras=True)
    for field in fields(described):
        hints.append((field.name, types_by_name[field.name]))
    for base in reversed(described.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, property):
                hints.append((name, get_type_hints(member.fget, include_extras=True)["return"]))
    return tuple(hints)


def _stripped(hint: Any) -> Any:
    """Return a type without annotations and without None."""
    if get_origin(hint) is Annotated:
        return _stripped(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        alternatives = [part for part in get_args(hint) if part is not types.NoneType]
        if len(alternatives) == 1:
            return _stripped(alternatives[0])
        return str if str in alternatives else hint
    return hint


def _kind(held: Any) -> Kind:
    origin = get_origin(held) or held
    if origin in _KINDS:
        return _KINDS[origin]
    is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
    return "object" if is_mapping or is_dataclass(origin) else "list"


def _held(held: Any) -> type | None:
    """Return the described dataclass that a value is, or that it has several of."""
    item = _stripped(get_args(held)[0]) if get_origin(held) is tuple else held
    if isinstance(item, type) and is_dataclass(item) and fields_of(item):
        return item
    return None
