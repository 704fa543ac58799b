"""Where the noise of a run comes from, whether its figures drift, and what a better plan would have been.

The plan is for the ratio, not for the cell: what blocks share cancels there, so its noise between blocks is taken
from the log-ratios that were measured, and its costs are those of both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vtax.messages import Note
from vtax.report.analysis.filters import Filter
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, place_of
from vtax.report.document import Place
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.planning import of_ratio
from vtax.stats.steadiness import Drift, find_drift
from vtax.stats.stopping import interval_confidence
from vtax.stats.variance import MAX_BLOCKS, Components, Replication, components, plan
from vtax.stats.verdict import holm
from vtax.store.costs import Cost, costs, groups
from vtax.store.query import RunData


@dataclass(frozen=True)
class CellVariance:
    """The variance of one metric of one cell.

    between_blocks, between_trials, within_trial: shares of the whole noise, None for one that cannot be separated
    from the one above (one block, one trial a block, no samples in a trial). effective_n: of the trials. drift_p:
    of its test, Holm-adjusted over the cells shown. trials: per block. half_width, time_s: of the ratio as it was
    measured, and what both sides took. cost, noise: of both sides of the ratio. plan: the cheapest way to the study's
    precision, None for the baseline and where there is no ratio. reason: why something is missing.
    """

    row: Row
    between_blocks: float | None = None
    between_trials: float | None = None
    within_trial: float | None = None
    drift: Drift | None = None
    drift_p: float = 1.0
    trials: float = 0.0
    half_width: float | None = None
    time_s: float | None = None
    plan: Replication | None = None
    cost: Cost | None = None
    noise: Components | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class VarianceTable:
    """All cells of a section. points: (point, cells), as in the section."""

    section: Section
    points: tuple[tuple[ResultPoint, tuple[CellVariance, ...]], ...]


Samples = Mapping[int, Mapping[str, Sequence[float]]]  # trial id -> metric name -> values within the trial


def variance(
    data: RunData, analysis: Analysis, *, every_metric: bool = False, samples: Samples | None = None
) -> tuple[VarianceTable, ...]:
    """A table for every primary metric (or every metric) of a run; every cell has an answer or its reason.

    samples: as store.query.samples reads them; noise within trials is estimated where every trial of a cell has them.
    """
    sections = analysis.sections if every_metric else analysis.primary
    found = _components(data, sections, samples or {})
    found_costs = costs(data)
    tables = []
    for section in sections:
        points = []
        for point in section.points:
            cells = [_cell(row, point.baseline, section, found, found_costs, analysis) for row in point.rows]
            points.append((point, tuple(cells)))
        tables.append(VarianceTable(section, tuple(points)))
    return _adjusted(tables)


_Key = tuple[str, str]  # cell key, metric name
_Found = Mapping[_Key, Components | StatsError]


def _components(data: RunData, sections: tuple[Section, ...], samples: Samples) -> _Found:
    """Of every cell and metric with values: sorted once, then one pass of arrays a cell."""
    trials, measured = data.trials, data.measurements
    used = (trials.is_ok & ~trials.is_warmup)[measured.trial]
    trial, metric, value = measured.trial[used], measured.metric[used], measured.value[used]
    group = trials.cell[trial] * len(data.run.metrics) + metric
    wanted = {(row.cell.key, s.metric.name) for s in sections for p in s.points for row in p.rows}
    found: dict[_Key, Components | StatsError] = {}
    for name, part in groups(group):
        cell, number = divmod(name, len(data.run.metrics))
        key = data.run.cells[cell].key, data.run.metrics[number].name
        if key in wanted:
            try:
                sampled = _sampled(trials.id[trial[part]], trials.block[trial[part]], key[1], samples)
                found[key] = components(*sampled) if sampled else components(value[part], trials.block[trial[part]])
            except StatsError as error:
                found[key] = error
    return found


def _sampled(
    trials: NDArray[np.int64], blocks: NDArray[np.int64], metric: str, samples: Samples
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]] | None:
    """(values, block of each, trial of each) within these trials; None unless every one of them has samples."""
    inside = [samples.get(trial, {}).get(metric, ()) for trial in trials.tolist()]
    if not all(inside):
        return None
    sizes = [len(values) for values in inside]
    return np.concatenate([np.asarray(v, np.float64) for v in inside]), blocks.repeat(sizes), trials.repeat(sizes)


def _cell(
    row: Row, base: Row | None, section: Section, found: _Found, costs: Mapping[str, Cost], analysis: Analysis
) -> CellVariance:
    parts = found.get((row.cell.key, section.metric.name))
    if row.summary is None or parts is None:
        return CellVariance(row, reason=row.reason)
    result = CellVariance(row, trials=row.summary.n / max(1, row.blocks.size))
    try:
        result = replace(
            result,
            drift=find_drift(row.block_means, row.blocks, analysis.rule.confidence),
        )
    except StatsError as error:
        result = replace(result, reason=error.note)
    if isinstance(parts, StatsError):
        return replace(result, reason=parts.note)
    result = _shared(result, parts)
    if row is base:
        return result
    other = found.get((base.cell.key, section.metric.name)) if base else None
    if row.ratio is None or not isinstance(other, Components) or base is None:
        return replace(result, reason=row.reason or Note("no-baseline-here"))
    return _planned(result, (parts, other), (costs.get(row.cell.key), costs.get(base.cell.key)), analysis)


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
    """What the ratio's precision took, and the cheapest plan for the precision the study asks for."""
    ratio, rule = cell.row.ratio, analysis.rule
    assert ratio is not None
    if costs[0] is None or costs[1] is None:
        return replace(cell, reason=Note("unknown-duration"))
    cost = Cost(costs[0].block_s + costs[1].block_s, costs[0].trial_s + costs[1].trial_s)
    made = replace(cell, cost=cost, time_s=ratio.n_blocks * (cost.block_s + cell.trials * cost.trial_s))
    if ratio.n_blocks < 2:
        return replace(made, reason=Note("one-block-no-plan"))
    made = replace(made, half_width=ratio.half_width)
    joint = of_ratio(ratio.se_log**2 * ratio.n_blocks, ratio.n_blocks, sides)
    made = replace(made, noise=joint)
    fewest = MINIMUM_BLOCKS if rule.is_counted else rule.looks[0] if rule.stop == "verdict" else rule.min_blocks
    try:
        best = plan(
            joint, cost.block_s, cost.trial_s, rule.precision, partial(interval_confidence, rule),
            settled=rule.looks[1] if rule.stop == "verdict" else 0, min_blocks=fewest,
            noise_confidence=rule.confidence,
        )  # fmt: skip
    except StatsError as error:
        return replace(made, reason=error.note)
    return replace(made, plan=best, warnings=(*made.warnings, *best.warnings))


def _adjusted(tables: list[VarianceTable]) -> tuple[VarianceTable, ...]:
    """The tables with the p-values of drift adjusted over all their cells."""
    tested = [cell for table in tables for _, cells in table.points for cell in cells if cell.drift]
    p_values = iter(holm([cell.drift.p_value for cell in tested if cell.drift]).tolist()) if tested else iter(())

    def adjusted(cell: CellVariance) -> CellVariance:
        return replace(cell, drift_p=next(p_values)) if cell.drift else cell

    return tuple(
        VarianceTable(t.section, tuple((name, tuple(adjusted(c) for c in cells)) for name, cells in t.points))
        for t in tables
    )


def shown(tables: tuple[VarianceTable, ...], only: Filter) -> tuple[VarianceTable, ...]:
    """What a filter shows of the tables."""
    kept = (
        (table, [(point, tuple(c for c in cells if only.shows(c.row.cell))) for point, cells in table.points])
        for table in tables
    )
    found = [
        VarianceTable(table.section, tuple(each for each in points if each[1]))
        for table, points in kept
        if any(cells for _, cells in points)
    ]
    return tuple(found)


@dataclass(frozen=True)
class Hardest:
    """The contrast whose plan takes the most time. unsure: the least sure plan of few blocks, and where; or None."""

    where: Place
    plan: Replication
    unsure: tuple[Place, Replication] | None = None


def hardest(tables: tuple[VarianceTable, ...]) -> Hardest | None:
    """The plan that takes the most time, of several the least sure one; None without any plan."""
    plans = [(cell.row, where, cell.plan) for where, cell in places(tables) if cell.plan]
    if not plans:
        return None
    _, where, plan = max(plans, key=lambda each: (each[2].time_s, _most(each[2])))
    few = [(at, p) for row, at, p in plans if row.ratio and row.ratio.n_blocks < MINIMUM_BLOCKS]
    unsure = [(at, p) for at, p in few if _most(p) > 4 * p.blocks]  # of five blocks the noise may ask for 8 times
    return Hardest(where, plan, max(unsure, key=lambda each: _most(each[1]), default=None))


def _most(plan: Replication) -> int:
    return plan.blocks_high or MAX_BLOCKS


def drifting(tables: tuple[VarianceTable, ...], alpha: float) -> list[tuple[Place, CellVariance]]:
    """(place, cell) of every cell whose figures drift significantly."""
    return [(where, cell) for where, cell in places(tables) if cell.drift and cell.drift_p <= alpha]


def places(tables: tuple[VarianceTable, ...]) -> Iterator[tuple[Place, CellVariance]]:
    """Every cell with where it is."""
    for table in tables:
        for point, cells in table.points:
            for cell in cells:
                yield place_of(table.section, point, cell.row), cell
