"""netperf's own repetition rule, `-i 10,3 -I 95,5`, to reproduce studies that used it as they were published.

It repeats in one guest until Student's interval of the mean is narrower than the width asked for, at most 10 times,
looking after every repetition. It knows nothing of boots, and what it stops on is the spread it happened to see:
bench/statistics shows how often it is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtax.stats.checks import StatsError, Values, as_array, without_missing
from vtax.stats.intervals import t_quantile


@dataclass(frozen=True)
class NetperfDecision:
    """stop: repeat no more. reached: the interval is narrow enough. width: of the interval, relative to the mean."""

    stop: bool
    reached: bool
    width: float
    warnings: tuple[str, ...]


def enough(
    values: Values, *, confidence: float = 0.95, width: float = 0.05, minimum: int = 3, maximum: int = 10
) -> NetperfDecision:
    """Whether netperf would stop after these repetitions of one cell in one guest.

    width: whole width of the interval relative to the mean, 0.05 for `-I 95,5`, which is ±2.5 %; minimum, maximum:
    `-i maximum,minimum`. The formula is calculate_confidence() of netperf 2.7's netlib.c. NaN are left out.
    """
    if not 2 <= minimum <= maximum:
        raise StatsError("netperf's rule needs 2 <= minimum <= maximum")
    array, warnings = without_missing(as_array(values), "repetitions")
    n, mean = array.size, float(array.mean())
    relative = math.inf
    if n > 1 and mean > 0:
        relative = 2 * t_quantile((1 + confidence) / 2, n - 1) * float(array.std(ddof=1)) / math.sqrt(n) / mean
    reached = n >= minimum and relative <= width
    if n >= maximum and not reached:
        warnings = (*warnings, f"the width of {width:.1%} was not reached in {maximum} repetitions: {relative:.1%}")
    return NetperfDecision(reached or n >= maximum, reached, relative, warnings)
