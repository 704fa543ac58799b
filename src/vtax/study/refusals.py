"""Values against the model that declares them: every problem at once, each with what was given and what is allowed.

Unknown keys come first, with the nearest known one: a misspelt key is the reason of much that follows. What pydantic
would turn into something else in silence, such as true into 1, is a problem too. No sentence is pydantic's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from vtax.errors import BadInput
from vtax.study.declared import (
    Declaration,
    allowed_words,
    alternatives_of,
    bounds_of,
    conversion_of,
    is_model,
    is_share,
    shown,
    unit_of,
    walk,
    written_bound,
)
from vtax.study.limits import Place, values_of
from vtax.units import duration_s, size_bytes

M = TypeVar("M", bound=BaseModel)
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True)
class Problem:
    """A problem at one place.

    place: names of keys and numbers of entries, below the model. what: one sentence. hint: how to write it (may be
    empty). is_unknown: there is no such key. near: the known key that comes nearest to it (may be empty).
    is_of_several: several keys, each allowed by itself, do not agree. given: the value.
    """

    place: Place
    what: str
    hint: str = ""
    is_unknown: bool = False
    near: str = ""
    is_of_several: bool = False
    given: Any = None


class RefusedStudy(BadInput):
    """Values that their model does not allow. problems: all of them, unknown keys first."""

    def __init__(self, problems: Sequence[Problem], hint: str) -> None:
        own = "; ".join(dict.fromkeys(problem.hint for problem in problems if problem.hint))
        super().__init__("; ".join(problem.what for problem in problems), hint=own or hint)
        self.problems = tuple(problems)


def validated(model: type[M], values: Mapping[str, Any], word: str = "key", hint: str = "") -> M:
    """Return an instance of a model. Raises Refused with every problem.

    word: what a key of this model is called. hint: where all of them are explained.
    """
    converted = list(_converted_booleans(model, values, word))
    try:
        made = model.model_validate(dict(values))
    except ValidationError as error:
        problems = problems_of(model, error, values, word)
        raise RefusedStudy(
            _unknown_first([*problems, *_elsewhere(converted, problems)]), hint
        ) from error
    if converted:
        raise RefusedStudy(converted, hint)
    return made


def problems_of(
    model: type[BaseModel], error: ValidationError, values: Mapping[str, Any], word: str = "key"
) -> list[Problem]:
    """Return all that pydantic found, one problem a place, unknown keys first.

    values: as they were written. What pydantic reports was converted: of `8MiB` it has a number of bytes.
    """
    written = dict(values_of(values))
    found: dict[tuple[Place, str], Problem] = {}
    for each in error.errors(include_url=False):
        place, declaration = walk(model, each["loc"])
        if each["type"] == "disagreement":
            place = (*place, *each["ctx"]["key"])
            problem = Problem(place, each["ctx"]["text"], is_of_several=True)
            found.setdefault((place, problem.what), problem)
        else:
            problem = _problem(model, each, place, declaration, word)
            if problem.hint and not _is_as_written(each["input"], written.get(place)):
                problem = replace(problem, hint="")
            found.setdefault((place, ""), problem)
    return _unknown_first(list(found.values()))


def _is_as_written(value: Any, written: Any) -> bool:
    """Return whether a value is the one of the file. One that was converted has a unit, and needs no hint of it."""
    return not (isinstance(written, str) and isinstance(value, int | float))


def nearest(name: str, known: Sequence[str], count: int = 2) -> list[str]:
    """Return the known names that come nearest to one, whatever their capitals and dashes."""
    return get_close_matches(name.lower().replace("-", "_"), known, count)


def _unknown_first(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: not problem.is_unknown)


def _elsewhere(more: Sequence[Problem], problems: Sequence[Problem]) -> list[Problem]:
    places = {problem.place for problem in problems}
    return [problem for problem in more if problem.place not in places]


def _converted_booleans(
    model: type[BaseModel], values: Mapping[str, Any], word: str
) -> Iterator[Problem]:
    """Refuse true and false where a number must stand: Python takes them for 1 and 0."""
    for place, value in values_of(values):
        if isinstance(value, bool):
            there, declaration = walk(model, place)
            kinds = {each.annotation for each in _alternatives(declaration)}
            if declaration and there == place and kinds & {int, float} and bool not in kinds:
                yield Problem(place, _refusal(value, place, declaration, word))


def _problem(
    model: type[BaseModel], each: Any, place: Place, declaration: Declaration | None, word: str
) -> Problem:
    name = str(place[-1]) if place else "it"
    if each["type"] == "extra_forbidden":
        return _unknown(model, place, each["input"], word)
    if each["type"] == "missing":
        called = f"{word} {name!r}"
        return Problem(place, f"{called} is missing")
    if each["type"] in ("value_error", "assertion_error"):
        text = str(each["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        given = each["input"]
        is_plain = isinstance(given, bool | int | float | str)
        if is_plain and repr(given) not in text:
            text = f"{_called(place, word)} cannot be {shown(given)}: {text}"
        elif is_plain and place and word == "option":  # of others `where` has the name
            text = f"{_called(place, word)}: {text}"
        return Problem(place, text)
    return Problem(
        place,
        _refusal(each["input"], place, declaration, word),
        _hint(each["input"], name, declaration),
        given=each["input"],
    )


def _unknown(model: type[BaseModel], place: Place, given: Any, word: str) -> Problem:
    """`unknown key 'blcks'; did you mean blocks?`, `unknown table [[benchmarks]]; did you mean [[benchmark]]?`"""
    name = str(place[-1])
    table = walk(model, place[:-1])[1] if len(place) > 1 else Declaration(model, ())
    fields = table.annotation.model_fields if table and is_model(table.annotation) else {}
    near = nearest(name, list(fields))
    called = f"{word} {name!r}"
    bracketed = list(near)
    if len(place) == 1 and word == "key":
        if _brackets(name, given) != name:
            called = f"table {_brackets(name, given)}"
        bracketed = [_declared_as(each, fields[each].annotation) for each in near]
    suggestion = (
        f"did you mean {' or '.join(bracketed)}?" if near else f"known: {', '.join(fields)}"
    )
    what = f"unknown {called}; {suggestion if fields else 'there is none'}"
    return Problem(place, what, is_unknown=True, near=near[0] if near else "")


def _brackets(name: str, given: Any) -> str:
    """Return a key as TOML shows it where its value is a table, or several."""
    if isinstance(given, Mapping):
        return f"[{name}]"
    is_tables = (
        isinstance(given, list) and bool(given) and all(isinstance(each, Mapping) for each in given)
    )
    return f"[[{name}]]" if is_tables else name


def _declared_as(name: str, annotation: Any) -> str:
    if is_model(annotation):
        return f"[{name}]"
    is_tables = get_origin(annotation) is list and is_model(get_args(annotation)[0])
    return f"[[{name}]]" if is_tables else name


def _called(place: Place, word: str) -> str:
    name = place[-1] if place else "it"
    if isinstance(name, int):
        return f"entry {name + 1} of {place[-2]}" if len(place) > 1 else "an entry"
    return f"{word} {name}" if word != "key" and place else name


def _alternatives(declaration: Declaration | None) -> list[Declaration]:
    """Return the kinds that a key may hold; none of one that is not declared."""
    if declaration is None:
        return []
    return list(alternatives_of(declaration.annotation, declaration.metadata))


def _refusal(value: Any, place: Place, declaration: Declaration | None, word: str) -> str:
    allowed = "of another kind"
    if declaration:
        allowed = allowed_words(declaration.annotation, declaration.metadata)
    return f"{_called(place, word)} is {_given(value, declaration)}; it must be {allowed}"


def _given(value: Any, declaration: Declaration | None) -> str:
    """Return a value as it was given, sizes and durations with their units."""
    conversions = [conversion_of(each.metadata) for each in _alternatives(declaration)]
    conversion = next(filter(None, conversions), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or conversion is None:
        return shown(value)
    if conversion is size_bytes and isinstance(value, float):
        return shown(value)
    return written_bound(value, conversion)


def _hint(value: Any, name: str, declaration: Declaration | None) -> str:
    """Return how to write what seems to be meant; empty when that is not plain."""
    alternatives = _alternatives(declaration)
    kinds = {get_origin(each.annotation) or each.annotation for each in alternatives}
    choices: list[str] = []
    for each in alternatives:
        if get_origin(each.annotation) is Literal:
            choices += map(str, get_args(each.annotation))
    if isinstance(value, str) and (near := nearest(value, choices, 1)):
        return f"did you mean {near[0]!r}?"
    if isinstance(value, str) and kinds & {int, float}:
        return _hint_of_number(value, name)
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (size := _hint_of_size(value, name, alternatives))
    ):
        return size
    if any(is_share(each.metadata) for each in alternatives):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_percent = is_number and 1 <= value < 100
        return f"for {value:g} % write '{value:g}%' or {value / 100:g}" if is_percent else ""
    if list in kinds and isinstance(value, str | int | float) and not isinstance(value, bool):
        parts = [part.strip("[]\"' ") for part in str(value).split(",")]
        entries = ", ".join(_toml(part) for part in parts if part)
        of_items = set()
        for each in alternatives:
            if get_origin(each.annotation) is list:
                (item,) = get_args(each.annotation)
                of_items |= {one.annotation for one in alternatives_of(item, ())}
        if '"' in entries and of_items <= {int, float}:
            entries = "1, 2"
        return f"write a list: {name} = [{entries}]"
    if isinstance(value, list) and (
        table := next((k for k in kinds if is_model(k) and "guest" in k.model_fields), None)
    ):
        return f"write a table: {name} = {{ guest = [...] }}" if table else ""
    if list in kinds and isinstance(value, Mapping):
        return f"write [[{name}]], in two brackets: there may be several"
    return ""


def _hint_of_size(value: int, name: str, alternatives: Sequence[Declaration]) -> str:
    """Return how to write MiB, where a number of bytes is too small and as many MiB would not be."""
    sizes = [
        bounds_of(each.metadata).get("ge", 0)
        for each in alternatives
        if conversion_of(each.metadata) is size_bytes
    ]
    is_meant = any(value < least <= value * 1024**2 for least in sizes)
    return f'a number alone counts bytes; for MiB write {name} = "{value}MiB"' if is_meant else ""


def _hint_of_number(text: str, name: str) -> str:
    """`5%` for a number of percent, `7s` for a number of seconds."""
    unit = unit_of(name)
    if percent := _PERCENT.fullmatch(text):
        return f"write {float(percent[1]):g}" if unit == "%" else ""
    with suppress(ValueError):
        if unit == "s":
            return f"write {duration_s(text):g}: it counts seconds"
    return f"a number alone, without quotes and unit: it counts {unit}" if unit else ""


def _toml(text: str) -> str:
    """Return text as an entry of a list; a number without quotes."""
    with suppress(ValueError):
        return f"{float(text):.15g}"
    return f'"{text}"'
