"""Mechanisms in both orders: what each costs when it is added to the ground first, and left out of the platform last.

Both steps of all points of a metric are one family (Holm, see `stats.judge`). The last divided by the first, which is 1
where a mechanism costs the same whatever is beside it, is summed up in every block that has all four sides, at the
level of as many such ratios as the metric has (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.pairing import align
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section
from vtax.report.answers.ladder.compute import LadderStep, judged_steps
from vtax.stats.ladder import together
from vtax.stats.ratio import Ratio


@dataclass(frozen=True)
class BothOrders(OfSection):
    """A mechanism in both orders, at one point of a metric. taking: what else is left out with it last."""

    section: Section
    point: ResultPoint
    mechanism: Annotated[str, Means("what is added and left out")]
    whole: Annotated[Row, Means("the platform that has it", name="of", take="platform.name")]
    first: Annotated[LadderStep | None, Means("added to the ground first; null where it cannot be")]
    last: Annotated[
        LadderStep | None, Means("left out of the platform last; null where it cannot be")
    ]
    taking: Annotated[str, Means("what else is left out with it last")]
    interaction: Annotated[
        Ratio | None,
        Means("ratio of the last step divided by that of the first; null without both"),
    ]

    @property
    def levels(self) -> Annotated[Mapping[str, object], Means("levels of the point")]:
        """The levels of its point."""
        return self.point.levels


def both_orders(analysis: Analysis) -> tuple[BothOrders, ...]:
    """Return mechanisms in both orders, in the order of the answers: speed, then the CPU time of the host."""
    tables = analysis.declared.get("both_orders") or []
    orders: list[BothOrders] = []
    for section in analysis.answered if tables else ():
        orders += _of_section(section, tables, analysis)
    return tuple(orders)


def _of_section(
    section: Section, tables: Sequence[Mapping[str, str]], analysis: Analysis
) -> Iterator[BothOrders]:
    steps: dict[str, LadderStep] = {}
    places: list[tuple[str, ResultPoint, Mapping[str, str], Row]] = []
    for point in section.points:
        rows = point.measured_rows
        whole_row, ground = (rows.get(name) for name in (tables[0]["whole"], analysis.baseline))
        if whole_row is None or ground is None:
            continue
        for order in tables:
            key = f"{point.key} {order['mechanism']}"
            places.append((key, point, order, whole_row))
            adds = (order["mechanism"],)
            if order["alone"] in rows:
                steps[f"{key} first"] = LadderStep(rows[order["alone"]], ground, adds)
            if order["without"] in rows:
                steps[f"{key} last"] = LadderStep(whole_row, rows[order["without"]], adds)
    steps_by_key, _ = judged_steps(steps, section, analysis)
    pairs = {
        key: (steps_by_key.get(f"{key} first"), steps_by_key.get(f"{key} last"))
        for key, *_ in places
    }
    family = sum(None not in pair for pair in pairs.values())
    for key, point, order, whole_row in places:
        first, last_step = pairs[key]
        interaction = _interaction(first, last_step, analysis, family)
        yield BothOrders(
            section,
            point,
            order["mechanism"],
            whole_row,
            first,
            last_step,
            order["taking"],
            interaction,
        )


def _interaction(
    first_step: LadderStep | None, last_step: LadderStep | None, analysis: Analysis, family: int
) -> Ratio | None:
    """Return the last step divided by the first; None without both, and of fewer than two blocks.

    family: how many such ratios the metric has.
    """
    if first_step is None or last_step is None:
        return None
    rows = (last_step.row, last_step.below, first_step.row, first_step.below)
    _, (row, below, row_alone, ground) = align([side.means_of_blocks for side in rows])
    return together(np.array([row - below, ground - row_alone]), analysis.rule.confidence, family)
