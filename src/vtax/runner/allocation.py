"""How many trials of every cell a block holds, where a study says `trials = "auto"`.

Chosen once, before the first block, for all cells and platforms alike: from the last stored run of the same cells on
this host, or else from a pilot, whose trials are stored and not used. The run keeps the number as if its study had
said it, and a warning says what it was chosen from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vtax.runner.estimates import stored_runs
from vtax.runner.plan import Cell, Plan
from vtax.stats.checks import Array, StatsError
from vtax.stats.planning import Allocation, allocate, of_ratio
from vtax.stats.stopping import interval_confidence, rule_of
from vtax.stats.variance import Components, components
from vtax.store.costs import costs
from vtax.store.query import RunData
from vtax.store.store import Store
from vtax.study.units import format_count, format_duration

PILOT_BLOCKS = (-5, -6, -7)
PILOT_TRIALS = 3
_FEWEST_BLOCKS = 3


@dataclass(frozen=True)
class Choice:
    """A number of trials. source: `run NAME` or `a pilot`. widest: the contrast that it was chosen by."""

    trials: int
    source: str
    allocation: Allocation | None = None
    widest: str = ""

    def __str__(self) -> str:
        """One sentence: what was chosen, from what."""
        chosen = f"{format_count(self.trials, 'trial')} of every cell in a block, chosen from {self.source}"
        found = self.allocation
        if found is None:
            return f"{chosen}, which shows no noise between trials"
        reason = (
            f"{chosen}: a block costs {format_duration(found.start_s)} to start and "
            f"{format_duration(found.trial_s)} per trial of every cell; {self.widest} varies by "
            f"{100 * found.between:.2g} % between blocks and {100 * found.within:.2g} % between trials"
        )
        if self.trials == 1:
            return reason
        return f"{reason}; {max(0.0, 100 * found.time_saved):.0f} % less time than with one trial in a block"


def from_stored(plan: Plan, store: Store) -> Choice | None:
    """A choice from the newest stored run of this host that has the plan's cells and enough blocks and trials.

    None where there is none. Stored runs: see `stored_runs`.
    """
    for name, data in stored_runs(plan, store):
        if (choice := chosen(plan, data, f"run {name}")) and choice.allocation:
            return choice
    return None


def chosen(plan: Plan, data: RunData, source: str, warmup: Mapping[str, int] | None = None) -> Choice:
    """The choice by what a run measured in its blocks and its pilot.

    warmup: point key -> trials of a guest to leave out; what the run marked in its blocks where it is not given.
    """
    rule = rule_of(plan.study.design.model_dump(exclude={"trials"}))
    names, noises = [], []
    for name, noise in _noises(plan, data, warmup):
        names.append(name)
        noises.append(noise)
    cost = costs(data, own_time=True)
    known = [cost[cell.key] for cell in plan.cells if cell.key in cost]
    target = rule.precision if rule.stop == "precision" else None
    try:
        found = allocate(
            noises,
            sum(each.block_s for each in known),
            sum(each.trial_s for each in known),
            half_width=target,
            confidence=interval_confidence(rule, rule.min_blocks),
            blocks=rule.min_blocks,
        )
    except StatsError:
        return Choice(1, source)
    return Choice(found.trials, source, found, names[found.widest])


def with_trials(plan: Plan, store: Store) -> Plan:
    """The plan as if its study had said a number where it says "auto" and a stored run allows to choose it."""
    choice = from_stored(plan, store) if plan.study.design.trials == "auto" else None
    if choice is None:
        return plan
    design = plan.study.design.model_copy(update={"trials": choice.trials})
    return replace(plan, study=plan.study.model_copy(update={"design": design}), trials_chosen=str(choice))


def _noises(plan: Plan, data: RunData, warmup: Mapping[str, int] | None) -> Iterator[tuple[str, Components]]:
    """(name, noise) of every contrast of a primary metric; of a single platform, of its cells."""
    values = _values(plan, data, warmup)
    is_alone = len({cell.platform.name for cell in plan.cells}) == 1
    bases = {cell.point.key: cell for cell in plan.cells if cell.platform.name == plan.study.baseline}
    for cell in plan.cells:
        base = bases[cell.point.key]
        if cell is base and not is_alone:
            continue
        for metric in cell.point.own_metrics:
            sides = [values.get((side.key, metric.name), {}) for side in (cell, base)]
            blocks = sorted(sides[0].keys() & sides[1].keys())
            if metric.primary and len(blocks) >= _FEWEST_BLOCKS:
                try:
                    yield _name(cell, metric.name, plan), _noise([_series(s, blocks) for s in sides], is_alone)
                except StatsError:
                    continue  # a mean of zero has no relative noise


def _name(cell: Cell, metric: str, plan: Plan) -> str:
    of_several = "" if sum(m.primary for m in cell.point.own_metrics) == 1 else f" {metric}"
    levels = " ".join(f"{name}={level}" for name, level in cell.point.levels.items())
    point = f"{cell.point.label}{of_several}" + (f" {levels}" if levels else "")
    return point if cell.platform.name == plan.study.baseline else f"{point} on {cell.platform.name}"


def _noise(sides: list[tuple[Array, Array]], is_alone: bool) -> Components:
    """The noise of a contrast. sides: (values, block of each) of treatment and baseline."""
    parts = [components(values, blocks) for values, blocks in sides]
    if is_alone:
        return parts[0]
    means = [np.array([values[blocks == b].mean() for b in np.unique(blocks)]) for values, blocks in sides]
    if any((each <= 0).any() for each in means):
        raise StatsError("no ratio of what is zero or negative")
    logs = np.log(means[0]) - np.log(means[1])
    return of_ratio(float(logs.var(ddof=1)), logs.size, (parts[0], parts[1]))


def _series(of_blocks: Mapping[int, list[float]], blocks: list[int]) -> tuple[Array, Array]:
    values = [value for block in blocks for value in of_blocks[block]]
    labels = [block for block in blocks for _ in of_blocks[block]]
    return np.array(values, dtype=np.float64), np.array(labels, dtype=np.float64)


def _values(
    plan: Plan, data: RunData, warmup: Mapping[str, int] | None
) -> dict[tuple[str, str], dict[int, list[float]]]:
    """(cell key, metric) -> block -> values of steady trials, of the blocks and of the pilot."""
    trials, measured = data.trials, data.measurements
    points = {cell.key: cell.point.key for cell in plan.cells}
    left_out: dict[str, int] = {}
    for index, cell in enumerate(data.run.cells):
        if warmup is not None:
            left_out[cell.key] = warmup.get(points.get(cell.key, ""), 0)
        else:
            marked = trials.number[(trials.cell == index) & trials.is_warmup & (trials.block >= 0)]
            left_out[cell.key] = int(marked.max()) + 1 if marked.size else 0
    is_pilot = np.isin(trials.block, PILOT_BLOCKS)
    used = trials.is_ok & (is_pilot | ((trials.block >= 0) & ~trials.is_warmup))
    found: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, metric, value in zip(measured.trial, measured.metric, measured.value, strict=True):
        key = data.run.cells[trials.cell[trial]].key
        if used[trial] and key in points and trials.number[trial] >= left_out[key]:
            found[key, data.run.metrics[metric].name][int(trials.block[trial])].append(float(value))
    return found
