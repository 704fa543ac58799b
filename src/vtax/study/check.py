"""All problems of a study's form at once, with hints at the tables where keys and values belong.

Names of platforms, parameters of tools and what depends on the host are checked of what is left of a study without
its wrong keys, so that these problems are reported with those of the form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from vtax.study.model import BenchmarkTable, DesignTable, GuestTable, Study
from vtax.study.programs import ProgramTable
from vtax.study.refusals import Problem, RefusedStudy, validated

_ALONE = re.compile(r"(?:guest|design)\.|benchmark\.\d+\.(?:parameters|link)\.")
"""Places of keys that no other table of a study names."""
_TABLES: Mapping[str, type[BaseModel]] = {
    "[design]": DesignTable,
    "[guest]": GuestTable,
    "[[benchmark]]": BenchmarkTable,
    "[[program]]": ProgramTable,
}
_NAMES_OF_SEVERAL_TABLES = ("name", "benchmark", "platform", "program")
"""Keys of a whole study that tables in it have too."""
_KEYS_OF_LEVELS = {"parameters": "factors", "link": "link_factors"}
"""Key of fixed values of a benchmark -> that of the levels of the same."""


def checked(data: Mapping[str, Any]) -> tuple[list[Problem], Study | None]:
    """(every problem, the study).

    With problems it is what is left of the study, to look for others in; None where others would only follow from
    what is left out.
    """
    values = deepcopy(dict(data))
    problems = _rename_tables_of_platforms(values)
    try:
        return problems, validated(Study, values)
    except RefusedStudy as refused:
        misspelt = [problem for problem in refused.problems if problem.near]
        meant = {(*problem.place[:-1], problem.near) for problem in misspelt}
        remaining = []
        for problem in refused.problems:
            if problem.is_unknown or problem.place not in meant:
                remaining.append(problem)
        explained = [_add_hint(problem) for problem in (*problems, *remaining)]
        return explained, _validate_rest(values, remaining)


def _validate_rest(values: Mapping[str, Any], problems: Sequence[Problem]) -> Study | None:
    """Return a study without its wrong keys; None where what names others, or is missing, is wrong."""
    rest = deepcopy(dict(values))
    for problem in problems:
        if not _set_right(rest, problem):
            return None
    try:
        return validated(Study, rest)
    except RefusedStudy:
        return None


def _set_right(values: dict[str, Any], problem: Problem) -> bool:
    """Rename a misspelt key to the nearest, or take a wrong one out; return whether what is left can be judged."""
    *parents, key = problem.place or ("",)
    table: Any = values
    for part in parents:
        try:
            table = table[part]
        except (KeyError, IndexError, TypeError):  # nothing is there, or no table
            return False
    if not isinstance(table, dict) or key not in table:
        return False
    value = table.pop(key)
    if problem.is_unknown:
        if problem.near:
            table.setdefault(problem.near, value)
        return True
    return _ALONE.match(".".join(map(str, problem.place))) is not None


def _rename_tables_of_platforms(values: dict[str, Any]) -> list[Problem]:
    """Read `[[platforms]]` as `[[platform]]`, whose names platforms lists, and return the problem that it is."""
    tables = values.get("platforms")
    if not isinstance(tables, list) or not tables:
        return []
    names = [values.get("baseline", "native")]
    for table in tables:
        if not isinstance(table, dict):
            return []
        if isinstance(table.get("name"), str):
            names.append(table["name"])
    values["platforms"] = list(dict.fromkeys(names))
    values.setdefault("platform", tables)
    name_list = ", ".join(f'"{name}"' for name in values["platforms"])
    problem = Problem(
        place=("platforms",),
        what="unknown table [[platforms]]; did you mean [[platform]]?",
        hint=f"and list all their names at the top: platforms = [{name_list}]",
        is_unknown=True,
    )
    return [problem]


def _add_hint(problem: Problem) -> Problem:
    """Return a problem with a hint where its key or its value has its place in another table."""
    if not problem.place:
        return problem
    table, name = problem.place[0], problem.place[-1]
    depth = len(problem.place)
    hint = ""
    if problem.is_unknown:
        owners = [owner for owner, model in _TABLES.items() if name in model.model_fields]
        if depth > 1 and name in Study.model_fields and name not in _NAMES_OF_SEVERAL_TABLES:
            hint = f"{name} belongs to the whole study: write it above the first table in brackets"
            return replace(problem, what=f"unknown key {name!r}", hint=hint, near="")
        if depth == 1 and owners:
            hint = f"{name} is a key of {' or '.join(owners)}"
            return replace(problem, what=f"unknown key {name!r}", hint=hint)
    if table == "benchmark" and name == "label" and problem.is_of_several:
        hint = f'for example label = "number-{int(problem.place[1]) + 1}"'
    elif table == "benchmark" and depth == 3 and problem.is_unknown and not problem.near:
        hint = "parameters or factors hold what the tool is given, link or link_factors what its links are"
    elif table == "platform" and depth == 3 and isinstance(problem.given, list):
        hint = f"each value of {name} needs a platform of its own, with a name and a table"
    elif table == "benchmark" and depth == 4 and isinstance(problem.given, list):
        factors = _KEYS_OF_LEVELS.get(str(problem.place[2]))
        if factors:
            hint = f"a list of levels belongs in {factors}"
    return replace(problem, hint=hint) if hint else problem
