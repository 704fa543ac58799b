"""Warns when the figures of a run drift: a cheap look at every cell, and the full test only where there is cause."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from vtax.report.remarks import Remark
from vtax.stats.checks import StatsError
from vtax.stats.verdict import holm, p_text
from vtax.study.units import format_percent

Series = tuple[str, NDArray[np.int64], NDArray[np.float64]]


def drift_remarks(series: Sequence[Series], confidence: float) -> tuple[Remark, ...]:
    """One remark about all cells whose block means drift significantly over the run, Holm-adjusted over the cells.

    series: (place, blocks, block means) of every cell that is judged. Nothing when no cell drifts.
    """
    alpha = 1 - confidence
    first_step = -float(special.ndtri(alpha / 2 / max(1, len(series))))
    suspects = [each for each in series if _trend(each[2]) >= caution(each[2].size) * first_step]
    if not suspects:
        return ()
    from vtax.stats.steadiness import find_drift  # the test needs what takes a second to import

    found = []
    for place, blocks, means in suspects:
        try:
            found.append((place, find_drift(means, blocks, confidence)))
        except StatsError:
            continue  # a mean of zero has no relative drift, and says so where it is shown
    unsuspected = [1.0] * (len(series) - len(found))  # they count in the family all the same
    adjusted = holm([*(drift.p_value for _, drift in found), *unsuspected]).tolist()[: len(found)]
    drifting = [(place, drift, p) for (place, drift), p in zip(found, adjusted, strict=True) if p <= alpha]
    if not drifting:
        return ()
    said = _told([drift.change for _, drift, _ in drifting], max(p for _, _, p in drifting))
    return (Remark("drift", (said,), tuple(place for place, _, _ in drifting), 1),)


def _told(changes: Sequence[float], p: float) -> str:
    """changes: of every cell that drifts. p: the largest."""
    least, most = (
        format_percent(each, "+.1f").replace("-", "\N{MINUS SIGN}") for each in (min(changes), max(changes))
    )
    whose = f"the figures of {len(changes)} cells drift" if len(changes) > 1 else "the figures drift"
    size = f"by {least}" if least == most else f"by between {least} and {most}"
    return f"{whose} over the run {size} ({p_text(p)})"


def caution(blocks: int) -> float:
    """The part of the normal quantile below which the exact test of Kendall's tau finds nothing in so many blocks."""
    return 0.9 if blocks >= 20 else 0.75


def _trend(values: NDArray[np.float64]) -> float:
    """Absolute value of Mann-Kendall's z (Kendall 1975, with ties); 0 for fewer than 4 values or equal ones."""
    n = values.size
    ties = np.unique(values, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - int((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if n < 4 or variance <= 0:
        return 0.0
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)].sum())
    return abs(score) / math.sqrt(variance)
