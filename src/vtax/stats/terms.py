"""Terms that a study declares and statistics judge by; without numpy, which reading a study does not need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtax.messages import Note

Better = Literal["higher", "lower"]  # which way a metric is better
MetricRole = Literal["speed", "cost", "size", "count"]
"""Role of a metric: `speed` of rates and times, `cost` of what is spent, `size` of magnitudes, `count` of numbers and
shares. A speed is slower or faster, a cost is more or less; sizes and counts are neither, so that no verdict is on
them."""
Stop = Literal["fixed", "open", "precision", "verdict", "budget"]  # the names of rules.RULES
MINIMUM_BLOCKS = 5  # of a verdict: with fewer, Student's t is at the mercy of the noise's shape
Quantity = Literal["speed", "cost"]  # the roles that a gate judges
CONDITIONS: Mapping[str, Quantity] = {"slower-by": "speed", "costs-more-by": "cost"}
"""Condition of a gate -> the quantity that it judges."""
ODD_HOSTS = "odd-hosts"
"""Condition of the gate of a campaign: a host lies apart from the others."""
Margins = Mapping[Quantity, float | None]
"""Quantity that a gate judges -> the largest difference that passes; None for the margin of the run."""


BOTH: Margins = {"speed": None, "cost": None}


@dataclass(frozen=True)
class Conditions:
    """Conditions for which a gate fails.

    margins: the largest slowdown and extra cost that pass, 0 to 1 each; of what is not judged none.
    detect: a slowdown that every comparison has to be able to find, 0 to 1; None for none.
    strict: whether what is undecided ends the command with 3.
    odd_hosts: whether the gate of a campaign fails where a host lies apart.
    """

    margins: Margins = field(default_factory=lambda: BOTH)
    detect: float | None = None
    strict: bool = False
    odd_hosts: bool = False


EARLY_BLOCKS = 3  # of a verdict on a difference beyond doubt, see stats.early
WORDS_OF_COST: Mapping[str, str] = {
    "slower": "costs-more",
    "faster": "costs-less",
    "equivalent": "equal-cost",
}
"""Verdict on a speed -> that on a cost."""


class StatsError(ValueError):
    """A question that has no answer, in one sentence: the caller shows it in place of the figure."""

    @property
    def note(self) -> Note:
        """The sentence with its code and data; one that has no code of its own is `no-answer`."""
        code_or_text = self.args[0] if self.args else ""
        return (
            code_or_text
            if isinstance(code_or_text, Note)
            else Note("no-answer", text=str(code_or_text))
        )


def has_words(role: str) -> bool:
    """Return whether there are verdicts on metrics of a role."""
    return role in ("speed", "cost")


_TIMES = frozenset({"s", "ms", "µs", "us", "ns", "ps", "min", "h"})
_SIZES = frozenset({"B", "bytes", "KiB", "MiB", "GiB", "KB", "kB", "MB", "GB"})
_COSTS = ("host_cpu_per_", "energy_per_", "cpu_", "memory_")  # beginnings of names


def is_rate(unit: str) -> bool:
    """Return whether figures of a unit are work over a time: `requests/s`, `ops/sec`, `IOPS`, `tps`."""
    return bool(re.search(r"/ ?(s|sec|secs|second|ms|min|h)$|^[a-zA-Z]*ps$|^IOPS$", unit))


def is_time(unit: str) -> bool:
    """Return whether figures of a unit are times."""
    return unit in _TIMES


def role_of(name: str, unit: str, better: str, *, is_primary: bool) -> MetricRole:
    """Return the role of a metric that declares none.

    What is better lower is a cost by the beginning of its name. Rates and times are speeds, and so is a primary metric
    of a unit that is not known, such as a score.
    """
    if better == "lower" and name.startswith(_COSTS) and not is_rate(unit):
        return "cost"
    if name == "jitter" or unit in _SIZES:
        return "size"
    if is_rate(unit) or is_time(unit) or is_primary:
        return "speed"
    return "count"
