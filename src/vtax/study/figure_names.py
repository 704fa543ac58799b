"""Names in figures, which the study must have. `runner.check` looks at metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vtax.errors import BadInput
from vtax.levels import HOST, number_of
from vtax.study.claim_names import (
    known_levels,
    tables_of,
    unknown_benchmarks,
    unknown_levels,
    unknown_name,
    unknown_platforms,
)
from vtax.study.claims import ClaimSide
from vtax.study.figures import NAMED_AXES, TEST, FigureTable
from vtax.study.model import Study


def unknown_names_of_figures(
    study: Study, platforms: Collection[str], source: str
) -> Iterator[BadInput]:
    """Yield a problem for each name in figures that the study does not have. platforms: all that it knows."""
    ids = [figure.id for figure in study.figure]
    for number, figure in enumerate(study.figure, 1):
        where = f"{source}: [[figure]] number {number} ({figure.id})"
        if figure.id in ids[: number - 1]:
            yield BadInput(
                f"there are two figures {figure.id!r}", where=f"{where}, key id", hint="rename one"
            )
        yield from unknown_platforms(figure.platforms, platforms, f"{where}, key platforms")
        yield from unknown_platforms(figure.without, platforms, f"{where}, key without")
        yield from _problems(study, figure, where)


def _problems(study: Study, figure: FigureTable, where: str) -> Iterator[BadInput]:
    problems = list(unknown_benchmarks(figure.benchmarks, study, f"{where}, key benchmark"))
    yield from problems
    if problems:
        return
    levels_of_study = known_levels(study, tables_of(study, figure.benchmarks, ClaimSide("")))
    yield from unknown_levels(figure.selection.choices, levels_of_study, f"{where}, key where")
    for key in ("x", "y", "series", "panel"):
        axis = getattr(figure, key)
        if axis is not None and axis not in (*NAMED_AXES, *levels_of_study.factors):
            what = unknown_name("factor", axis, [*NAMED_AXES, *levels_of_study.factors])
            yield BadInput(
                what, where=f"{where}, key {key}", hint="name a factor of that benchmark"
            )
            return
    if figure.kind == "lines" and figure.x != TEST:
        numbers = [number_of(level) for level in levels_of_study.levels(figure.x)]
        if not numbers or None in numbers:
            what = f"{figure.x} has levels that are no numbers, so no line is drawn over it"
            yield BadInput(what, where=f"{where}, key x", hint="use bars")
    if figure.host is not None and HOST in figure.axes:
        what = "host is fixed, and nothing is drawn along it"
        yield BadInput(what, where=f"{where}, key host", hint="take one of the two out")
    if figure.kind == "table":
        return
    for factor in levels_of_study.factors:
        is_fixed = len(figure.selection.canonical.get(factor, levels_of_study.levels(factor))) == 1
        if factor not in figure.axes and not is_fixed:
            what = f"cells of several levels of {factor} are drawn at one place"
            yield BadInput(
                what,
                where=where,
                hint=f"name {factor} as x, y, series or panel, or fix it with where",
            )
