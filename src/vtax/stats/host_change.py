"""Changes of hosts, such as an update: hosts that changed against hosts that did not, before and after.

Each host is one value: the logarithm of what it shows after the change, divided by what it showed before. What a host
is cancels in it, and collapsing the sessions of a window to one value leaves nothing that depends on its own past
(Bertrand, Duflo & Mullainathan, How much should we trust differences-in-differences estimates?, Q. J. Econ. 2004).
What the windows add to every host (their hour, a colder room) cancels against the hosts that stayed as they were: the
difference in differences, by Student's t over hosts (Donald & Lang, Inference with difference-in-differences and
other panel data, Rev. Econ. Stat. 2007).

As many hosts on either side: the variance of both is pooled, which holds where they differ in it (Welch, The
significance of the difference between two means when the population variances are unequal, Biometrika 1938). Of other
numbers the wider of that interval and of one by each side's own variance: its degrees of freedom are Welch's (1947)
for the halves of an odd number; else those of the smaller side, never too many, as Welch's are where that side is
small (Mickey & Brown, Bounds on the distribution functions of the Behrens-Fisher statistic, Ann. Math. Stat. 1966).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import Array, Better, StatsError, Values, as_array, check_confidence
from vtax.stats.intervals import Interval, t_quantile
from vtax.stats.ratio import Loss, exp, standard_error, tail

_MIN_HOSTS = 2  # of a side


@dataclass(frozen=True)
class Effect:
    """Effect of a change of hosts on a quantity: after / before of those that changed, divided by that of the others.

    Where no host stayed as it was it is after / before itself, and whatever else happened meanwhile is in it.
    """

    estimate: Annotated[
        float, Means("after / before of the hosts that changed, divided by that of the controls")
    ]
    low: Annotated[float, Means("bounds of its t-interval over hosts")]
    high: Annotated[float, Means("bounds of its t-interval over hosts")]
    confidence: Annotated[float, Means("confidence level of it")]
    p_value: Annotated[float, Means("of the t-test that the ratio is 1, two-sided")]
    df: Annotated[float, Means("degrees of freedom of that")]
    changed: Annotated[int, Means("hosts that changed, with values of both windows")]
    controls: Annotated[int, Means("the same of the others; 0: there is nothing to compare with")]

    def efficiency(self, better: Better) -> Interval:
        """Return the performance as a share of what it would be without the change."""
        low, high = self.low, self.high
        if better == "higher":
            return Interval(self.estimate, low, high, self.confidence)
        return Interval(
            1 / self.estimate, 1 / high, 1 / low if low > 0 else math.inf, self.confidence
        )

    def loss(self, better: Better) -> Loss:
        """Return the bounds of what the change costs: the ends of its interval."""
        share = self.efficiency(better)
        at_most = 1 / share.low - 1 if share.low > 0 else None
        return Loss(1 / share.high - 1, at_most, at_most)


def effect_of_change(changed: Values, controls: Values, confidence: float = 0.95) -> Effect:
    """Return the effect of a change on hosts. With a side of one host, without scatter, its interval is 0 to inf.

    changed, controls: log(after / before) of each host that changed, and of each that did not.
    confidence: of the interval.

    Raises StatsError without a host that changed.
    """
    check_confidence(confidence)
    treated, control_logs = as_array(changed, "hosts"), as_array(controls, "hosts")
    if not treated.size:
        raise StatsError(Note("nothing", what="hosts that changed"))
    mean = float(treated.mean())
    if control_logs.size:
        mean -= float(control_logs.mean())
    counts = treated.size, control_logs.size
    if min(filter(None, counts)) < _MIN_HOSTS:
        return Effect(exp(mean), 0.0, math.inf, confidence, 1.0, 0.0, *counts)
    errors = _errors(treated, control_logs)
    half_width, df = max((t_quantile((1 + confidence) / 2, df) * se, df) for se, df in errors)
    p_value = min(1.0, 2 * max(tail(abs(mean), *error) for error in errors))
    return Effect(
        exp(mean), exp(mean - half_width), exp(mean + half_width), confidence, p_value, df, *counts
    )


def p_of_limit(changed: Values, controls: Values, limit: float) -> tuple[float, bool]:
    """Return twice the one-sided p-value that the effect is not on its side of a limit, and whether it lies above.

    It is at most alpha where the two-sided interval of 1 - alpha lies on that side.

    changed, controls: see effect_of_change.
    limit: a logarithm.

    Raises StatsError without a host that changed.
    """
    effect = effect_of_change(as_array(changed, "hosts") - limit, controls)
    return effect.p_value, effect.estimate > 1


def _errors(changed: Array, controls: Array) -> list[tuple[float, float]]:
    """Return (standard error, degrees of freedom) of the difference of means, or of one mean without controls."""
    a, b = changed.size, controls.size
    if not b:
        return [(standard_error(changed), a - 1.0)]
    pooled = pooled_error(changed, controls)
    squares = standard_error(changed) ** 2, standard_error(controls) ** 2
    if a == b or not sum(squares):
        return [pooled]
    welch = sum(squares) ** 2 / (squares[0] ** 2 / (a - 1) + squares[1] ** 2 / (b - 1))
    return [pooled, (math.sqrt(sum(squares)), welch if abs(a - b) == 1 else min(a, b) - 1.0)]


def pooled_error(first: Array, second: Array) -> tuple[float, float]:
    """Return (standard error, degrees of freedom) of the difference of two means whose values scatter alike:
    Student's."""
    df = first.size + second.size - 2.0
    squares = sum(
        standard_error(side) ** 2 * side.size * (side.size - 1)
        for side in (first, second)
        if side.size > 1
    )
    return math.sqrt(squares / df * (1 / first.size + 1 / second.size)), df


def random_half(hosts: Mapping[str, str] | Sequence[str], seed: int) -> tuple[str, ...]:
    """Return the hosts that change first, drawn by a seed: every other one of a random order, in the order given.

    hosts: names, each with its group (CPU model, rack) where they have some: of every group about half is drawn. Of
    an odd number it is the larger or the smaller half. The order of the names does not bear on what is drawn.
    """
    groups = hosts if isinstance(hosts, Mapping) else dict.fromkeys(hosts, "")
    draw = random.Random(f"vtax change {seed}")
    order: list[str] = []
    for group in sorted(set(groups.values())):
        names = sorted(name for name in groups if groups[name] == group)
        draw.shuffle(names)
        order += names
    chosen_hosts = set(order[draw.randrange(2) :: 2])
    return tuple(name for name in groups if name in chosen_hosts)
