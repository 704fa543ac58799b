"""Declarations of a key: the types it may hold with their bounds, found in a pydantic model and put in words."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from vtax.messages import Note
from vtax.units import duration_s, format_size, share_of, size_bytes

_UNITS = {
    "_mbit_s": "Mbit/s",
    "_percent": "%",
    "_per_second": "1/s",
    "_ms": "ms",
    "_us": "us",
    "_s": "s",
}
_KINDS = {
    bool: Note("key-bool"),
    int: Note("key-int"),
    float: Note("key-float"),
    str: Note("key-text"),
}
_TIMES = (("d", 86400), ("h", 3600), ("min", 60))
_BOUNDS = ("ge", "gt", "le", "lt")


class Example(str):
    """Marks text that a pattern checks, to tell people its form: `Annotated[str, Example("db1")]`."""

    __slots__ = ()


def shown(value: Any) -> str:
    """Return a value as a study would write it, cut when long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, date | time):
        return value.isoformat()
    return cut(repr(value))


def cut(text: str) -> str:
    """Return a text of which people need the beginning only."""
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Declaration:
    """A type with the constraints that stand beside it."""

    annotation: Any
    metadata: tuple[Any, ...]


def walk(
    model: type[BaseModel], location: Sequence[str | int]
) -> tuple[tuple[str | int, ...], Declaration | None]:
    """Return (the part of a location that is in the file, what is declared there); pydantic's own marks are left
    out."""
    place: list[str | int] = []
    declaration: Declaration | None = Declaration(model, ())
    for part in location:
        annotation: Any = declaration.annotation if declaration else None
        if get_origin(annotation) in (Union, types.UnionType):  # a table that may be absent
            annotation = next(filter(is_model, get_args(annotation)), annotation)
        if is_model(annotation):
            info = annotation.model_fields.get(str(part))
            if info is None and str(part).startswith("function-"):
                continue
            declaration = (
                Declaration(info.annotation, tuple(info.metadata)) if info else _further(annotation)
            )
        elif get_origin(annotation) is list and isinstance(part, int):
            declaration = Declaration(get_args(annotation)[0], ())
        elif get_origin(annotation) is dict:
            declaration = Declaration(get_args(annotation)[1], ())
        else:
            break
        place.append(part)
    return tuple(place), declaration


def _further(model: type[BaseModel]) -> Declaration | None:
    """Return what keys may hold that a model does not name, when it takes such."""
    if model.model_config.get("extra") != "allow":
        return None
    declared = get_type_hints(model, include_extras=True).get("__pydantic_extra__")
    return Declaration(get_args(declared)[1] if get_origin(declared) is dict else Any, ())


def is_model(annotation: Any) -> bool:
    """Return whether a key holds a table of its own model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def alternatives_of(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[Declaration]:
    """Yield the kinds of a union, each with its own constraints and those of the whole; None is left out."""
    if get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            if each is not type(None):
                yield from alternatives_of(each, metadata)
    elif get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        beside: list[Any] = []
        for each in more:
            beside += each.metadata if isinstance(each, FieldInfo) else [each]
        yield from alternatives_of(inner, (*beside, *metadata))
    else:
        yield Declaration(annotation, metadata)


def allowed_words(annotation: Any, metadata: tuple[Any, ...], unit: str = "") -> str:
    """Return what a key may hold, as one phrase: `a whole number from 1 to 128`."""
    words = dict.fromkeys(
        _words(declaration, unit) for declaration in alternatives_of(annotation, metadata)
    )
    if _KINDS[float] in words:
        words.pop(_KINDS[int], None)
    return _either(list(words))


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else Note("key-either", first=words[:-1], last=words[-1])


def _words(declaration: Declaration, unit: str) -> str:
    annotation, origin = declaration.annotation, get_origin(declaration.annotation)
    if origin is Literal:
        return _either([shown(value) for value in get_args(annotation)])
    if origin is list:
        return _list(is_model(get_args(annotation)[0]), declaration.metadata)
    if origin is dict or is_model(annotation):
        return Note("key-table")
    bounds = bounds_of(declaration.metadata)
    if conversion := conversion_of(declaration.metadata):
        written = {name: written_bound(bound, conversion) for name, bound in bounds.items()}
        if conversion is size_bytes:
            return Note("key-in-bytes", what=_within(Note("key-size"), written))
        return Note("key-in-seconds", what=_within(Note("key-duration"), written))
    if is_share(declaration.metadata):
        numbers = {name: f"{bound:.15g}" for name, bound in bounds.items()}
        return Note("key-in-percent", what=_within(Note("key-share"), numbers))
    patterns = [getattr(each, "pattern", None) for each in declaration.metadata]
    if pattern := next(filter(None, patterns), None):
        if examples := [str(each) for each in declaration.metadata if isinstance(each, Example)]:
            return Note("key-example", examples=_either([repr(example) for example in examples]))
        return Note("key-pattern", pattern=pattern)
    beside = f" {unit}" if unit else ""
    numbers = {name: f"{bound:.15g}" for name, bound in bounds.items()}
    if numbers:
        last = next(name for name in reversed(_BOUNDS) if name in numbers)
        numbers[last] += beside
    return _within(_KINDS.get(annotation, Note("key-value")), numbers)


def _list(of_tables: bool, metadata: Sequence[Any]) -> str:
    """Return `a list`, `a list of 1 to 64 entries`, `at most 64 tables, each under [[...]]`."""
    fewest = max(
        (each.min_length for each in metadata if isinstance(each, annotated_types.MinLen)),
        default=0,
    )
    maximum = min(
        (each.max_length for each in metadata if isinstance(each, annotated_types.MaxLen)),
        default=None,
    )
    if maximum is None:
        if of_tables:
            return Note("key-tables")
        return Note("key-list-at-least", fewest=fewest) if fewest else Note("key-list")
    kind = "key-tables" if of_tables else "key-list"
    if fewest:
        return Note(f"{kind}-from-to", fewest=fewest, most=maximum)
    return Note(f"{kind}-at-most", most=maximum)


def written_bound(bound: float, conversion: Any) -> str:
    """Return a number of bytes or seconds as a study would write it, `1KiB`, `10min`; conversion: see
    `conversion_of`."""
    if conversion is size_bytes:
        return format_size(int(bound))
    if 0 < bound < 1:
        return f"{1000 * bound:g}ms"
    unit, seconds = next(((u, s) for u, s in _TIMES if bound >= s and bound % s == 0), ("s", 1))
    return f"{bound / seconds:g}{unit}"


def with_units(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values of a model, sizes and durations as a study would write them: `512MiB`, `10min`.

    A duration that this form would round stays a number of seconds, so that all read as the same values.
    """

    def written(value: Any, place: tuple[str | int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: written(each, (*place, key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [written(each, (*place, number)) for number, each in enumerate(value)]
        there, declaration = walk(model, place)
        if (
            declaration is None
            or there != place
            or isinstance(value, bool)
            or not isinstance(value, int | float)
        ):
            return value
        kinds = alternatives_of(declaration.annotation, declaration.metadata)
        conversion = next(filter(None, (conversion_of(each.metadata) for each in kinds)), None)
        if conversion is None:
            return value
        text = written_bound(value, conversion)
        with suppress(ValueError):  # such as 1e+06s
            return text if conversion(text) == value else value
        return value

    return {key: written(each, (key,)) for key, each in values.items()}


def _within(kind: str, bounds: Mapping[str, str]) -> str:
    """Return a kind with its bounds: `a number from 1 to 128`, `a size of at least 1`, `a number above 0 and below 1`."""
    if not bounds:
        return kind
    phrases = [Note(f"key-{name}", bound=bounds[name]) for name in _BOUNDS if name in bounds]
    if {"ge", "le"} <= bounds.keys():
        within = Note("key-from-to", low=bounds["ge"], high=bounds["le"])
    elif len(phrases) == 1:
        within = phrases[0]
    else:
        within = Note("key-between", low=phrases[0], high=phrases[-1])
    return Note("key-bounded", kind=kind, bounds=within)


def bounds_of(metadata: Sequence[Any]) -> dict[str, float]:
    """Return the bounds of a number by name: `ge`, `gt`, `le`, `lt`, those that there are."""
    kinds = (annotated_types.Ge, annotated_types.Gt, annotated_types.Le, annotated_types.Lt)
    bounds: dict[str, float] = {}
    for each in metadata:
        if isinstance(each, kinds):
            bounds |= {name: getattr(each, name) for name in _BOUNDS if hasattr(each, name)}
    return bounds


def conversion_of(metadata: Sequence[Any]) -> Any:
    """`size_bytes` or `duration_s` when a value may be written with a unit."""
    functions = [each.func for each in metadata if isinstance(each, BeforeValidator)]
    return next((f for f in (size_bytes, duration_s) if f in functions), None)


def is_share(metadata: Sequence[Any]) -> bool:
    """Return whether a value is a share, which may be written as a percentage."""
    return any(isinstance(each, BeforeValidator) and each.func is share_of for each in metadata)


def unit_of(name: str) -> str:
    """Return the unit that the name of a key ends in, as people write it: `Mbit/s` of `rate_mbit_s`; empty without
    one."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
