"""How many blocks a comparison takes at its present noise: if its sides are equal, and to show a difference.

The sample size of a t-test of power 0.8, for the two ends of an 80 % interval of the noise: that is what a few blocks
leave open. Levels are the rule's, in the family; the guard of `equivalent` is in the number of equal sides, at the
correlation that independent blocks leave plausible.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from vtax.stats.assumptions import allow_for_dependence, unseen_correlation
from vtax.stats.checks import MINIMUM_BLOCKS, Array
from vtax.stats.margin import log_margin
from vtax.stats.outlook import Needed
from vtax.stats.planning import POWER
from vtax.stats.ratio import Ratio
from vtax.stats.rules import Rule

SIZE = 0.05  # the difference, or 2.5 times the margin where that is larger
NOISE_LIMITS = 0.1, 0.9  # of the noise, in probability
FARTHEST = 1_000_000


def needed(rule: Rule, ratio: Ratio, margin: float, family: int) -> Needed | None:
    """Return the blocks that a ratio of one session, of two blocks at least, needs; None beyond FARTHEST."""
    if ratio.n_blocks < 2 or ratio.n_sessions > 1 or not ratio.se_log > 0:
        return None
    size = max(SIZE, 2.5 * margin)
    ns, at_equal, at_different = _reach(rule, family)
    sd, df = ratio.se_log * math.sqrt(ratio.n_blocks), ratio.n_blocks - 1.0
    low, high = NOISE_LIMITS
    quiet, noisy = (sd * math.sqrt(df / float(special.chdtri(df, p))) for p in (1 - high, 1 - low))
    equal = _first(ns, at_equal, log_margin(margin) / quiet)
    different = _first(ns, at_different, log_margin(size) / quiet)
    if equal is None or different is None:
        return None
    most_equal = _first(ns, at_equal, log_margin(margin) / noisy)
    most_different = _first(ns, at_different, log_margin(size) / noisy)
    return Needed((equal, most_equal), size, (different, most_different))


def _first(ns: npt.NDArray[np.int64], reach: Array, target: float) -> int | None:
    """Return the first number of blocks whose reach is within the target; None without one."""
    enough = np.flatnonzero(reach <= target)
    return int(ns[enough[0]]) if enough.size else None


@lru_cache(maxsize=256)
def _reach(rule: Rule, family: int) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """(numbers of blocks, the margin and the difference that each decides with POWER, in SDs of a block)."""
    exact = np.arange(MINIMUM_BLOCKS, 200)
    ns = np.unique(np.concatenate([exact, np.geomspace(200, FARTHEST, 400)]).astype(np.int64))
    z_of_margin, z_of_difference = special.ndtri((1 + POWER) / 2), special.ndtri(POWER)
    error = rule.look_level(MINIMUM_BLOCKS) / family
    equal, different = np.full((2, ns.size), np.inf)
    for k, n in enumerate(ns.tolist()):
        level, half_level = rule.test_level(error, n), rule.test_level(error / 2, n)
        root = math.sqrt(n)
        if level > 0:
            se, df = allow_for_dependence(1.0, n - 1.0, n, unseen_correlation(n))
            equal[k] = (-special.stdtrit(df, level) * se + z_of_margin) / root
        if half_level > 0:
            different[k] = (-special.stdtrit(n - 1.0, half_level) + z_of_difference) / root
    return ns, equal, different
