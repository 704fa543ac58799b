"""Ladders: what several steps cost together: the undecided ones, or one in its place less the same alone."""

from __future__ import annotations

import numpy as np

from vtax.stats.checks import Array
from vtax.stats.ratio import Ratio, ratio_of_logs


def together(steps: Array, confidence: float, family: int) -> Ratio | None:
    """Return the ratio of all steps together; None of fewer than two blocks.

    Which steps these are was chosen by the same blocks, so that the interval holds at the level of the family divided
    by the number of its steps (Bonferroni); `bench/statistics/ladder.py` counts how often it does not.

    steps: a line for each, of its log-ratio in every block; NaN where it has none.
    confidence: of one interval.
    family: steps that were judged together.
    """
    logs = steps.sum(axis=0)
    known_logs = logs[~np.isnan(logs)]
    if known_logs.size < 2:
        return None
    return ratio_of_logs(known_logs, 1 - (1 - confidence) / max(family, 1))
