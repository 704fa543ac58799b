"""Whether a run has enough blocks: collects values as trials end and asks the study's declared rule.

Judged on whole blocks only, on the primary metrics of every cell against the same point on the baseline. Once the
fewest blocks are made, a rule that looks at figures spends time only where its target is still missed: further blocks
hold the cells of those contrasts and the baseline's they are compared with.
Verdicts fall in the families of the result: one metric of one benchmark table each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from vtax.benchmarks.base import Metric, Outcome, is_timed
from vtax.errors import BadInput
from vtax.runner.host_sessions import rule_in
from vtax.runner.plan import Plan, PlannedCell
from vtax.runner.points import Point
from vtax.stats.checks import StatsError
from vtax.stats.contrasts import ContrastSide, paired_contrast
from vtax.stats.judge import (
    Comparison,
    Contrast,
    analyse_families,
    chance_of_word,
    missed_of,
)
from vtax.stats.means import average_of, average_with
from vtax.stats.ratio import BlockMeans, block_contrast
from vtax.stats.resolution import Figures, Resolution, resolutions_of
from vtax.stats.rules import Decision
from vtax.stats.stopping import decide, within_budget, within_reach
from vtax.stats.terms import is_rate, is_time


class Stopping:
    """The values of a run so far, and the decision after each block.

    already: stored values (cell key, block, metric, value, smallest step) of a resumed run.
    session: the number of the one that is made, whose end the rule decides.
    wrong_clocks: keys of cells of which a trial had a clock of a wrong rate.
    """

    def __init__(
        self,
        plan: Plan,
        already: Iterable[tuple[str, int, str, float, float]],
        session: int = 1,
        wrong_clocks: Iterable[str] = (),
    ) -> None:
        try:
            self._rule = rule_in(plan.study.design, session)
        except StatsError as error:
            raise BadInput(str(error), where="[design]") from error
        self._plan = plan
        self._session = session
        self._margins = {}
        for cell in plan.cells:
            margin = plan.study.margin_of(cell.point.label)
            for own in cell.point.own_metrics:
                self._margins[self._family(cell.point, own)] = margin
        self._wrong_clocks = set(wrong_clocks)
        self._is_alone = len({cell.platform.name for cell in plan.cells}) == 1
        self._keys: dict[str, list[str]] = defaultdict(list)
        for cell in plan.cells:
            self._keys[cell.point.key].append(cell.key)
        self._values: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._steps: dict[tuple[str, str], list[float]] = defaultdict(list)
        for key, block, metric, value, step in already:
            self._values[key, metric][block].append(value)
            self._steps[key, metric].append(step)

    @property
    def max_blocks(self) -> int:
        """The number of blocks up to the end of the session when no rule ends it earlier."""
        return self._rule.most_blocks

    @property
    def budget_s(self) -> float | None:
        """The time up to the end of the session; None without a budget."""
        return self._rule.budget_s

    def add(self, cell: PlannedCell, block: int, outcome: Outcome) -> None:
        """Add the values of a successful trial."""
        for metric in cell.point.own_metrics:
            if metric.primary and metric.name in outcome.values:
                self._values[cell.key, metric.name][block].append(outcome.values[metric.name])
                self._steps[cell.key, metric.name].append(outcome.resolutions.get(metric.name, 0.0))

    def distrust_clock(self, cell: PlannedCell) -> None:
        """Judge a cell as one of which a trial had a guest's clock of a wrong rate."""
        self._wrong_clocks.add(cell.key)

    def decide(self, blocks: int, elapsed_s: float, done: frozenset[str] = frozenset()) -> Decision:
        """Return whether to stop after that many whole blocks.

        elapsed_s: spent on the run so far.
        done: keys of cells of the next block that an interrupted run has done; they need no budget.
        """
        families = {}
        for cell, metric in self._judged():
            families[self._name(cell, metric)] = self._family(cell.point, metric)
        contrasts = self._contrasts(blocks)

        answers: dict[str, Comparison | StatsError] = {}

        def missed_by(names: Iterable[str]) -> Mapping[str, bool]:
            members = {name: contrasts[name] for name in names}
            answers.update(analyse_families(self._rule, members, families, self._margins))
            return missed_of(self._rule, answers)

        logs = {name: contrast.logs for name, contrast in contrasts.items()}
        is_plain = self._is_alone or self._session > 1  # of a single platform: of means
        goal = decide(self._rule, logs, blocks, families, None if is_plain else missed_by)
        if not self.pending(goal) - done:
            return goal
        cell_s = self._cell_s(elapsed_s)
        more = self._affordable(blocks, elapsed_s, cell_s * len(self.pending(goal)))
        if more:
            chances = {}
            for name, answer in answers.items():
                if isinstance(answer, Comparison) and name in goal.open:
                    better = contrasts[name].better
                    chances[name] = chance_of_word(self._rule, answer, better, more)
            goal = within_reach(goal, chances)
        block_s = cell_s * len(self.pending(goal) - done)
        return within_budget(self._rule, goal, blocks, elapsed_s, block_s)

    def _cell_s(self, elapsed_s: float) -> float:
        """Return the mean time of a cell in a block so far; an estimate before the first."""
        made: set[tuple[str, int]] = set()
        for (key, _), values in self._values.items():
            made.update((key, block) for block in values)
        if made:
            return elapsed_s / len(made)
        return self._plan.expected_block_s() / len(self._plan.cells)

    def _affordable(self, blocks: int, elapsed_s: float, block_s: float) -> int:
        """Return how many further blocks the time holds, where comparisons leave to others what they do not need; 0
        where none leaves for want of time."""
        rule = self._rule
        if rule.budget_s is None or not (rule.leaves_settled and rule.allows_for_looks):
            return 0
        by_time = int((rule.budget_s - elapsed_s) / block_s) if block_s > 0 else 0
        return max(0, min(by_time, rule.most_blocks - blocks))

    def pending(self, decision: Decision) -> frozenset[str]:
        """Return the keys of the cells that the next block must hold: all, until an adaptive rule has its fewest blocks."""
        if not decision.open:
            return frozenset(cell.key for cell in self._plan.cells)
        keys, points = set(), set()
        for cell, metric in self._judged():
            if self._name(cell, metric) in decision.open:
                keys.add(cell.key)
                points.add(cell.point.key)
        for cell in self._plan.cells:
            if self._is_baseline(cell) and cell.point.key in points:
                keys.add(cell.key)
        return frozenset(keys)

    def _judged(self) -> Iterator[tuple[PlannedCell, Metric]]:
        """Yield every cell and primary metric that has a contrast; of a single platform, the cells themselves."""
        for cell in self._plan.cells:
            if self._is_alone or not self._is_baseline(cell):
                for metric in self._given_metrics(cell.point):
                    yield cell, metric

    def _given_metrics(self, point: Point) -> list[Metric]:
        """Return the primary metrics that a tool gives with these parameters: those it gave somewhere, or all of them."""
        primary = [metric for metric in point.own_metrics if metric.primary]
        given = []
        for metric in primary:
            if any(self._values.get((key, metric.name)) for key in self._keys[point.key]):
                given.append(metric)
        return given or primary

    def _is_baseline(self, cell: PlannedCell) -> bool:
        return cell.platform.name == self._plan.study.baseline

    def _family(self, point: Point, metric: Metric) -> str:
        return f"{point.label} {metric.name}"

    def _name(self, cell: PlannedCell, metric: Metric) -> str:
        return f"{cell.platform.name} {cell.point.label} {cell.key} {metric.name}"

    def _contrasts(self, blocks: int) -> dict[str, Contrast]:
        """Return them without failed trials: further blocks do not decide what these withhold."""
        baseline = {cell.point.key: cell for cell in self._plan.cells if self._is_baseline(cell)}
        contrasts = {}
        for cell, metric in self._judged():
            base = baseline[cell.point.key]
            try:
                side = self._side(cell, metric, blocks)
                if cell is base:
                    contrast = Contrast(block_contrast(side.means), metric.better)
                else:
                    contrast = paired_contrast(
                        side, self._side(base, metric, blocks), metric.better
                    )
            except StatsError:  # the report refuses it too: see `decide`
                contrast = Contrast(np.full(blocks, np.inf), metric.better)
            contrasts[self._name(cell, metric)] = contrast
        return contrasts

    def _side(self, cell: PlannedCell, metric: Metric, blocks: int) -> ContrastSide:
        """Return a cell so far. Raises StatsError for a mean that is not defined."""
        average = average_with(metric.average, metric.fixed_work, cell.point.stored_parameters)
        values = self._values[cell.key, metric.name]
        made = sorted(block for block in values if block < blocks)
        means = [average_of(values[block], average) for block in made]
        is_wrong = cell.key in self._wrong_clocks and is_timed(metric.name, metric.unit)
        return ContrastSide(
            BlockMeans(np.array(made, dtype=np.int64), np.array(means)),
            clock_is_wrong=is_wrong,
            resolution=self._resolutions(cell.point, metric)[cell.key],
        )

    def _resolutions(self, point: Point, metric: Metric) -> Mapping[str, Resolution]:
        """Return how finely the figures of the cells of a point are known, by their keys."""
        cells = {}
        for key in self._keys[point.key]:
            values: list[float] = []
            for block_values in self._values[key, metric.name].values():
                values += block_values
            cells[key] = Figures(np.array(values), np.array(self._steps[key, metric.name]))
        return resolutions_of(
            cells,
            self._margins[self._family(point, metric)],
            is_time=is_time(metric.unit),
            is_rate=is_rate(metric.unit),
        )
