"""Hosts that lie apart from the others: single ones, however many they are, and some that have a fact in common.

Single hosts are found by generalized extreme studentized deviates (Rosner, Percentage points for a generalized ESD
many-outlier procedure, Technometrics 1983): the farthest host is taken away again and again, and the last step that
is beyond its limit says how many are odd. So several odd hosts do not hide one another behind the scatter that they
make.

Some hosts against the others are Student's t of two means, under the hypothesis that all are alike. Of a single host
that is the deleted residual (Cook & Weisberg, Residuals and Influence in Regression, 1982).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import Better, StatsError, Values, as_array, check_confidence
from vtax.stats.host_change import pooled_error
from vtax.stats.intervals import Interval, t_quantile
from vtax.stats.ratio import exp, tail

MIN_OTHERS = 3
"""Fewer hosts show no scatter that another could be apart from."""
FEWEST_HOSTS = 5
"""Fewer hosts are too few to tell which of them is odd."""
_NO_DISTANCE = 1e-12  # of logarithms: rounding
_MOST_ODD = 3  # one of how many hosts may be odd
_TOO_BOLD = ((6, 1.0), (16, 5 / 3), (32, 5 / 4))
"""(fewer hosts than, times that a p-value of the limits is too small there)."""


@dataclass(frozen=True)
class Apart:
    """How many times the others' mean that of some hosts is. p_value: that they are alike, two-sided."""

    estimate: Annotated[float, Means("mean of these hosts divided by that of the others")]
    low: Annotated[float, Means("bounds of its interval")]
    high: Annotated[float, Means("bounds of its interval")]
    p_value: Annotated[
        float, Means("that they are alike, adjusted for all hosts, groups and platforms")
    ]

    def efficiency(self, better: Better) -> Interval:
        """Return the performance as a share of the others'."""
        if better == "higher":
            return Interval(self.estimate, self.low, self.high)
        return Interval(
            1 / self.estimate, 1 / self.high, 1 / self.low if self.low > 0 else math.inf
        )


def against_the_others(values: Values, reference_values: Values, confidence: float = 0.95) -> Apart:
    """Compare hosts against the others, one logarithm per host. Raises StatsError for fewer than MIN_OTHERS others."""
    check_confidence(confidence)
    inside, reference = as_array(values, "hosts"), as_array(reference_values, "hosts")
    if not inside.size or reference.size < MIN_OTHERS:
        raise StatsError(Note("nothing", what="hosts"))
    mean = float(inside.mean() - reference.mean())
    se, df = pooled_error(inside, reference)
    half_width = t_quantile((1 + confidence) / 2, df) * se
    return Apart(
        exp(mean),
        exp(mean - half_width),
        exp(mean + half_width),
        min(1.0, 2 * tail(abs(mean), se, df)),
    )


def p_of_hosts(values: Values) -> list[float]:
    """Return of every host the p-value that it is like the others, adjusted for all of them.

    Hosts with at most 0.05 are odd at a level of 5 %; of up to a third of the hosts it can be less than 1. The limits
    of Rosner give 5 to 9 % of fleets of 6 to 31 alike hosts an odd one; by simulation (bench/odd_hosts.py) 3/5 of the
    level below 16 hosts and 4/5 above keep it.

    values: a logarithm for each host.

    Raises StatsError for fewer than FEWEST_HOSTS.
    """
    remaining = as_array(values, "hosts")
    count = remaining.size
    if count < FEWEST_HOSTS:
        raise StatsError(Note("nothing", what="hosts"))
    times = next((times for fewer, times in _TOO_BOLD if count < fewer), 1.0)
    places = list(range(count))
    steps: list[tuple[int, float]] = []
    for _ in range(count // _MOST_ODD):
        far = abs(remaining - remaining.mean())
        farthest = int(far.argmax())
        steps.append((places.pop(farthest), _p_of_farthest(remaining, float(far[farthest]))))
        remaining = remaining[[n for n in range(remaining.size) if n != farthest]]
    p_values = [1.0] * count
    smallest = 1.0
    for place, p_value in reversed(steps):
        smallest = min(smallest, p_value * times)
        p_values[place] = smallest
    return p_values


def _p_of_farthest(values: Values, distance: float) -> float:
    """Return the p-value of the host that lies this far from the mean, of as many as there are (Grubbs 1950)."""
    array = as_array(values, "hosts")
    count = array.size
    spread = float(array.std(ddof=1))
    if distance <= _NO_DISTANCE:
        return 1.0
    share = (distance / spread) ** 2 * count / (count - 1) ** 2  # 1 where all others are equal
    if share >= 1:
        return 0.0
    t = math.sqrt(share * (count - 2) / (1 - share))
    return min(1.0, 2 * count * tail(t, 1.0, count - 2))
