"""The values that cells and sentences hold: what a number is, not how it looks. Renderers format them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vtax.report.document.text import Inline, Message, Value, msg, plural
from vtax.stats.terms import WORDS_OF_COST
from vtax.stats.verdict import Kind

_PREFIXES = {
    "n": 1e-9,
    "µ": 1e-6,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
PERHAPS: Mapping[str, Message] = {
    "perhaps slower": msg("perhaps slower"),
    "perhaps faster": msg("perhaps faster"),
    "perhaps costs more": msg("perhaps costs more"),
    "perhaps costs less": msg("perhaps costs less"),
}
"""Words of what is undecided, with an interval of its own beyond the margin."""
_LOOKS = {word: kind for kind, word in WORDS_OF_COST.items()}
_SHOWN = ("n", "µ", "m", "", "k", "M", "G", "T")
_TIMES = ("n", "µ", "m", "")  # a kilosecond is no unit people read
_PREFIXABLE = re.compile(
    r"(?P<prefix>[nµumkMGT]?)(?P<base>bit/s|B/s|bit|B|s|Hz|FLOP/s)(?P<per>(?<=s)(?<!/s)/[a-z]+)?"
)


@dataclass(frozen=True)
class Scale:
    """A unit to show values in: shown value = stored value / divisor."""

    unit: str
    divisor: float = 1.0


UNSCALED = Scale("")


def scale_for(unit: str, values: Iterable[float]) -> Scale:
    """Return the scale in which the largest of the values (of a whole table) reads as 1 to 999.

    Binary units (MiB/s) and units that take no prefix (events/s) stay as they are; times for a thing (ns/operation)
    are times.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    match = _PREFIXABLE.fullmatch(unit)
    if match is None or largest == 0.0:
        return Scale(unit, 1.0)
    factor, base = _PREFIXES[match["prefix"]], match["base"]
    candidates = _TIMES if base == "s" else _SHOWN
    prefix = max(
        (p for p in candidates if largest * factor / _PREFIXES[p] >= 1),
        key=_PREFIXES.__getitem__,
        default="n",
    )
    if prefix not in candidates:
        prefix = candidates[0]
    if base in ("bit", "B", "bit/s", "B/s", "Hz", "FLOP/s") and _PREFIXES[prefix] < 1:
        prefix = ""
    return Scale(f"{prefix}{base}{match['per'] or ''}", _PREFIXES[prefix] / factor)


@dataclass(frozen=True)
class Number(Value):
    """A number to so many significant digits."""

    value: float
    digits: int = 4


@dataclass(frozen=True)
class Count(Value):
    """A whole number of things."""

    value: int


@dataclass(frozen=True)
class Quantity(Value):
    """A number with a unit. has_unit: whether the unit stands beside it, or in the column's title."""

    value: float
    scale: Scale
    digits: int = 4
    has_unit: bool = False


@dataclass(frozen=True)
class Mean(Value):
    """A mean, rounded to fit the half-width of its interval. shows: it, the half-width, or both with the unit.

    step: smallest difference of two figures that their tool tells, in their unit; no digit below it is shown.
    decimals: those of its column; None for its own.
    """

    mean: float
    half_width: float
    scale: Scale
    shows: Literal["mean", "half-width", "both"] = "mean"
    step: float = 0.0
    decimals: int | None = None


@dataclass(frozen=True)
class IntervalCell(Value):
    """Two bounds. of: what they bound, which decides how they are rounded. scale: of quantities."""

    low: float
    high: float
    of: Literal["quantity", "change"]
    scale: Scale = UNSCALED


@dataclass(frozen=True)
class Share(Value):
    """A part of a whole, 1 being all of it, shown in percent.

    style: `figures` has two significant digits, `declared` is as it was declared, `whole` has no decimals, `change` a
    sign before two digits, `signed decimal` a sign and one decimal.
    """

    value: float
    style: Literal["figures", "declared", "whole", "change", "signed decimal"] = "figures"


@dataclass(frozen=True)
class PValue(Value):
    """A p-value. is_named: as `p = 0.012`."""

    value: float
    is_named: bool = False


@dataclass(frozen=True)
class Duration(Value):
    """Seconds as people read them: `4 min 05 s`."""

    seconds: float


@dataclass(frozen=True)
class Offset(Value):
    """Seconds before or after something, with their sign."""

    seconds: float
    decimals: int = 3


@dataclass(frozen=True)
class Size(Value):
    """Bytes in the binary unit that keeps them short."""

    size_bytes: float


@dataclass(frozen=True)
class Moment(Value):
    """A Unix time as date and time of day."""

    seconds: float


@dataclass(frozen=True)
class VerdictCell(Value):
    """The word about a ratio.

    blocks_low, blocks_needed: the range of more that settle it; 0 when not known.
    margin: that `at-most` names.
    bound: what is said in place of the word, such as `at least 1.4 % slower`; empty where the word says more.
    leaning: one of `PERHAPS`, which is said in place of `undecided`; empty without one.
    """

    kind: Kind
    blocks_needed: int = 0
    blocks_low: int = 0
    margin: float = 0.0
    bound: Inline = ""
    leaning: str = ""

    @property
    def look(self) -> str:
        """The verdict on a speed that has its colour and sign: a cost that is more looks as what is slower."""
        return _LOOKS.get(self.kind, self.kind)

    @property
    def sign(self) -> str:
        """The name of its sign: that of its look, or of what it leans to."""
        if not self.leaning:
            return self.look
        return (
            "perhaps-slower"
            if self.leaning in ("perhaps slower", "perhaps costs more")
            else "perhaps-faster"
        )


@dataclass(frozen=True)
class Bar(Value):
    """An estimate with its interval drawn to scale, 1 being the baseline."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True)
class Relative(Value):
    """Something as a share of a baseline, 1 being as much, with its interval: the one way to write a comparison.

    It reads as percent. What `is_of` performance, of which more is better, reads as "times slower" below half and as
    "times faster" above twice; an amount reads as "times" above twice. The performance that is a time, or another
    value of which less is better, reads as `14 % longer` or `14 % more`. low, high: 0 and inf without an interval.
    shows: the estimate, the interval, both, or the interval's end of least performance. baseline: named behind the
    percent in a sentence. verdict: the word that follows in an overview. decimals: as of a `Mean`.
    """

    estimate: float
    low: float = 0.0
    high: float = math.inf
    is_of: Literal["performance", "amount", "time", "value"] = "performance"
    shows: Literal["both", "estimate", "interval", "low"] = "both"
    baseline: Inline = ""
    verdict: VerdictCell | None = None
    decimals: int | None = None


@dataclass(frozen=True)
class PlatformCell(Value):
    """A platform's name with its marks. colour: its number among the run's platforms, -1 for none; 0 the baseline."""

    name: str
    marks: tuple[str, ...] = ()
    colour: int = -1


@dataclass(frozen=True)
class Factor(Value):
    """Factor -> level, as `direction=send, mtu=1500`."""

    levels: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Range(Value):
    """The smallest and the largest of several values of one kind."""

    low: Inline
    high: Inline


def range_of(low: Inline, high: Inline) -> Inline:
    """Return both ends, or one where they are alike."""
    return low if low == high else Range(low, high)


@dataclass(frozen=True)
class Nothing(Value):
    """No value: the cell says so."""


def first_of(texts: Sequence[Inline], limit: int) -> list[Inline]:
    """Return the first of several texts, and how many more there are."""
    remainder = [msg("{count} more", count=Count(len(texts) - limit))] if len(texts) > limit else []
    return [*texts[:limit], *remainder]


def more_blocks(low: int, high: int) -> Inline:
    """`2 to 20 more blocks`, or `about 20 more blocks` where low is as much or not known."""
    if 0 < low < high:
        return plural(
            "{low} to {count} more block", "{low} to {count} more blocks", high, low=Count(low)
        )
    return plural("about {count} more block", "about {count} more blocks", high)
