"""All problems of a study at once, and the study as far as it can be understood, for what is checked after that.

A study with a wrong value is validated again without it, and one with an unknown key with the nearest known key in
its place, until nothing new is found. What only follows from such a change is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from vtax.study.limits import Place
from vtax.study.model import BenchmarkTable, DesignTable, GuestTable, Study
from vtax.study.programs import ProgramTable
from vtax.study.refusals import Problem, Refused, validated

_ROUNDS = 5
_UNNAMED = "unnamed"
UNKNOWN_BENCHMARK = "\0"
"""Name of a benchmark table without one: no file can hold it. Its points are not checked."""
_GAP = object()
_METRIC = {"unit": "1", "better": "lower", "pointer": ""}  # in place of one with problems, which were all found
_COMMAND = "true"  # in place of one with problems
_TABLES: Mapping[str, type[BaseModel]] = {
    "[design]": DesignTable,
    "[guest]": GuestTable,
    "[[benchmark]]": BenchmarkTable,
    "[[program]]": ProgramTable,
}


def checked(data: Mapping[str, Any]) -> tuple[list[Problem], Study | None]:
    """(every problem, the study without what is wrong); None when too little is left of it."""
    values = deepcopy(dict(data))
    problems = _tables_of_platforms(values)
    dropped: list[Place] = []
    for _ in range(_ROUNDS):
        try:
            return problems, validated(Study, values)
        except Refused as refused:
            meant = {(*each.place[:-1], each.near) for each in refused.problems if each.near}
            found = [each for each in refused.problems if each.is_unknown or each.place not in meant]
        problems += [_hinted(each) for each in found if each not in problems and not _follows(each, dropped)]
        repaired = [_repaired(values, each, dropped) for each in found]
        if not all(repaired):
            break
        _without_gaps(values)
    return sorted(problems, key=lambda problem: not problem.is_unknown), None


def _tables_of_platforms(values: dict[str, Any]) -> list[Problem]:
    """`[[platforms]]` in place of `[[platform]]`: the key platforms is no unknown one, and lists names."""
    tables = values.get("platforms")
    if not (isinstance(tables, list) and tables and all(isinstance(each, dict) for each in tables)):
        return []
    names = [each["name"] for each in tables if isinstance(each.get("name"), str)]
    baseline = values.get("baseline", "native")
    values["platforms"] = list(dict.fromkeys([baseline, *names]))
    values.setdefault("platform", tables)
    listed = ", ".join(f'"{name}"' for name in values["platforms"])
    what = "unknown table [[platforms]]; did you mean [[platform]]?"
    return [Problem(("platforms",), what, f"and list all their names at the top: platforms = [{listed}]", True)]


def _follows(problem: Problem, dropped: Sequence[Place]) -> bool:
    """Return whether a problem may come of what was left out: a key is missing now, or others no longer agree with
    it."""
    if problem.place in dropped:
        return True
    together = ("baseline", "platforms")
    tables = together if problem.place and problem.place[0] in together else problem.place[:1]
    if problem.place[:1] == ("benchmark",):
        return problem.is_of_several and any(place[:4] == problem.place[:4] for place in dropped)
    if problem.place[:1] == ("program",):
        same = [place[2:] for place in dropped if place[:2] == problem.place[:2]]
        return problem.is_of_several and any(rest[:1] != ("metric",) for rest in same)
    return problem.is_of_several and any(place[0] in tables for place in dropped)


def _repaired(values: dict[str, Any], problem: Problem, dropped: list[Place]) -> bool:
    """Take a problem out of the values. False when the study cannot be understood without what is wrong."""
    if problem.place == ("name",):
        values["name"] = _UNNAMED
        return True
    if problem.place[:1] == ("program",) and problem.place[2:3] == ("metric",) and len(problem.place) > 4:
        values["program"][problem.place[1]]["metric"][problem.place[3]] = {**_METRIC, "name": f"m{problem.place[3]}"}
        dropped.append(problem.place)
        return True
    if problem.place[:1] == ("program",) and problem.place[2:3] in (("argv",), ("version",)):
        return _with_some_command(values["program"][problem.place[1]], problem, dropped)
    holder: Any = values
    for part in problem.place[:-1]:
        try:
            holder = holder[part]
        except (KeyError, IndexError, TypeError):
            return False
    last = problem.place[-1] if problem.place else None
    if (
        problem.place[:1] == ("benchmark",)
        and last == "name"
        and len(problem.place) == 3
        and isinstance(holder, dict)
    ):
        holder[last] = UNKNOWN_BENCHMARK
        holder.setdefault("label", _label_of(problem))
        return True
    if isinstance(holder, dict) and problem.place[0] == "benchmark" and last == "label" and last not in holder:
        holder[last] = _label_of(problem)
        return True
    if isinstance(holder, dict) and last in holder:
        value = holder.pop(last)
        if problem.is_unknown and problem.near:
            holder.setdefault(problem.near, value)
        elif not problem.is_unknown:
            dropped.append(problem.place)
        return True
    if isinstance(holder, list) and isinstance(last, int) and not isinstance(holder[last], dict):
        holder[last] = _GAP
        dropped.append(problem.place)
        return True
    return False


def _with_some_command(table: dict[str, Any], problem: Problem, dropped: list[Place]) -> bool:
    """Put a command that can be in the place of one with problems, so that what else is wrong is found."""
    if problem.is_unknown:
        return False
    if problem.place[2] == "version":
        if "version" in table:
            dropped.append(problem.place)
        table["version"] = [_COMMAND]
        return True
    given = table.get("argv")
    roles = ("client", "server") if isinstance(given, dict) and given.keys() & {"client", "server"} else ("guest",)
    named = [
        *(table["parameters"] if isinstance(table.get("parameters"), dict) else ()),
        *(["files"] * ("files" in table)),
    ]
    table["argv"] = {role: [_COMMAND, *(f"{{{name}}}" for name in named)] for role in roles}
    dropped.append(problem.place)
    return True


def _label_of(problem: Problem) -> str:
    """Return a label that no other table has, as a study may name it: `number-2`."""
    return f"number-{int(problem.place[1]) + 1}"


def _without_gaps(values: Any) -> None:
    """Leave out the wrong entries of lists, whose places stood as long as there were more to find."""
    for each in values.values() if isinstance(values, dict) else values:
        if isinstance(each, dict | list):
            _without_gaps(each)
    if isinstance(values, list):
        values[:] = [each for each in values if each is not _GAP]


def _hinted(problem: Problem) -> Problem:
    """Return a problem with a hint where its key or its value has its place in another table."""
    if not problem.place:
        return problem
    if problem.place[0] == "benchmark" and problem.place[-1] == "label" and problem.is_of_several:
        return replace(problem, hint=f'for example label = "{_label_of(problem)}"')
    table, name = problem.place[0], problem.place[-1]
    if problem.is_unknown:
        owners = [owner for owner, model in _TABLES.items() if name in model.model_fields]
        if (
            len(problem.place) > 1
            and name in Study.model_fields
            and name not in ("name", "benchmark", "platform", "program")
        ):
            hint = f"{name} belongs to the whole study: write it above the first table in brackets"
            return replace(problem, what=f"unknown key {name!r}", hint=hint, near="")
        if len(problem.place) == 1 and not problem.near and owners:
            return replace(problem, what=f"unknown key {name!r}", hint=f"{name} is a key of {' or of '.join(owners)}")
        if len(problem.place) == 3 and table == "benchmark" and not problem.near:
            hint = "parameters or factors hold what the tool is given, link or link_factors what its links are"
            return replace(problem, hint=hint)
    if table == "benchmark" and len(problem.place) == 4 and isinstance(problem.given, list):
        factors = {"parameters": "factors", "link": "link_factors"}.get(str(problem.place[2]))
        return replace(problem, hint=f"a list of levels belongs in {factors}") if factors else problem
    return problem
