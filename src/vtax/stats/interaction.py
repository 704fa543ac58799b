"""Does a factor change the overhead? Platform x factor interaction from differences within blocks.

One paired t-test for each platform and level, of which the smallest counts, times their number. Each has a variance
of its own, so it holds where one platform is noisier than the others, as emulated ones are. A linear mixed model
gives all platforms one variance; its F-test was wrong there in 7 to 19 % of simulated runs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.checks import StatsError, Values, as_array, check_positive
from vtax.stats.ratio import ratio_of_logs

Labels = Sequence[Hashable] | npt.NDArray[Any]
Cell = tuple[str, str]  # platform, level


@dataclass(frozen=True)
class Term:
    """One row of the table: ratio to the reference cell's (first platform, first level), interval and p-value.

    For an interaction the ratio says how many times the platform's ratio to the first platform is larger at this
    level than at the first level. p_value: nan of fewer than two blocks.
    """

    platform: str
    level: str
    kind: str  # platform | factor | interaction
    ratio: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Interaction:
    """p_value: of no platform's ratio changing with the factor: the smallest of the tests, times their number."""

    table: tuple[Term, ...]
    p_value: float
    confidence: float
    warnings: tuple[str, ...]


def interaction(
    values: Values, platforms: Labels, levels: Labels, blocks: Labels, confidence: float = 0.95
) -> Interaction:
    """Table and test of the platform x factor interaction.

    values: positive block averages, one per platform, level and block; NaN and missing cells are left out with a
    warning. The first platform and the first level that appear are the references. Raises StatsError with fewer than
    two platforms, levels or blocks, an empty cell, values that are not positive, or a term without noise.
    """
    y = as_array(values)
    check_positive(y, "values")
    columns = [np.asarray(labels, dtype=str) for labels in (platforms, levels, blocks)]
    if any(column.shape != y.shape for column in columns):
        raise StatsError("platforms, levels and blocks must have one label for each value")
    names = [list(dict.fromkeys(column.tolist())) for column in columns]
    if min(map(len, names)) < 2:
        raise StatsError(Note("interaction-needs-two"))
    logs: dict[Cell, dict[str, float]] = {}
    for platform, level, block, value in zip(*(column.tolist() for column in columns), y.tolist(), strict=True):
        if not math.isnan(value):
            logs.setdefault((platform, level), {})[block] = math.log(value)
    if len(logs) < len(names[0]) * len(names[1]):
        raise StatsError(Note("missing-level"))
    there, total = sum(map(len, logs.values())), math.prod(map(len, names))
    notes = () if there == total else (Note("incomplete-design", there=there, total=total),)
    table = tuple(_term(kind, cell, weights, logs, confidence) for kind, cell, weights in _terms(names[0], names[1]))
    tests = [term.p_value for term in table if term.kind == "interaction"]
    p_value = math.nan if any(map(math.isnan, tests)) else min(1.0, min(tests) * len(tests))
    return Interaction(table, p_value, confidence, notes)


def _terms(platforms: Sequence[str], levels: Sequence[str]) -> list[tuple[str, Cell, dict[Cell, int]]]:
    """(kind, cell, the weight of each cell's logarithm in it) of every row of the table."""
    first = platforms[0], levels[0]
    found: list[tuple[str, Cell, dict[Cell, int]]] = []
    found += [("platform", (p, first[1]), {(p, first[1]): 1, first: -1}) for p in platforms[1:]]
    found += [("factor", (first[0], q), {(first[0], q): 1, first: -1}) for q in levels[1:]]
    found += [
        ("interaction", (p, q), {(p, q): 1, (first[0], q): -1, (p, first[1]): -1, first: 1})
        for p in platforms[1:]
        for q in levels[1:]
    ]
    return found


def _term(
    kind: str, cell: Cell, weights: Mapping[Cell, int], logs: Mapping[Cell, Mapping[str, float]], confidence: float
) -> Term:
    """The term by Student's t over the blocks that hold all cells of it."""
    shared = set.intersection(*(set(logs[each]) for each in weights))
    if len(shared) < 2:
        return Term(*cell, kind, 0.0, 0.0, math.inf, math.nan)
    ratio = ratio_of_logs([sum(w * logs[each][b] for each, w in weights.items()) for b in sorted(shared)], confidence)
    if kind == "interaction" and ratio.se_log == 0.0:
        raise StatsError(Note("no-noise"))
    return Term(*cell, kind, ratio.estimate, ratio.low, ratio.high, ratio.p_value)
