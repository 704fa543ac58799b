"""Warns when the figures of a run drift: a cheap look at every cell, and the full test only where there is cause."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from vtax.report import document as doc
from vtax.report.analysis.warnings import Given, merged
from vtax.report.document import msg
from vtax.stats.checks import StatsError
from vtax.stats.steadiness import find_drift
from vtax.stats.verdict import holm

Series = tuple[doc.WarnedPlace, NDArray[np.int64] | NDArray[np.float64], NDArray[np.float64]]
_MOST = 1000  # values of which every pair is looked at


def drift_warnings(
    series: Sequence[Series],
    confidence: float,
    places: Container[doc.WarnedPlace] | None = None,
    *,
    sessions: int = 1,
) -> tuple[doc.Warning, ...]:
    """Return one warning about all cells whose block means drift significantly over the run, Holm-adjusted.

    series: (place, blocks, block means) of every cell that is judged. places: those that the warning
    names, None for all; the others count in the family all the same. Nothing when no cell drifts.
    sessions: of the run; the test is of its blocks, whatever their session.
    """
    alpha = 1 - confidence
    series = [(place, *_thinned(blocks, means)) for place, blocks, means in series]
    first_step = -float(special.ndtri(alpha / 2 / max(1, len(series))))
    suspects = [
        suspect for suspect in series if _trend(suspect[2]) >= caution(suspect[2].size) * first_step
    ]
    if not suspects:
        return ()
    drifts = []
    for place, blocks, means in suspects:
        try:
            drifts.append((place, find_drift(means, blocks, confidence)))
        except StatsError:
            continue  # a mean of zero has no relative drift, and says so where it is shown
    unsuspected = [1.0] * (len(series) - len(drifts))  # they count in the family all the same
    adjusted = holm([*(drift.p_value for _, drift in drifts), *unsuspected]).tolist()[: len(drifts)]
    drifting_cells = [
        (place, drift, p) for (place, drift), p in zip(drifts, adjusted, strict=True) if p <= alpha
    ]
    drifting_cells = [cell for cell in drifting_cells if places is None or cell[0] in places]
    if not drifting_cells:
        return ()
    changes = [drift.change for _, drift, _ in drifting_cells]
    cause = msg("a trend or slow wander")
    if sessions != 1:
        cause = msg(
            "a trend, slow wander, or sessions that differ, which this test of blocks does not tell apart"
        )
    shared: dict[str, doc.Inline] = {
        "p": doc.PValue(max(p for _, _, p in drifting_cells), is_named=True),
        "cause": cause,
    }
    low, high = (doc.Share(change, "signed decimal") for change in (min(changes), max(changes)))
    if len(changes) == 1:
        statement = Given("drift", {"change": low, **shared})
    elif f"{low.value:.3f}" == f"{high.value:.3f}":
        statement = Given(
            "drift-of-cells", {"cells": doc.Count(len(changes)), "change": low, **shared}
        )
    else:
        statement = Given(
            "drift-of-cells-between",
            {"cells": doc.Count(len(changes)), "low": low, "high": high, **shared},
        )
    (warning,) = merged([statement])
    return (replace(warning, places=tuple(place for place, _, _ in drifting_cells)),)


def caution(blocks: int) -> float:
    """Return the part of the normal quantile below which the exact test of Kendall's tau finds nothing in so many
    blocks."""
    return 0.9 if blocks >= 20 else 0.75


def _thinned(
    blocks: NDArray[np.int64] | NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.float64]]:
    """Means of neighbours in place of more than _MOST blocks: the time and memory of a trend grow by the square."""
    at_once = -(-means.size // _MOST)
    if at_once <= 1:
        return blocks, means
    starts = np.arange(0, means.size, at_once)
    counts = np.diff(np.append(starts, means.size))
    return np.add.reduceat(blocks, starts) / counts, np.add.reduceat(means, starts) / counts


def _trend(values: NDArray[np.float64]) -> float:
    """Absolute value of Mann-Kendall's z (Kendall 1975, with ties); 0 for fewer than 4 values or equal ones."""
    n = values.size
    ties = np.unique(values, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - int((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if n < 4 or variance <= 0:
        return 0.0
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)].sum())
    return abs(score) / math.sqrt(variance)
