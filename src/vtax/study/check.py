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


def checked(data: Mapping[str, Any]) -> tuple[list[Problem], Study | None]:
    """(every problem, the study). With problems it is what is left of the study, to look for others in; None where
    others would only follow from what is left out."""
    values = deepcopy(dict(data))
    problems = _tables_of_platforms(values)
    try:
        return problems, validated(Study, values)
    except RefusedStudy as refused:
        meant = {(*each.place[:-1], each.near) for each in refused.problems if each.near}
        own = [each for each in refused.problems if each.is_unknown or each.place not in meant]
        return [_hinted(each) for each in (*problems, *own)], _rest(values, own)


def _rest(values: Mapping[str, Any], problems: Sequence[Problem]) -> Study | None:
    """Return a study without its wrong keys; None where what names others, or is missing, is wrong."""
    rest = deepcopy(dict(values))
    if not all(_set_right(rest, problem) for problem in problems):
        return None
    try:
        return validated(Study, rest)
    except RefusedStudy:
        return None


def _set_right(values: dict[str, Any], problem: Problem) -> bool:
    """Rename a misspelt key to the nearest, or take a wrong one out; whether what is left can be judged."""
    *above, key = problem.place or ("",)
    table: Any = values
    for part in above:
        try:
            table = table[part]
        except (
            KeyError,
            IndexError,
            TypeError,
        ):  # the place is of something that is absent, or no table
            return False
    if not isinstance(table, dict) or key not in table:
        return False
    value = table.pop(key)
    if problem.is_unknown:
        if problem.near:
            table.setdefault(problem.near, value)
        return True
    return _ALONE.match(".".join(map(str, problem.place))) is not None


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
    return [
        Problem(
            ("platforms",),
            what,
            f"and list all their names at the top: platforms = [{listed}]",
            True,
        )
    ]


def _label_of(problem: Problem) -> str:
    """Return a label that no other table has, as a study may name it: `number-2`."""
    return f"number-{int(problem.place[1]) + 1}"


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
        if len(problem.place) == 1 and owners:
            return replace(
                problem,
                what=f"unknown key {name!r}",
                hint=f"{name} is a key of {' or '.join(owners)}",
            )
        if len(problem.place) == 3 and table == "benchmark" and not problem.near:
            hint = "parameters or factors hold what the tool is given, link or link_factors what its links are"
            return replace(problem, hint=hint)
    if table == "platform" and len(problem.place) == 3 and isinstance(problem.given, list):
        return replace(
            problem,
            hint=f"each value of {name} needs a platform of its own, with a name and a table",
        )
    if table == "benchmark" and len(problem.place) == 4 and isinstance(problem.given, list):
        factors = {"parameters": "factors", "link": "link_factors"}.get(str(problem.place[2]))
        return (
            replace(problem, hint=f"a list of levels belongs in {factors}") if factors else problem
        )
    return problem
