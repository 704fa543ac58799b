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
    conversion_among,
    conversion_of,
    find_declaration,
    is_model,
    is_share,
    show_quantity,
    show_value,
    unit_of,
)
from vtax.study.limits import Place, values_of
from vtax.units import duration_s, size_bytes

M = TypeVar("M", bound=BaseModel)
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True)
class Problem:
    """A problem at one place.

    place: names of keys and numbers of entries, below the model.
    what: one sentence.
    hint: how to write it (may be empty).
    is_unknown: there is no such key.
    near: the known key that comes nearest to it (may be empty).
    is_of_several: several keys, each allowed by itself, do not agree.
    given: the value.
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
        own_hints = "; ".join(dict.fromkeys(problem.hint for problem in problems if problem.hint))
        super().__init__("; ".join(problem.what for problem in problems), hint=own_hints or hint)
        self.problems = tuple(problems)


def validated(model: type[M], values: Mapping[str, Any], word: str = "key", hint: str = "") -> M:
    """Return an instance of a model. Raises RefusedStudy with every problem.

    model: what declares the keys.
    values: as they were written.
    word: what a key of this model is called.
    hint: where all of them are explained.
    """
    booleans = list(_refuse_booleans(model, values, word))
    try:
        instance = model.model_validate(dict(values))
    except ValidationError as error:
        problems = _problems_of(model, error, values, word)
        places = {problem.place for problem in problems}
        problems += [problem for problem in booleans if problem.place not in places]
        raise RefusedStudy(_unknown_first(problems), hint) from error
    if booleans:
        raise RefusedStudy(booleans, hint)
    return instance


def _problems_of(
    model: type[BaseModel], error: ValidationError, values: Mapping[str, Any], word: str
) -> list[Problem]:
    """Return all that pydantic found, one problem a place, unknown keys first.

    values: as they were written. What pydantic reports was converted: of `8MiB` it has a number of bytes.
    """
    values_by_place = dict(values_of(values))
    problems: dict[tuple[Place, str], Problem] = {}
    for detail in error.errors(include_url=False):
        place, declaration = find_declaration(model, detail["loc"])
        if detail["type"] == "disagreement":
            place = (*place, *detail["ctx"]["key"])
            problem = Problem(place, detail["ctx"]["text"], is_of_several=True)
            problems.setdefault((place, problem.what), problem)
        else:
            problem = _problem_of(model, detail, place, declaration, word)
            if _is_converted(detail["input"], values_by_place.get(place)):
                problem = replace(problem, hint="")
            problems.setdefault((place, ""), problem)
    return _unknown_first(list(problems.values()))


def _is_converted(value: Any, written_value: Any) -> bool:
    """Return whether a value was read from a text with a unit; then it needs no hint how to write it."""
    return isinstance(written_value, str) and isinstance(value, int | float)


def nearest(name: str, known_names: Sequence[str], count: int = 2) -> list[str]:
    """Return the known names that come nearest to one, whatever their capitals and dashes."""
    return get_close_matches(name.lower().replace("-", "_"), known_names, count)


def _unknown_first(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: not problem.is_unknown)


def _refuse_booleans(
    model: type[BaseModel], values: Mapping[str, Any], word: str
) -> Iterator[Problem]:
    """Refuse true and false where a number must stand: Python takes them for 1 and 0."""
    for place, value in values_of(values):
        if not isinstance(value, bool):
            continue
        known_place, declaration = find_declaration(model, place)
        kinds = {alternative.annotation for alternative in _alternatives(declaration)}
        is_number = bool(kinds & {int, float}) and bool not in kinds
        if is_number and known_place == place:
            yield Problem(place, _refusal(value, place, declaration, word))


def _problem_of(
    model: type[BaseModel], detail: Any, place: Place, declaration: Declaration | None, word: str
) -> Problem:
    """Return the problem that one error of pydantic is about. detail: an entry of `ValidationError.errors`."""
    name = str(place[-1]) if place else "it"
    value = detail["input"]
    if detail["type"] == "extra_forbidden":
        return _unknown_key(model, place, value, word)
    if detail["type"] == "missing":
        return Problem(place, f"{word} {name!r} is missing")
    if detail["type"] in ("value_error", "assertion_error"):
        text = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        is_scalar = isinstance(value, bool | int | float | str)
        if is_scalar and repr(value) not in text:
            text = f"{_key_name(place, word)} cannot be {show_value(value)}: {text}"
        elif is_scalar and place and word == "option":  # of others `where` has the name
            text = f"{_key_name(place, word)}: {text}"
        return Problem(place, text)
    refusal = _refusal(value, place, declaration, word)
    return Problem(place, refusal, _hint(value, name, declaration), given=value)


def _unknown_key(model: type[BaseModel], place: Place, value: Any, word: str) -> Problem:
    """`unknown key 'blcks'; did you mean blocks?`, `unknown table [[benchmarks]]; did you mean [[benchmark]]?`"""
    name = str(place[-1])
    table: Any = model
    if len(place) > 1:
        declaration = find_declaration(model, place[:-1])[1]
        table = declaration.annotation if declaration else None
    fields = table.model_fields if is_model(table) else {}
    nearest_names = nearest(name, list(fields))
    title = f"{word} {name!r}"
    suggestions = list(nearest_names)
    if len(place) == 1 and word == "key":
        if _in_brackets(name, value) != name:
            title = f"table {_in_brackets(name, value)}"
        suggestions = [_in_declared_brackets(key, fields[key].annotation) for key in nearest_names]
    if not fields:
        advice = "there is none"
    elif nearest_names:
        advice = f"did you mean {' or '.join(suggestions)}?"
    else:
        advice = f"known: {', '.join(fields)}"
    what = f"unknown {title}; {advice}"
    return Problem(place, what, is_unknown=True, near=nearest_names[0] if nearest_names else "")


def _in_brackets(name: str, value: Any) -> str:
    """Return a key as TOML shows it where its value is a table, or several."""
    if isinstance(value, Mapping):
        return f"[{name}]"
    if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
        return f"[[{name}]]"
    return name


def _in_declared_brackets(name: str, annotation: Any) -> str:
    """Return a key as TOML shows it where it is declared as a table, or several."""
    if is_model(annotation):
        return f"[{name}]"
    if get_origin(annotation) is list and is_model(get_args(annotation)[0]):
        return f"[[{name}]]"
    return name


def _key_name(place: Place, word: str) -> str:
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
    allowed_text = "of another kind"
    if declaration:
        allowed_text = allowed_words(declaration.annotation, declaration.metadata)
    return f"{_key_name(place, word)} is {_show(value, declaration)}; it must be {allowed_text}"


def _show(value: Any, declaration: Declaration | None) -> str:
    """Return a value as it was given, sizes and durations with their units."""
    conversion = conversion_among(_alternatives(declaration))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_part_of_byte = conversion is size_bytes and isinstance(value, float)
    if conversion is None or not is_number or is_part_of_byte:
        return show_value(value)
    return show_quantity(value, conversion)


def _hint(value: Any, name: str, declaration: Declaration | None) -> str:
    """Return how to write what seems to be meant; empty when that is not plain."""
    alternatives = _alternatives(declaration)
    kinds = {get_origin(kind.annotation) or kind.annotation for kind in alternatives}
    if isinstance(value, str):
        suggestions = nearest(value, _choices(alternatives), 1)
        if suggestions:
            return f"did you mean {suggestions[0]!r}?"
        if kinds & {int, float}:
            return _hint_of_number(value, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and isinstance(value, int):
        hint = _hint_of_size(value, name, alternatives)
        if hint:
            return hint
    if any(is_share(kind.metadata) for kind in alternatives):
        if is_number and 1 <= value < 100:
            return f"for {value:g} % write '{value:g}%' or {value / 100:g}"
        return ""
    if list in kinds and (isinstance(value, str) or is_number):
        return _hint_of_list(value, name, alternatives)
    if list in kinds and isinstance(value, Mapping):
        return f"write [[{name}]], in two brackets: there may be several"
    if isinstance(value, list):
        for kind in kinds:
            if is_model(kind) and "guest" in kind.model_fields:
                return f"write a table: {name} = {{ guest = [...] }}"
    return ""


def _choices(alternatives: Sequence[Declaration]) -> list[str]:
    """Return the only values that a key may hold; none where there are others."""
    choices: list[str] = []
    for kind in alternatives:
        if get_origin(kind.annotation) is Literal:
            choices += map(str, get_args(kind.annotation))
    return choices


def _hint_of_list(value: str | float, name: str, alternatives: Sequence[Declaration]) -> str:
    """Return how to write the entries of a list, which stand in one text or are a single number."""
    entries = []
    for part in str(value).split(","):
        text = part.strip("[]\"' ")
        if text:
            entries.append(_toml(text))
    kinds_of_entries = set()
    for kind in alternatives:
        if get_origin(kind.annotation) is list:
            (entry,) = get_args(kind.annotation)
            kinds_of_entries |= {
                declaration.annotation for declaration in alternatives_of(entry, ())
            }
    entries_text = ", ".join(entries)
    if '"' in entries_text and kinds_of_entries <= {int, float}:
        entries_text = "1, 2"
    return f"write a list: {name} = [{entries_text}]"


def _hint_of_size(value: int, name: str, alternatives: Sequence[Declaration]) -> str:
    """Return how to write MiB, where a number of bytes is too small and as many MiB would not be."""
    for kind in alternatives:
        if conversion_of(kind.metadata) is size_bytes:
            minimum = bounds_of(kind.metadata).get("ge", 0)
            if value < minimum <= value * 1024**2:
                return f'a number alone counts bytes; for MiB write {name} = "{value}MiB"'
    return ""


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
