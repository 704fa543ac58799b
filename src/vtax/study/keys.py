"""The keys of a table with what they may hold, in words: for the commands that list them.

They come from the same pydantic model as refusals do, so a listing cannot promise what the check refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vtax.study.declared import (
    allowed_words,
    alternatives_of,
    bounds_of,
    conversion_of,
    show_value,
    unit_of,
)
from vtax.units import format_size, size_bytes

Mark = TypeVar("Mark")


@dataclass(frozen=True)
class Key:
    """One key of a table.

    default: None when absent is a value of its own.
    allowed: what it may hold, in words.
    unit: of a bare number, empty when it has none; from `unit` in the field's json_schema_extra, or from its name.
    choices: the only values allowed, unless empty.
    bounds: `ge`, `gt`, `le`, `lt`, in the unit.
    """

    name: str
    meaning: str
    needed: bool
    default: Any
    default_text: str
    allowed: str
    unit: str
    choices: tuple[Any, ...]
    bounds: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return what programs read of the key: plain JSON values."""
        fields = {
            name: getattr(self, name)
            for name in ("name", "meaning", "needed", "default", "allowed", "unit")
        }
        return {**fields, "choices": list(self.choices), **self.bounds}


def keys(model: type[BaseModel]) -> list[Key]:
    """Return all keys of a table, in the order they are declared."""
    return [_key(name, info) for name, info in model.model_fields.items()]


def marked(model: type[BaseModel], kind: type[Mark]) -> dict[str, Mark]:
    """Return the marks of a kind by the keys of a table that are declared with one: `Annotated[str, mark]`."""
    marks: dict[str, Mark] = {}
    for name, info in model.model_fields.items():
        for declaration in alternatives_of(info.annotation, tuple(info.metadata)):
            for mark in declaration.metadata:
                if isinstance(mark, kind):
                    marks[name] = mark
    return marks


def _key(name: str, info: FieldInfo) -> Key:
    alternatives = list(alternatives_of(info.annotation, tuple(info.metadata)))
    bounds: dict[str, float] = {}
    choices: tuple[Any, ...] = ()
    unit = unit_of(name)
    if isinstance(info.json_schema_extra, dict):
        unit = str(info.json_schema_extra.get("unit", unit))
    is_size = False
    for declaration in alternatives:
        bounds |= bounds_of(declaration.metadata)
        if get_origin(declaration.annotation) is Literal:
            choices += get_args(declaration.annotation)
        conversion = conversion_of(declaration.metadata)
        if conversion is size_bytes:
            unit = "bytes"
            is_size = True
        elif conversion is not None:
            unit = "s"
    default: Any = None
    text = "(needed)"
    if not info.is_required():
        default = info.get_default(call_default_factory=True, validated_data={})
        text = _show_default(default, is_size)
    return Key(
        name=name,
        meaning=info.description or "",
        needed=info.is_required(),
        default=default,
        default_text=text,
        allowed=allowed_words(info.annotation, tuple(info.metadata), unit),
        unit=unit,
        choices=choices,
        bounds=bounds,
    )


def _show_default(default: Any, is_size: bool) -> str:
    if default is None:
        return ""
    if is_size and isinstance(default, int):
        return format_size(default)
    return show_value(default).strip("'")
