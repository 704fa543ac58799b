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
    declared = analysis.declared.get("both_orders") or []
    orders: list[BothOrders] = []
    for section in analysis.answered if declared else ():
        orders += _of_section(section, declared, analysis)
    return tuple(orders)


def _of_section(
    section: Section, declared: Sequence[Mapping[str, str]], analysis: Analysis
) -> Iterator[BothOrders]:
    steps: dict[str, LadderStep] = {}
    places: list[tuple[str, ResultPoint, Mapping[str, str], Row]] = []
    for point in section.points:
        rows = {row.platform.name: row for row in point.rows if row.summary is not None}
        whole, ground = (rows.get(name) for name in (declared[0]["whole"], analysis.baseline))
        if whole is None or ground is None:
            continue
        for order in declared:
            key = f"{point.key} {order['mechanism']}"
            places.append((key, point, order, whole))
            adds = (order["mechanism"],)
            if order["alone"] in rows:
                steps[f"{key} first"] = LadderStep(rows[order["alone"]], ground, adds)
            if order["without"] in rows:
                steps[f"{key} last"] = LadderStep(whole, rows[order["without"]], adds)
    judged, _ = judged_steps(steps, section, analysis)
    pairs = {key: (judged.get(f"{key} first"), judged.get(f"{key} last")) for key, *_ in places}
    family = sum(None not in pair for pair in pairs.values())
    for key, point, order, whole in places:
        first, last = pairs[key]
        interaction = _interaction(first, last, analysis, family)
        yield BothOrders(
            section, point, order["mechanism"], whole, first, last, order["taking"], interaction
        )


def _interaction(
    first: LadderStep | None, last: LadderStep | None, analysis: Analysis, family: int
) -> Ratio | None:
    """Return the last step divided by the first; None without both, and of fewer than two blocks.

    family: how many such ratios the metric has.
    """
    if first is None or last is None:
        return None
    rows = (last.row, last.below, first.row, first.below)
    _, (row, below, alone, ground) = align([each.means_of_blocks for each in rows])
    return together(np.array([row - below, ground - alone]), analysis.rule.confidence, family)
