"""Does a factor change what the platforms cost? For every factor of a run that has more than one level.

Other factors are averaged over: a platform's value at a level and in a block is the geometric mean over all points
with that level, and is there only when the block holds them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from vtax.described import Means, Warnings
from vtax.messages import Note
from vtax.report.analysis.filters import Filter
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section, aligned
from vtax.report.document import Inline, Number, Relative, Share, joined, msg
from vtax.stats.checks import Array, Better, StatsError, check_positive
from vtax.stats.interaction import Interaction, Term, interaction
from vtax.stats.verdict import holm, outside


@dataclass(frozen=True)
class FactorEffect(OfSection):
    """One factor of one metric."""

    section: Section
    factor: Annotated[str, Means("factor")]
    levels: Annotated[tuple[str, ...], Means("its levels")]
    effect: Annotated[Interaction | None, Means("table of ratios and test, or null")]
    p_adjusted: Annotated[float, Means("p-value, Holm-adjusted over all factors and metrics")] = 1.0
    text: Annotated[Inline, Means("the result as a sentence")] = ""
    reason: Annotated[str, Means("why there is none")] = ""
    warnings: Warnings = ()


def factor_effects(analysis: Analysis, *, every_metric: bool = False) -> tuple[FactorEffect, ...]:
    """Of every factor with at least two levels and every primary metric (or every metric) that has it."""
    found = []
    for section in analysis.sections if every_metric else analysis.primary:
        factors = dict.fromkeys(factor for point in section.points for factor in point.levels)
        for factor in factors:
            levels = tuple(dict.fromkeys(str(p.levels[factor]) for p in section.points if factor in p.levels))
            if len(levels) > 1:
                found.append(_effect(section, factor, levels, analysis))
    tested = [each.effect.p_value for each in found if each.effect]
    adjusted = iter(holm(tested).tolist() if tested else ())
    return tuple(_answered(replace(e, p_adjusted=next(adjusted)), analysis) if e.effect else e for e in found)


def shown(found: Sequence[FactorEffect], only: Filter) -> tuple[FactorEffect, ...]:
    """What a filter shows of the effects: of the metrics at its points, and of its platforms.

    An effect is of all levels of its factor, and an average over the other factors, whatever levels are shown.
    """
    return tuple(
        replace(each, effect=each.effect and _of_platforms(each.effect, only))
        for each in found
        if any(only.shows(row.cell) for row in each.section.rows)
    )


def _of_platforms(effect: Interaction, only: Filter) -> Interaction:
    return replace(effect, table=tuple(term for term in effect.table if only.shows_platform(term.platform)))


def _effect(section: Section, factor: str, levels: tuple[str, ...], analysis: Analysis) -> FactorEffect:
    empty = FactorEffect(section, factor, levels, None)
    names = [p.name for p in sorted(analysis.platforms, key=lambda p: not p.is_baseline) if p.available]
    sides: dict[tuple[str, str], tuple[Array, Array]] = {}
    absent = []
    wanted = [sum(str(point.levels.get(factor)) == level for point in section.points) for level in levels]
    try:
        for name in names:
            rows = [_rows(section.points, factor, level, name) for level in levels]
            if all(row.summary is not None for each in rows for row in each) and list(map(len, rows)) == wanted:
                sides |= {(name, level): _averaged(each) for level, each in zip(levels, rows, strict=True)}
            elif name == analysis.baseline:
                raise StatsError(Note("no-baseline-levels"))
            else:
                absent.append(name)
        warnings = (Note("absent-levels", platforms=", ".join(absent)),) if absent else ()
        values = np.concatenate([value for value, _ in sides.values()]) if sides else np.zeros(0)
        labels = np.array([key for key, (value, _) in sides.items() for _ in value]).reshape(-1, 2)
        blocks = np.concatenate([block for _, block in sides.values()]) if sides else np.zeros(0)
        effect = interaction(values, labels[:, 0], labels[:, 1], blocks, analysis.rule.confidence)
    except StatsError as error:
        return replace(empty, reason=error.note)
    if not np.isfinite(effect.p_value):
        return replace(empty, reason=Note("few-shared-blocks"))
    return replace(empty, effect=effect, warnings=(*warnings, *effect.warnings))


def _rows(points: Sequence[ResultPoint], factor: str, level: str, platform: str) -> list[Row]:
    """The platform's rows at a level, over all levels of the other factors."""
    return [
        row
        for point in points
        if str(point.levels.get(factor)) == level
        for row in point.rows
        if row.platform.name == platform
    ]


def _averaged(rows: Sequence[Row]) -> tuple[Array, Array]:
    """(geometric means, blocks) over rows, of the blocks that hold all of them."""
    blocks, matrix = aligned(rows)
    check_positive(matrix[~np.isnan(matrix)], "values")
    whole = ~np.isnan(matrix).any(axis=0)
    return np.exp(np.log(matrix[:, whole]).mean(axis=0)), blocks[whole].astype(np.float64)


def _answered(found: FactorEffect, analysis: Analysis) -> FactorEffect:
    effect, margin = found.effect, analysis.rule.margin
    assert effect is not None
    adjusted = Number(found.p_adjusted, 2)
    test = msg("paired t-tests of every platform and level, adjusted p = {adjusted}", adjusted=adjusted)
    if found.p_adjusted > analysis.rule.alpha:
        text = msg(
            "no evidence that the percent of {baseline} depends on {factor} (this does not prove independence)",
            baseline=analysis.baseline,
            factor=found.factor,
        )
    else:
        terms = [term for term in effect.table if term.kind == "interaction"]
        maximum = max(terms, key=lambda term: abs(_log(term.ratio)))
        data: dict[str, Inline] = {
            "factor": found.factor, "baseline": analysis.baseline, "size": _size(maximum, found, analysis),
        }  # fmt: skip
        if any(outside(_log(term.ratio), margin) for term in terms):
            text = msg("{factor} changes the percent of {baseline}, {size}", **data)
        else:
            text = msg(
                "{factor} changes the percent of {baseline} by less than ±{margin}, {size}",
                margin=Share(margin, "declared"), **data,
            )  # fmt: skip
    return replace(found, text=joined([text, test], "; "))


def _log(ratio: float) -> float:
    """Of a ratio that may be too small or too large for a float."""
    return math.log(ratio) if ratio > 0 else -math.inf


def _size(term: Term, found: FactorEffect, analysis: Analysis) -> Inline:
    return msg(
        "most on {platform}, whose percent of {baseline} at {level} is {share} relative to {first}",
        platform=analysis.platform_of(term.platform), baseline=analysis.baseline,
        level=f"{found.factor}={term.level}", first=f"{found.factor}={found.levels[0]}",
        share=replace(relative_of(term, found.section.better), is_of="amount"),
    )  # fmt: skip


def relative_of(term: Term, better: Better) -> Relative:
    """Return a term as a share of performance: a ratio of times the other way round."""
    if better == "higher":
        return Relative(term.ratio, term.low, term.high)
    estimate, low, high = (1 / each if each else math.inf for each in (term.ratio, term.high, term.low))
    return Relative(estimate, low, high)
