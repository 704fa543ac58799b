"""Declarations of a key: the types it may hold with their bounds, found in a pydantic model and put in words."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def show_value(value: Any) -> str:
    """Return a value as a study would write it, cut when long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, date | time):
        return value.isoformat()
    return shorten(repr(value))


def shorten(text: str) -> str:
    """Return a text of which people need the beginning only."""
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Declaration:
    """A type with the constraints that stand beside it."""

    annotation: Any
    metadata: tuple[Any, ...]


def find_declaration(
    model: type[BaseModel], location: Sequence[str | int]
) -> tuple[tuple[str | int, ...], Declaration | None]:
    """Return (the part of a location that is in the file, what is declared there).

    A location is pydantic's; its own marks in it are left out.
    """
    place: list[str | int] = []
    declaration: Declaration | None = Declaration(model, ())
    for part in location:
        annotation: Any = _table_of(declaration.annotation) if declaration else None
        if is_model(annotation):
            info = annotation.model_fields.get(str(part))
            if info is not None:
                declaration = Declaration(info.annotation, tuple(info.metadata))
            elif str(part).startswith("function-"):
                continue
            else:
                declaration = _declaration_of_extra(annotation)
        elif get_origin(annotation) is list and isinstance(part, int):
            declaration = Declaration(get_args(annotation)[0], ())
        elif get_origin(annotation) is dict:
            declaration = Declaration(get_args(annotation)[1], ())
        else:
            break
        place.append(part)
    return tuple(place), declaration


def _table_of(annotation: Any) -> Any:
    """Return the model of a table that may be absent; another type as it is."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(filter(is_model, get_args(annotation)), annotation)
    return annotation


def _declaration_of_extra(model: type[BaseModel]) -> Declaration | None:
    """Return what keys may hold that a model does not name, when it takes such."""
    if model.model_config.get("extra") != "allow":
        return None
    extra = get_type_hints(model, include_extras=True).get("__pydantic_extra__")
    return Declaration(get_args(extra)[1] if get_origin(extra) is dict else Any, ())


def is_model(annotation: Any) -> bool:
    """Return whether a key holds a table of its own model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def alternatives_of(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[Declaration]:
    """Yield the kinds of a union, each with its own constraints and those of the whole; None is left out."""
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            if member is not type(None):
                yield from alternatives_of(member, metadata)
    elif get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        own_marks: list[Any] = []
        for mark in marks:
            own_marks += mark.metadata if isinstance(mark, FieldInfo) else [mark]
        yield from alternatives_of(inner, (*own_marks, *metadata))
    else:
        yield Declaration(annotation, metadata)


def allowed_words(annotation: Any, metadata: tuple[Any, ...], unit: str = "") -> str:
    """Return what a key may hold, as one phrase: `a whole number from 1 to 128`."""
    phrases: list[str] = []
    for declaration in alternatives_of(annotation, metadata):
        phrase = _phrase_of(declaration, unit)
        if phrase not in phrases:
            phrases.append(phrase)
    if _KINDS[float] in phrases and _KINDS[int] in phrases:
        phrases.remove(_KINDS[int])
    return _join_by_or(phrases)


def _join_by_or(phrases: Sequence[str]) -> str:
    if len(phrases) == 1:
        return phrases[0]
    return Note("key-either", first=phrases[:-1], last=phrases[-1])


def _phrase_of(declaration: Declaration, unit: str) -> str:
    annotation, origin = declaration.annotation, get_origin(declaration.annotation)
    if origin is Literal:
        return _join_by_or([show_value(value) for value in get_args(annotation)])
    if origin is list:
        return _phrase_of_list(is_model(get_args(annotation)[0]), declaration.metadata)
    if origin is dict or is_model(annotation):
        return Note("key-table")
    bounds = bounds_of(declaration.metadata)
    conversion = conversion_of(declaration.metadata)
    if conversion is not None:
        quantities = {name: show_quantity(bound, conversion) for name, bound in bounds.items()}
        if conversion is size_bytes:
            return Note("key-in-bytes", what=_bounded_phrase(Note("key-size"), quantities))
        return Note("key-in-seconds", what=_bounded_phrase(Note("key-duration"), quantities))
    numbers = {name: f"{bound:.15g}" for name, bound in bounds.items()}
    if is_share(declaration.metadata):
        return Note("key-in-percent", what=_bounded_phrase(Note("key-share"), numbers))
    for mark in declaration.metadata:
        pattern = getattr(mark, "pattern", None)
        if pattern:
            return _phrase_of_pattern(pattern, declaration.metadata)
    if numbers and unit:
        last = [name for name in _BOUNDS if name in numbers][-1]
        numbers[last] += f" {unit}"
    return _bounded_phrase(_KINDS.get(annotation, Note("key-value")), numbers)


def _phrase_of_pattern(pattern: str, metadata: Sequence[Any]) -> str:
    """Return the examples of a text that a pattern checks; the pattern where there is none."""
    examples = [repr(str(mark)) for mark in metadata if isinstance(mark, Example)]
    if examples:
        return Note("key-example", examples=_join_by_or(examples))
    return Note("key-pattern", pattern=pattern)


def _phrase_of_list(is_of_tables: bool, metadata: Sequence[Any]) -> str:
    """Return `a list`, `a list of 1 to 64 entries`, `at most 64 tables, each under [[...]]`."""
    minimum = 0
    maximum: int | None = None
    for mark in metadata:
        if isinstance(mark, annotated_types.MinLen):
            minimum = max(minimum, mark.min_length)
        elif isinstance(mark, annotated_types.MaxLen):
            maximum = mark.max_length if maximum is None else min(maximum, mark.max_length)
    if maximum is None:
        if is_of_tables:
            return Note("key-tables")
        return Note("key-list-at-least", fewest=minimum) if minimum else Note("key-list")
    kind = "key-tables" if is_of_tables else "key-list"
    if minimum:
        return Note(f"{kind}-from-to", fewest=minimum, most=maximum)
    return Note(f"{kind}-at-most", most=maximum)


def show_quantity(number: float, conversion: Any) -> str:
    """Return a number of bytes or seconds as a study would write it: `1KiB`, `10min`.

    conversion: what reads it, `size_bytes` or `duration_s`.
    """
    if conversion is size_bytes:
        return format_size(int(number))
    if 0 < number < 1:
        return f"{1000 * number:g}ms"
    for unit, seconds in _TIMES:
        if number >= seconds and number % seconds == 0:
            return f"{number / seconds:g}{unit}"
    return f"{number:g}s"


def with_units(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values of a model, sizes and durations as a study would write them: `512MiB`, `10min`.

    A duration that this form would round stays a number of seconds, so that all read as the same values.
    """

    def write(value: Any, place: tuple[str | int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: write(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [write(item, (*place, number)) for number, item in enumerate(value)]
        known_place, declaration = find_declaration(model, place)
        if declaration is None or known_place != place or not _is_number(value):
            return value
        conversion = conversion_among(alternatives_of(declaration.annotation, declaration.metadata))
        if conversion is None:
            return value
        text = show_quantity(value, conversion)
        with suppress(ValueError):  # such as 1e+06s
            return text if conversion(text) == value else value
        return value

    return {key: write(value, (key,)) for key, value in values.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bounded_phrase(kind: str, bounds: Mapping[str, str]) -> str:
    """Return a kind with its bounds: `a number from 1 to 128`, `a size of at least 1`, `a number above 0 and below 1`."""
    if not bounds:
        return kind
    phrases = [Note(f"key-{name}", bound=bounds[name]) for name in _BOUNDS if name in bounds]
    if {"ge", "le"} <= bounds.keys():
        bounds_phrase = Note("key-from-to", low=bounds["ge"], high=bounds["le"])
    elif len(phrases) == 1:
        bounds_phrase = phrases[0]
    else:
        bounds_phrase = Note("key-between", low=phrases[0], high=phrases[-1])
    return Note("key-bounded", kind=kind, bounds=bounds_phrase)


def bounds_of(metadata: Sequence[Any]) -> dict[str, float]:
    """Return the bounds of a number by name: `ge`, `gt`, `le`, `lt`, those that there are."""
    kinds = (annotated_types.Ge, annotated_types.Gt, annotated_types.Le, annotated_types.Lt)
    bounds: dict[str, float] = {}
    for mark in metadata:
        if isinstance(mark, kinds):
            bounds |= {name: getattr(mark, name) for name in _BOUNDS if hasattr(mark, name)}
    return bounds


def conversion_of(metadata: Sequence[Any]) -> Any:
    """Return `size_bytes` or `duration_s` when a value may be written with a unit; else None."""
    functions = _conversions(metadata)
    if size_bytes in functions:
        return size_bytes
    return duration_s if duration_s in functions else None


def conversion_among(alternatives: Iterable[Declaration]) -> Any:
    """Return the conversion of the first alternative of a key that has one; else None."""
    for declaration in alternatives:
        conversion = conversion_of(declaration.metadata)
        if conversion is not None:
            return conversion
    return None


def is_share(metadata: Sequence[Any]) -> bool:
    """Return whether a value is a share, which may be written as a percentage."""
    return share_of in _conversions(metadata)


def _conversions(metadata: Sequence[Any]) -> list[Any]:
    """Return the functions that read a value before it is validated."""
    return [mark.func for mark in metadata if isinstance(mark, BeforeValidator)]


def unit_of(name: str) -> str:
    """Return the unit that the name of a key ends in: `Mbit/s` of `rate_mbit_s`; empty without one."""
    for ending, unit in _UNITS.items():
        if name.endswith(ending):
            return unit
    return ""
