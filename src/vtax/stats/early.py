"""Differences beyond doubt: a comparison is decided after three blocks where its interval lies beyond a factor of two.

Three blocks are too few for a small difference, since Student's t is at the mercy of the noise's shape. A machine that
is emulated is ten times slower, though, and each of its blocks takes the time of ten others. The interval is that of
its family by Bonferroni (9.9 standard errors of two degrees of freedom for one of five), and all of it must lie beyond
the factor. A like pair gets such a word by chance only if its blocks differ by factors of two or more themselves
(bench/statistics/leaving.py); then the look costs the family at most alpha once more.

Under the rule `budget`, which looks at nothing else, the same question is asked again from five blocks on, at the
levels that hold at any look (`anytime`). Five blocks are less at the mercy of the noise's shape, so a factor of 1.5 is
enough: one of two kept an emulated machine in the run that was 2.6 times slower on a noisy disk.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy import special

from vtax.stats import anytime
from vtax.stats.checks import MINIMUM_BLOCKS, Array
from vtax.stats.terms import EARLY_BLOCKS

FACTOR = 2.0
LATER_FACTOR = 1.5  # from five blocks on


def decided_early(
    logs: Array,
    level: float,
    *,
    step: float = 0.0,
    goes_on: bool = False,
) -> Literal["above", "below"] | None:
    """Return on which side a comparison lies beyond doubt, by its first blocks; None for one that does not.

    What further blocks show does not change it.

    logs: a log-ratio per block, NaN where a block has none.
    level: one-sided, of one comparison of its family.
    step: share by which figures are known no better.
    goes_on: whether the same is asked after five blocks and every further one.
    """
    known_logs = logs[~np.isnan(logs)]
    looks = [EARLY_BLOCKS]
    if goes_on:
        looks += range(MINIMUM_BLOCKS, known_logs.size + 1)
    for blocks in looks:
        if blocks > known_logs.size:
            break
        is_first = blocks == EARLY_BLOCKS
        factor = FACTOR if is_first else LATER_FACTOR
        at_look = level if is_first else anytime.level(level, blocks)
        first = known_logs[:blocks]
        mean = float(first.mean())
        se = float(first.std(ddof=1)) / math.sqrt(blocks)
        reach = -float(special.stdtrit(blocks - 1, at_look)) * se if se > 0 and at_look > 0 else 0.0
        if at_look > 0 and abs(mean) - reach > math.log(factor * (1 + step)):
            return "above" if mean > 0 else "below"
    return None
