"""Where the noise of a run comes from, whether its figures drift, and what a better plan would have been.

The plan is for the ratio, not for the cell: what blocks share cancels there, so its noise between blocks is taken
from the log-ratios that were measured, and its costs are those of both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from vtax.described import Means, Only, Warnings
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.sessions import of_hosts
from vtax.report.analysis.values import (
    Analysis,
    OfSection,
    ResultPoint,
    Row,
    Section,
    every_row,
    place_of,
)
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.planning import of_ratio
from vtax.stats.steadiness import Drift, find_drift
from vtax.stats.variance import MAX_BLOCKS, Components, Replication, components, plan
from vtax.stats.verdict import holm
from vtax.store.costs import Cost, costs
from vtax.store.query import RunData


@dataclass(frozen=True)
class CellVariance(OfSection):
    """The variance of one metric of one cell. noise: of both sides of the ratio.

    A share is None where it cannot be separated from the one above (one block, one trial a block, no samples in a
    trial).
    """

    section: Section
    point: Annotated[ResultPoint, Only("levels")]
    row: Annotated[
        Row,
        Means("platform", name="platform", take="platform.name"),
        Means("coefficient of variation of its trials", name="cv", take="summary.cv"),
        Means("how many they are", name="n", take="summary.n"),
        Means(
            "how many independent ones they are worth, or null",
            name="effective_n",
            take="summary.effective_n",
        ),
    ]
    target: Annotated[float, Means("half-width that is planned for, as a share of the ratio")]
    between_blocks: Annotated[float | None, Means("share of the noise between blocks, or null")] = (
        None
    )
    between_trials: Annotated[float | None, Means("share between trials, or null")] = None
    within_trial: Annotated[float | None, Means("share within trials, or null")] = None
    drift: Annotated[Drift | None, Means("trend over the run, or null")] = None
    drift_p: Annotated[float, Means("p-value of it, Holm-adjusted over the cells")] = 1.0
    trials: Annotated[float, Means("trials in a block")] = 0.0
    half_width: Annotated[float | None, Means("half-width of the ratio, or null")] = None
    time_s: Annotated[float | None, Means("duration of both sides of the ratio, or null", "s")] = (
        None
    )
    plan: Annotated[Replication | None, Means("the cheapest way to the target, or null")] = None
    cost: Annotated[
        Cost | None, Means("seconds of a start and of a trial of both sides, or null")
    ] = None
    noise: Components | None = None
    reason: Annotated[str, Means("why something is missing")] = ""
    warnings: Warnings = ()

    @property
    def blocks(self) -> Annotated[int, Means("blocks with values")]:
        """How many."""
        return int(self.row.blocks.size)

    @property
    def place(self) -> doc.WarnedPlace:
        """Where it is."""
        return place_of(self.section, self.point, self.row)


Samples = Mapping[
    int, Mapping[str, Sequence[float]]
]  # trial id -> metric name -> values within the trial


def variance(
    data: RunData,
    analysis: Analysis,
    *,
    every_metric: bool = False,
    samples: Samples | None = None,
) -> tuple[CellVariance, ...]:
    """Every cell of every primary metric (or every metric) of a run, with an answer or its reason.

    samples: as store.query.samples reads them; noise within trials is estimated where every trial of a cell has them.
    """
    sections = analysis.sections if every_metric else analysis.primary
    parts_of_cells = _components(sections, samples or {})
    found_costs = costs(data)
    cells = [_cell(*place, parts_of_cells, found_costs, analysis) for place in every_row(sections)]
    return _adjusted(cells)


_Key = tuple[str, str]  # cell key, metric name
_Found = Mapping[_Key, Components | StatsError]


def _components(sections: tuple[Section, ...], samples: Samples) -> _Found:
    """Split the variance of every cell and metric with values, in one pass of arrays a cell."""
    parts_of_cells: dict[_Key, Components | StatsError] = {}
    for section, _, row in every_row(sections):
        key, observations = (row.cell.key, section.metric.name), row.observed
        if observations is None or not observations.value.size:
            continue
        try:
            samples_of_cell = _sampled(observations.trial, observations.block, key[1], samples)
            parts_of_cells[key] = components(
                *(samples_of_cell or (observations.value, observations.block))
            )
        except StatsError as error:
            parts_of_cells[key] = error
    return parts_of_cells


def _sampled(
    trials: NDArray[np.int64], blocks: NDArray[np.int64], metric: str, samples: Samples
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]] | None:
    """(values, block of each, trial of each) within these trials; None unless every one of them has samples."""
    if not samples:
        return None
    inside = [samples.get(trial, {}).get(metric, ()) for trial in trials.tolist()]
    if not all(inside):
        return None
    sizes = [len(values) for values in inside]
    return (
        np.concatenate([np.asarray(v, np.float64) for v in inside]),
        blocks.repeat(sizes),
        trials.repeat(sizes),
    )


def _cell(
    section: Section,
    point: ResultPoint,
    row: Row,
    parts_of_cells: _Found,
    costs: Mapping[str, Cost],
    analysis: Analysis,
) -> CellVariance:
    base, empty = point.baseline, CellVariance(section, point, row, analysis.rule.precision)
    parts = parts_of_cells.get((row.cell.key, section.metric.name))
    if row.summary is None or parts is None:
        return replace(empty, reason=row.reason)
    result = replace(empty, trials=row.summary.n / max(1, row.blocks.size))
    try:
        if len(of_hosts(analysis.sessions)) < 2:  # blocks of several hosts have no order in time
            drift = find_drift(row.block_means, row.blocks, analysis.rule.confidence)
            result = replace(result, drift=drift)
    except StatsError as error:
        result = replace(result, reason=error.note)
    if isinstance(parts, StatsError):
        return replace(result, reason=parts.note)
    result = _shared(result, parts)
    if row is base:
        return result
    baseline_parts = parts_of_cells.get((base.cell.key, section.metric.name)) if base else None
    if row.ratio is None or not isinstance(baseline_parts, Components) or base is None:
        return replace(result, reason=row.reason or Note("no-baseline-here"))
    return _planned(
        result,
        (parts, baseline_parts),
        (costs.get(row.cell.key), costs.get(base.cell.key)),
        analysis,
    )


def _shared(cell: CellVariance, parts: Components) -> CellVariance:
    blocks, trials, within = parts.shares
    return replace(
        cell,
        between_blocks=blocks if parts.blocks > 1 else None,
        between_trials=trials if parts.trials > 1 else None,
        within_trial=within if parts.samples > 1 else None,
        warnings=parts.warnings,
    )


def _planned(
    cell: CellVariance,
    sides: tuple[Components, Components],
    costs: tuple[Cost | None, Cost | None],
    analysis: Analysis,
) -> CellVariance:
    """Return what the ratio's precision took, and the cheapest plan for the precision that is asked for."""
    ratio, rule = cell.row.ratio, analysis.rule
    assert ratio is not None
    if costs[0] is None or costs[1] is None:
        return replace(cell, reason=Note("unknown-duration"))
    cost = Cost(costs[0].block_s + costs[1].block_s, costs[0].trial_s + costs[1].trial_s)
    result = replace(
        cell, cost=cost, time_s=ratio.n_blocks * (cost.block_s + cell.trials * cost.trial_s)
    )
    if ratio.n_blocks < 2:
        return replace(result, reason=Note("one-block-no-plan"))
    result = replace(result, half_width=ratio.half_width)
    joint = of_ratio(ratio.se_log**2 * ratio.n_blocks, ratio.n_blocks, sides)
    result = replace(result, noise=joint)
    try:
        best_plan = plan(
            joint,
            cost.block_s,
            cost.trial_s,
            rule.precision,
            rule.interval_confidence,
            settled=rule.looks.last if rule.looks else 0,
            min_blocks=rule.fewest_planned,
            noise_confidence=rule.confidence,
        )
    except StatsError as error:
        return replace(result, reason=error.note)
    return replace(result, plan=best_plan, warnings=(*result.warnings, *best_plan.warnings))


def _adjusted(cells: Sequence[CellVariance]) -> tuple[CellVariance, ...]:
    """Return the cells with the p-values of drift adjusted over all of them."""
    p_values_of_cells = [cell.drift.p_value for cell in cells if cell.drift]
    p_values = iter(holm(p_values_of_cells).tolist()) if p_values_of_cells else iter(())
    return tuple(replace(cell, drift_p=next(p_values)) if cell.drift else cell for cell in cells)


def by_section(cells: Iterable[CellVariance]) -> list[list[CellVariance]]:
    """Return the cells of each section."""
    return [list(of) for _, of in groupby(cells, key=lambda cell: id(cell.section))]


@dataclass(frozen=True)
class Hardest:
    """The contrast whose plan takes the most time. unsure: the least sure plan of few blocks, and where; or None."""

    where: doc.WarnedPlace
    plan: Replication
    unsure: tuple[doc.WarnedPlace, Replication] | None = None


def hardest(cells: Iterable[CellVariance]) -> Hardest | None:
    """Return the plan that takes the most time, of several the least sure one; None without any plan."""
    plans = [(cell.row, cell.place, cell.plan) for cell in cells if cell.plan]
    if not plans:
        return None
    _, place, plan = max(plans, key=lambda candidate: (candidate[2].time_s, _most(candidate[2])))
    few = [(at, p) for row, at, p in plans if row.ratio and row.ratio.n_blocks < MINIMUM_BLOCKS]
    unsure_plans = [
        (at, p) for at, p in few if _most(p) > 4 * p.blocks
    ]  # of five blocks the noise may ask for 8 times
    return Hardest(
        place, plan, max(unsure_plans, key=lambda candidate: _most(candidate[1]), default=None)
    )


def _most(plan: Replication) -> int:
    return plan.blocks_high or MAX_BLOCKS


def drifting(cells: Iterable[CellVariance], alpha: float) -> list[CellVariance]:
    """Every cell whose figures drift significantly."""
    return [cell for cell in cells if cell.drift and cell.drift_p <= alpha]
