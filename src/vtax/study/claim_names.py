"""Names in claims, which the study must have. `runner.check` looks at metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

from vtax.errors import BadInput, did_you_mean
from vtax.levels import BENCHMARK, HOST, METRIC, KnownLevels, Level, number_of
from vtax.study.claims import CheckTable, ClaimSide, PublishedTable
from vtax.study.model import BenchmarkTable, Study

MOST_NAMED = 8  # of what there is


def unknown_names(study: Study, file_platforms: Iterable[str], source: str) -> list[BadInput]:
    """Return a problem for each name in claims and published numbers that the study does not have.

    file_platforms: of the file, which the command line may have replaced in the study.
    """
    platforms = known_platforms(study, file_platforms)
    problems: list[BadInput] = []
    ids = [claim.id for claim in study.claim]
    for number, claim in enumerate(study.claim, 1):
        place = f"{source}: [[claim]] number {number} ({claim.id})"
        if claim.id in ids[: number - 1]:
            what = f"there are two claims {claim.id!r}"
            problems.append(BadInput(what, where=f"{place}, key id", hint="rename one"))
        for check_number, check in enumerate(claim.check, 1):
            where = f"{place}, check {check_number}"
            problems += unknown_platforms(check.platforms(study.baseline), platforms, where)
            problems += _problems_of_check(study, check, where)
    for number, table in enumerate(study.published, 1):
        where = f"{source}: [[published]] number {number}"
        problems += unknown_platforms(table.values, platforms, f"{where}, key values")
        problems += _problems_of_published(study, table, where)
    return problems


def known_platforms(study: Study, file_platforms: Iterable[str]) -> set[str]:
    """Return the platforms that a study knows: its own, those of its file, and those of its publication.

    file_platforms: those of its file.
    """
    names = {*file_platforms, *study.platforms}
    names.update(table.name for table in study.platform)
    if study.paper:
        names.update(study.paper.platforms)
    return names


def unknown_platforms(
    names: Iterable[str], known_names: Iterable[str], where: str
) -> Iterator[BadInput]:
    """Yield a problem for each platform that is not known."""
    for name in names:
        if name not in known_names:
            hint = (
                "name a platform of the study, or add it to platforms of [paper] with what it was"
            )
            yield BadInput(
                unknown_name("platform", name, sorted(known_names)), where=where, hint=hint
            )


def unknown_benchmarks(labels: Iterable[str], study: Study, where: str) -> Iterator[BadInput]:
    """Yield a problem for each label that no benchmark of the study has."""
    known_labels = study.benchmark_titles
    for label in labels:
        if label not in known_labels:
            what = unknown_name("benchmark", label, known_labels)
            yield BadInput(what, where=where, hint="use its label")


def unknown_name(kind: str, name: str, known_names: Sequence[str]) -> str:
    """Return what is wrong with a name, and the nearest that there are."""
    ending = f".{name}"
    suggestions = [full_name for full_name in known_names if full_name.endswith(ending)]
    suggestions = suggestions or get_close_matches(name, known_names, 2)
    what = f"the study has no {kind} {name!r}"
    if suggestions:
        return what + did_you_mean(suggestions)
    if not known_names:
        return what
    rest = f" and {len(known_names) - MOST_NAMED} more" if len(known_names) > MOST_NAMED else ""
    return f"{what}; known: {', '.join(known_names[:MOST_NAMED])}{rest}"


def _problems_of_check(study: Study, check: CheckTable, where: str) -> Iterator[BadInput]:
    yield from unknown_benchmarks(check.benchmarks, study, f"{where}, key benchmark")
    if check.over == "trials" and study.design.trials == 1:
        what = "a spread over trials compares two trials of a block, and the design has one"
        yield BadInput(what, where=f"{where}, key over", hint="set trials of [design] to 2 or more")
    problems: list[BadInput] = []
    keys: tuple[Literal["of", "to"], ...] = ("of", "to")
    for key in keys:
        for side in check.sides(key):
            problems += _problems_of_side(study, check, key, side, where)
            if not problems and not _has_cells(study, check, side):
                what = f"no cell of the study has all levels of {key} and where"
                hint = "each level must be in the same [[benchmark]]"
                problems.append(BadInput(what, where=where, hint=hint))
    yield from {(problem.what, problem.where): problem for problem in problems}.values()


def _problems_of_side(
    study: Study, check: CheckTable, key: str, side: ClaimSide, where: str
) -> list[BadInput]:
    """Return a problem for each name of a side of a check that the study does not have. key: of the side."""
    labels = [str(side.levels[BENCHMARK])] if BENCHMARK in side.levels else []
    problems = list(unknown_benchmarks(labels, study, f"{where}, key {key}"))
    if problems:
        return problems
    levels = known_levels(study, tables_of(study, check.benchmarks, side))
    return [
        *unknown_levels(_levels_of(side), levels, f"{where}, key {key}"),
        *unknown_levels(check.selection.choices, levels, f"{where}, key where"),
        *_unknown_factors(check, levels, where),
    ]


def _levels_of(side: ClaimSide) -> dict[str, tuple[str, ...]]:
    """Return the one level that a side has of each factor of its benchmark."""
    factors = side.levels.without((BENCHMARK, METRIC, HOST))
    return {factor: (str(level),) for factor, level in factors.items()}


def _has_cells(study: Study, check: CheckTable, side: ClaimSide) -> bool:
    """Return whether a benchmark of a side has all levels of a check and of the side."""
    levels_by_factor = {**check.selection.choices, **_levels_of(side)}
    for table in tables_of(study, check.benchmarks, side):
        levels_of_table = known_levels(study, [table])
        if all(
            levels_of_table.has_any(factor, levels) for factor, levels in levels_by_factor.items()
        ):
            return True
    return False


def _unknown_factors(
    check: CheckTable, levels_of_study: KnownLevels, where: str
) -> Iterator[BadInput]:
    names = [*levels_of_study.factors, BENCHMARK, METRIC]
    for factor in check.average_over:
        if factor not in names:
            what = unknown_name("factor", factor, names)
            yield BadInput(what, where=f"{where}, key average_over", hint="name a factor")
    if check.along is None:
        return
    if check.along not in levels_of_study.factors:
        what = unknown_name("factor", check.along, levels_of_study.factors)
        yield BadInput(what, where=f"{where}, key along", hint="name a factor")
        return
    numbers = [number_of(level) for level in levels_of_study.levels(check.along)]
    if len(numbers) < 2 or any(number is None or number <= 0 for number in numbers):
        what = f"{check.along} has no two levels that are positive numbers, so nothing rises or falls along it"
        yield BadInput(what, where=f"{where}, key along", hint="name a factor of sizes or counts")


def unknown_levels(
    levels_by_factor: Mapping[str, Sequence[str]], levels_of_study: KnownLevels, where: str
) -> Iterator[BadInput]:
    """Yield a problem for each factor and level that is named and not known."""
    for factor, levels in levels_by_factor.items():
        if factor not in levels_of_study.factors:
            what = unknown_name("factor", factor, levels_of_study.factors)
            yield BadInput(what, where=where, hint="name a factor of that benchmark")
            continue
        for level in levels:
            if not levels_of_study.has(factor, level):
                what = unknown_name(f"level of {factor},", level, levels_of_study.levels(factor))
                yield BadInput(what, where=where, hint="name a level that the study measures")


def _problems_of_published(study: Study, table: PublishedTable, where: str) -> Iterator[BadInput]:
    problems = list(unknown_benchmarks([table.benchmark], study, where))
    yield from problems
    if problems:
        return
    levels = known_levels(study, tables_of(study, (table.benchmark,), ClaimSide("")))
    yield from unknown_levels(table.selection.choices, levels, f"{where}, key where")


def tables_of(study: Study, labels: Sequence[str], side: ClaimSide) -> list[BenchmarkTable]:
    """Return the benchmarks that a side may be of."""
    titles = [str(side.levels[BENCHMARK])] if BENCHMARK in side.levels else labels
    if not titles:
        return study.benchmark
    return [table for table in study.benchmark if table.title in titles]


def known_levels(study: Study, tables: Iterable[BenchmarkTable]) -> KnownLevels:
    """Return every factor of some benchmarks with its levels."""
    factors_of_tables: list[Mapping[str, Sequence[Level]]] = [table.varied for table in tables]
    points: list[dict[str, Level]] = []
    for factors in (*factors_of_tables, study.start_factors):
        for factor, levels in factors.items():
            points += [{factor: level} for level in levels]
    return KnownLevels("the study", points)
