"""What the keys of a table may hold, in words: for the commands that list them, and for the refusal of a wrong one.

Both come from the same pydantic model, so a listing cannot promise what the check refuses. No sentence is pydantic's.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import annotated_types
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from vtax.study.units import duration_s, format_size, size_bytes

Mark = TypeVar("Mark")

_UNITS = {"_mbit_s": "Mbit/s", "_percent": "%", "_per_second": "1/s", "_ms": "ms", "_us": "us", "_s": "s"}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_TIMES = (("d", 86400), ("h", 3600), ("min", 60))
_BOUNDS = ("ge", "gt", "le", "lt")


@dataclass(frozen=True)
class Key:
    """One key of a table.

    default: None when absent is a value of its own. allowed: what it may hold, in words. unit: of a bare number,
    empty when it has none; from `unit` in the field's json_schema_extra, or from its name. choices: the only values
    allowed, unless empty. bounds: `ge`, `gt`, `le`, `lt`, in the unit.
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
        """The same as plain JSON values."""
        plain = {name: getattr(self, name) for name in ("name", "meaning", "needed", "default", "allowed", "unit")}
        return {**plain, "choices": list(self.choices), **self.bounds}


def keys(model: type[BaseModel]) -> list[Key]:
    """All keys of a table, in the order they are declared."""
    return [_key(name, info) for name, info in model.model_fields.items()]


def marked(model: type[BaseModel], kind: type[Mark]) -> dict[str, Mark]:
    """The keys of a table that are declared with a mark of a kind (`Annotated[str, mark]`), with their marks."""
    return {
        name: mark
        for name, info in model.model_fields.items()
        for leaf in _leaves(info.annotation, tuple(info.metadata))
        for mark in leaf.metadata
        if isinstance(mark, kind)
    }


def refusal(model: type[BaseModel], error: ValidationError, word: str = "key") -> tuple[tuple[str | int, ...], str]:
    """(where below the model, a sentence) of the first problem: what was given and what is allowed.

    The place is in names of keys and numbers of entries; several problems are counted, one is told. word: what a key
    of this model is called.
    """
    problems = error.errors(include_url=False)
    first = problems[0]
    place, info = _walk(model, first["loc"])
    if first["type"] == "disagreement":
        return (*place, *first["ctx"]["key"]), first["ctx"]["text"] + _more(len(problems) - 1)
    same = [problem for problem in problems if _walk(model, problem["loc"])[0] == place]
    return place, _sentence(model, first, place, info, word) + _more(len(problems) - len(same))


def _more(count: int) -> str:
    return f" (and {count} problem{'s' if count > 1 else ''} more)" if count else ""


def _sentence(
    model: type[BaseModel], problem: Any, place: tuple[str | int, ...], info: _Leaf | None, word: str
) -> str:
    name = str(place[-1]) if place else "it"
    called = f"{word} {name}" if word != "key" and place else name
    if problem["type"] == "extra_forbidden":
        table = _walk(model, place[:-1])[1] if len(place) > 1 else _Leaf(model, ())
        known = list(table.annotation.model_fields) if table and _is_model(table.annotation) else []
        near = get_close_matches(name, known, 2)
        told = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        return f"unknown {word} {name!r}; {told if known else 'there is none'}"
    if problem["type"] == "missing":
        return f"{word} {name!r} is missing"
    text = str(problem["msg"])
    if problem["type"] in ("value_error", "assertion_error"):
        told = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        given = problem["input"]
        is_plain = isinstance(given, bool | int | float | str) and repr(given) not in told
        return f"{called} is {shown(given)}: {told}" if is_plain else told
    if isinstance(place[-1] if place else "", int):
        called = f"entry {int(place[-1]) + 1} of {place[-2]}" if len(place) > 1 else "an entry"
    text = _given(problem["input"], info)
    allowed = _allowed(info.annotation, info.metadata) if info else "of another kind"
    return f"{called} is {text}; it must be {allowed}"


def _given(value: Any, info: _Leaf | None) -> str:
    """A value as it was given, sizes and durations with their units."""
    leaves = _leaves(info.annotation, info.metadata) if info else ()
    conversion = next(filter(None, (_conversion(leaf.metadata) for leaf in leaves)), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or conversion is None:
        return shown(value)
    return shown(value) if conversion is size_bytes and isinstance(value, float) else _written(value, conversion)


def shown(value: Any) -> str:
    """A value as a study would write it, cut when long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, Mapping):
        return "a table"
    return cut(repr(value))


def cut(text: str) -> str:
    """A text of which people need the beginning only."""
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class _Leaf:
    """A type with the constraints that stand beside it."""

    annotation: Any
    metadata: tuple[Any, ...]


def _walk(model: type[BaseModel], location: Sequence[str | int]) -> tuple[tuple[str | int, ...], _Leaf | None]:
    """(the part of a location that is in the file, what is declared there); pydantic's own marks are left out."""
    place: list[str | int] = []
    leaf: _Leaf | None = _Leaf(model, ())
    for part in location:
        annotation: Any = leaf.annotation if leaf else None
        if _is_model(annotation):
            info = annotation.model_fields.get(str(part))
            if info is None and str(part).startswith("function-"):
                continue
            leaf = _Leaf(info.annotation, tuple(info.metadata)) if info else _further(annotation)
        elif get_origin(annotation) is list and isinstance(part, int):
            leaf = _Leaf(get_args(annotation)[0], ())
        elif get_origin(annotation) is dict:
            leaf = _Leaf(get_args(annotation)[1], ())
        else:
            break
        place.append(part)
    return tuple(place), leaf


def _further(model: type[BaseModel]) -> _Leaf | None:
    """What keys may hold that a model does not name, when it takes such."""
    if model.model_config.get("extra") != "allow":
        return None
    declared = get_type_hints(model, include_extras=True).get("__pydantic_extra__")
    return _Leaf(get_args(declared)[1], ()) if get_origin(declared) is dict else _Leaf(Any, ())


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _key(name: str, info: FieldInfo) -> Key:
    leaves = list(_leaves(info.annotation, tuple(info.metadata)))
    bounds: dict[str, float] = {}
    choices: tuple[Any, ...] = ()
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    ending = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
    unit = str(extra.get("unit", ending))
    for leaf in leaves:
        bounds |= _bounds(leaf.metadata)
        if get_origin(leaf.annotation) is Literal:
            choices += get_args(leaf.annotation)
        if conversion := _conversion(leaf.metadata):
            unit = "bytes" if conversion is size_bytes else "s"
    default = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
    is_size = any(map(_is_size, leaves)) and isinstance(default, int)
    text = "" if default is None else format_size(default) if is_size else shown(default).strip("'")
    return Key(
        name=name,
        meaning=info.description or "",
        needed=info.is_required(),
        default=default,
        default_text="(needed)" if info.is_required() else text,
        allowed=_allowed(info.annotation, tuple(info.metadata), unit),
        unit=unit,
        choices=choices,
        bounds=bounds,
    )


def _leaves(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[_Leaf]:
    """The kinds of a union, each with its own constraints and those of the whole; None is left out."""
    if get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            if each is not type(None):
                yield from _leaves(each, metadata)
    elif get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        beside = [m for each in more for m in (each.metadata if isinstance(each, FieldInfo) else [each])]
        yield from _leaves(inner, (*beside, *metadata))
    else:
        yield _Leaf(annotation, metadata)


def _allowed(annotation: Any, metadata: tuple[Any, ...], unit: str = "") -> str:
    words = dict.fromkeys(_words(leaf, unit) for leaf in _leaves(annotation, metadata))
    if _KINDS[float] in words:
        words.pop(_KINDS[int], None)
    return _either(list(words))


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _words(leaf: _Leaf, unit: str) -> str:
    annotation, origin = leaf.annotation, get_origin(leaf.annotation)
    if origin is Literal:
        return _either([shown(value) for value in get_args(annotation)])
    if origin is list:
        return _list(_is_model(get_args(annotation)[0]), leaf.metadata)
    if origin is dict or _is_model(annotation):
        return "a table"
    bounds = _bounds(leaf.metadata)
    if conversion := _conversion(leaf.metadata):
        kind, own = ("a size", "bytes") if conversion is size_bytes else ("a duration", "seconds")
        written = {name: _written(bound, conversion) for name, bound in bounds.items()}
        return f"{kind}{_within(written)}, in {own} or with a unit"
    if pattern := next((p for each in leaf.metadata if (p := getattr(each, "pattern", None))), ""):
        return f"text of the form {pattern}"
    numbers = {name: f"{bound:.15g}" for name, bound in bounds.items()}
    beside = f" {unit}" if unit else ""
    return _KINDS.get(annotation, "a value") + _within(numbers) + beside * bool(numbers)


def _list(of_tables: bool, metadata: Sequence[Any]) -> str:
    """`a list`, `a list of 1 to 64 entries`, `a list of tables, each under [[...]], at most 64`."""
    fewest = max((each.min_length for each in metadata if isinstance(each, annotated_types.MinLen)), default=0)
    most = min((each.max_length for each in metadata if isinstance(each, annotated_types.MaxLen)), default=None)
    if most is None:
        count = f"at least {fewest}" if fewest else ""
    else:
        count = f"{fewest} to {most}" if fewest else f"at most {most}"
    if of_tables:
        return "a list of tables, each under [[...]]" + (f", {count}" if count else "")
    return f"a list of {count} entries" if count else "a list"


def _written(bound: float, conversion: Any) -> str:
    if conversion is size_bytes:
        return format_size(int(bound))
    unit, seconds = next(((u, s) for u, s in _TIMES if bound >= s and bound % s == 0), ("s", 1))
    return f"{bound / seconds:g}{unit}"


def _within(bounds: Mapping[str, str]) -> str:
    """` from 1 to 128`, ` of at least 1`, ` above 0 and below 1`."""
    if {"ge", "le"} <= bounds.keys():
        return f" from {bounds['ge']} to {bounds['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    told = " and ".join(f"{words[name]} {bounds[name]}" for name in _BOUNDS if name in bounds)
    return f" {told}" if told else ""


def _bounds(metadata: Sequence[Any]) -> dict[str, float]:
    kinds = (annotated_types.Ge, annotated_types.Gt, annotated_types.Le, annotated_types.Lt)
    return {
        name: getattr(each, name)
        for each in metadata
        if isinstance(each, kinds)
        for name in _BOUNDS
        if hasattr(each, name)
    }


def _is_size(leaf: _Leaf) -> bool:
    return _conversion(leaf.metadata) is size_bytes


def _conversion(metadata: Sequence[Any]) -> Any:
    """`size_bytes` or `duration_s` when a value may be written with a unit."""
    functions = [each.func for each in metadata if isinstance(each, BeforeValidator)]
    return next((f for f in (size_bytes, duration_s) if f in functions), None)
