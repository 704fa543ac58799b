"""Names in claims, which the study must have. `runner.check` looks at metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from vtax.errors import BadInput
from vtax.levels import BENCHMARK, HOST, METRIC, KnownLevels, Level, number_of
from vtax.study.claims import CheckTable, ClaimSide, PublishedTable
from vtax.study.model import BenchmarkTable, Study

MOST_NAMED = 8  # of what there is


def unknown_names(study: Study, listed: Iterable[str], source: str) -> list[BadInput]:
    """Return a problem for each name in claims and published numbers that the study does not have.

    listed: platforms of the file, which the command line may have replaced in the study.
    """
    platforms = known_platforms(study, listed)
    found: list[BadInput] = []
    ids = [claim.id for claim in study.claim]
    for number, claim in enumerate(study.claim, 1):
        place = f"{source}: [[claim]] number {number} ({claim.id})"
        if claim.id in ids[: number - 1]:
            found.append(
                BadInput(
                    f"there are two claims {claim.id!r}",
                    where=f"{place}, key id",
                    hint="rename one",
                )
            )
        for which, check in enumerate(claim.check, 1):
            where = f"{place}, check {which}"
            found += unknown_platforms(check.platforms(study.baseline), platforms, where)
            found += _problems_of_check(study, check, where)
    for number, table in enumerate(study.published, 1):
        where = f"{source}: [[published]] number {number}"
        found += unknown_platforms(table.values, platforms, f"{where}, key values")
        found += _problems_of_published(study, table, where)
    return found


def known_platforms(study: Study, listed: Iterable[str]) -> set[str]:
    """Platforms that a study knows: its own, those of its file, and those of its publication."""
    own = {*listed, *study.platforms, *(table.name for table in study.platform)}
    return own | (set(study.paper.platforms) if study.paper else set())


def unknown_platforms(named: Iterable[str], known: Iterable[str], where: str) -> Iterator[BadInput]:
    """Yield a problem for each platform that is not known."""
    for name in named:
        if name not in known:
            hint = (
                "name a platform of the study, or add it to platforms of [paper] with what it was"
            )
            yield BadInput(unknown_name("platform", name, sorted(known)), where=where, hint=hint)


def unknown_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return what is wrong with a name, and the nearest that there are."""
    near = [each for each in known if each.endswith(f".{name}")] or get_close_matches(
        name, known, 2
    )
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    there = f"; known: {', '.join(known[:MOST_NAMED])}{more}" if known else ""
    return f"the study has no {kind} {name!r}" + (
        f"; did you mean {' or '.join(near)}?" if near else there
    )


def _problems_of_check(study: Study, check: CheckTable, where: str) -> Iterator[BadInput]:
    labels = [table.label or table.name for table in study.benchmark]
    for label in check.benchmarks:
        if label not in labels:
            yield BadInput(
                unknown_name("benchmark", label, labels),
                where=f"{where}, key benchmark",
                hint="use its label",
            )
    if check.over == "trials" and study.design.trials == 1:
        what = "a spread over trials compares two trials of a block, and the design has one"
        yield BadInput(what, where=f"{where}, key over", hint="set trials of [design] to 2 or more")
    sides = [("of", side) for side in check.sides("of")] + [
        ("to", side) for side in check.sides("to")
    ]
    problems: list[BadInput] = []
    for key, side in sides:
        tables = tables_of(study, check.benchmarks, side)
        known = known_levels(study, tables)
        factors = side.levels.without((BENCHMARK, METRIC, HOST))
        named = {factor: (str(level),) for factor, level in factors.items()}
        label = str(side.levels.get(BENCHMARK, labels[0]))
        if label not in labels:
            what = unknown_name("benchmark", label, labels)
            problems.append(BadInput(what, where=f"{where}, key {key}", hint="use its label"))
            continue
        problems += unknown_levels(named, known, f"{where}, key {key}")
        problems += unknown_levels(check.levels, known, f"{where}, key where")
        problems += _unknown_factors(check, known, where)
        if not problems and not any(
            _has_cells(study, table, {**check.levels, **named}) for table in tables
        ):
            what = f"no cell of the study has all levels of {key} and where"
            problems.append(
                BadInput(what, where=where, hint="each level must be in the same [[benchmark]]")
            )
    yield from {(each.what, each.where): each for each in problems}.values()


def _unknown_factors(check: CheckTable, known: KnownLevels, where: str) -> Iterator[BadInput]:
    names = [*known.factors, BENCHMARK, METRIC]
    for factor in check.average_over:
        if factor not in names:
            yield BadInput(
                unknown_name("factor", factor, names),
                where=f"{where}, key average_over",
                hint="name a factor",
            )
    if check.along is None:
        return
    if check.along not in known.factors:
        what = unknown_name("factor", check.along, known.factors)
        yield BadInput(what, where=f"{where}, key along", hint="name a factor")
        return
    numbers = [number_of(level) for level in known.levels(check.along)]
    if len(numbers) < 2 or any(number is None or number <= 0 for number in numbers):
        what = f"{check.along} has no two levels that are positive numbers, so nothing rises or falls along it"
        yield BadInput(what, where=f"{where}, key along", hint="name a factor of sizes or counts")


def unknown_levels(
    named: Mapping[str, Sequence[str]], known: KnownLevels, where: str
) -> Iterator[BadInput]:
    """Yield a problem for each factor and level that is named and not known."""
    for factor, levels in named.items():
        if factor not in known.factors:
            yield BadInput(
                unknown_name("factor", factor, known.factors),
                where=where,
                hint="name a factor of that benchmark",
            )
            continue
        for level in levels:
            if not known.has(factor, level):
                what = unknown_name(f"level of {factor},", level, known.levels(factor))
                yield BadInput(what, where=where, hint="name a level that the study measures")


def _problems_of_published(study: Study, table: PublishedTable, where: str) -> Iterator[BadInput]:
    labels = [each.label or each.name for each in study.benchmark]
    if table.benchmark not in labels:
        yield BadInput(
            unknown_name("benchmark", table.benchmark, labels), where=where, hint="use its label"
        )
        return
    known = known_levels(study, tables_of(study, (table.benchmark,), ClaimSide("")))
    yield from unknown_levels(table.levels, known, f"{where}, key where")


def tables_of(study: Study, labels: Sequence[str], side: ClaimSide) -> list[BenchmarkTable]:
    """Return the benchmarks that a side may be of."""
    wanted = [str(side.levels[BENCHMARK])] if BENCHMARK in side.levels else labels
    return [
        table for table in study.benchmark if not wanted or (table.label or table.name) in wanted
    ]


def known_levels(study: Study, tables: Iterable[BenchmarkTable]) -> KnownLevels:
    """Return every factor of some benchmarks with its levels."""
    varied: list[Mapping[str, Sequence[Level]]] = [table.varied for table in tables]
    varied.append(study.start_factors)
    points = (
        {factor: level}
        for factors in varied
        for factor, levels in factors.items()
        for level in levels
    )
    return KnownLevels("the study", points)


def _has_cells(study: Study, table: BenchmarkTable, wanted: Mapping[str, Sequence[str]]) -> bool:
    known = known_levels(study, [table])
    return all(
        any(known.has(factor, level) for level in levels) for factor, levels in wanted.items()
    )
