"""Start times of guests by stages: quantiles over every start of a run, for each platform and point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from vtax.benchmarks.registry import benchmarks
from vtax.described import Means, Only
from vtax.stats.intervals import Interval
from vtax.stats.quantiles import fewest_values, quantile_interval, ratio_of_quantiles
from vtax.store.query import RunData
from vtax.store.records import CellRecord

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
LARGEST = QUANTILES["p99"]


@dataclass(frozen=True)
class StageTimes:
    """Seconds from the request for a guest to one of its stages."""

    cell: Annotated[CellRecord, Only("label", "levels", "platform")]
    stage: Annotated[str, Means("stage")]
    starts: Annotated[int, Means("starts")]
    blocks: Annotated[int, Means("blocks")]
    quantiles: Annotated[Mapping[str, Interval], Means("`p50`, `p95`, `p99`: quantile of all starts", "s")]
    ratios: Annotated[
        Mapping[str, Interval], Means("the same as ratios to the baseline at this point and stage; empty for itself")
    ] = field(default_factory=dict)

    @property
    def levels(self) -> Mapping[str, Any]:
        """Levels of the point, by factor."""
        return self.cell.levels


def stage_times(
    data: RunData, samples: Mapping[int, Mapping[str, Sequence[float]]], confidence: float
) -> list[StageTimes]:
    """Return every stage of every cell whose trials start guests: points and platforms in the study's order.

    samples: see store.query.samples. Warm-up trials and failed ones are left out.
    """
    trials = data.trials
    counted = trials.is_ok & ~trials.is_warmup
    points = list(dict.fromkeys(cell.point for cell in data.run.cells))
    order = sorted(range(len(data.run.cells)), key=lambda index: (points.index(data.run.cells[index].point), index))
    found: list[StageTimes] = []
    for index in order:
        cell = data.run.cells[index]
        benchmark = benchmarks().get(cell.benchmark)
        if benchmark is None:
            continue
        chosen = np.flatnonzero(counted & (trials.cell == index))
        for stage in benchmark.stages:
            times = [list(samples.get(int(trials.id[trial]), {}).get(stage, ())) for trial in chosen]
            blocks = np.repeat(trials.block[chosen], [len(each) for each in times])
            if values := [value for each in times for value in each]:
                quantiles = {n: quantile_interval(values, blocks, p, confidence) for n, p in QUANTILES.items()}
                found.append(StageTimes(cell, stage, len(values), np.unique(blocks).size, quantiles))
    baseline = next((platform.name for platform in data.run.platforms if platform.is_baseline), "")
    base = {(each.cell.point, each.stage): each.quantiles for each in found if each.cell.platform == baseline}
    return [
        replace(each, ratios={name: ratio_of_quantiles(each.quantiles[name], to[name]) for name in QUANTILES})
        if each.cell.platform != baseline and (to := base.get((each.cell.point, each.stage)))
        else each
        for each in found
    ]


def fewest_starts(confidence: float) -> int:
    """Return the fewest starts whose largest quantile has an upper bound."""
    return fewest_values(LARGEST, confidence)
