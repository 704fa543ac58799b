"""How numbers look, in every output: few digits, thousands set apart, a mean rounded to fit its half-width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from vtax.report.document.cells import Scale
from vtax.units import format_percent

DIGITS = 4
Kind = Literal["percent", "slower", "faster", "times", "more", "less"]
Of = Literal["performance", "amount", "time", "value"]
_HALF = 0.5  # of the baseline, below which "times slower" is clearer than a percentage
_LARGEST_WHOLE = 10_000
_LARGEST_DIGITS = 4  # of a share of the baseline, however narrow its interval
_ONE_STEP = 1.001  # half of an interval, in steps of the tool, that is no more than one step
_WIDE = 10.0  # high / low of an interval, from which each number has two digits of its own


def number(value: float, digits: int = DIGITS) -> str:
    """Return a number with `digits` significant digits and no exponent where one can be avoided; thousands set
    apart."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not _is_plain(size):
        return (
            f"{value:.{digits - 1}e}".replace("e-0", "e-")
            .replace("e+0", "e")
            .replace("e+", "e")
            .replace("-", "−")
        )
    text = f"{round(value, digits - 1 - size):,.{max(0, digits - 1 - size)}f}"
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")


def _is_plain(size: int) -> bool:
    """Return whether a number of this size (its decimal exponent) is written without an exponent."""
    return -5 < size < 9


def decimals_of(half_width: float, digits: int = 2) -> int:
    """Decimals that show a half-width with two significant digits; negative to round to tens."""
    if not math.isfinite(half_width) or half_width == 0:
        return 3
    return digits - 1 - math.floor(math.log10(abs(half_width)))


def mean_and_half_width(
    mean: float, half_width: float, scale: Scale, step: float = 0.0, decimals: int | None = None
) -> tuple[str, str]:
    """Return a mean and its interval's half-width, rounded alike: `1 234`, `±12`. The half-width is empty when not
    finite.

    step: of the figures, below which their tool tells nothing. A mean of many is known to a digit more, unless its
    interval is no wider than the step. decimals: of its column; None for its own. Two digits of a mean stay.
    """
    own_decimals = mean_decimals(mean, half_width, scale)
    mean, half_width, step = mean / scale.divisor, half_width / scale.divisor, step / scale.divisor
    is_of_many = math.isfinite(half_width) and half_width > _ONE_STEP * step
    limit = decimals_of(step, 1) + is_of_many if step else math.inf
    if not math.isfinite(half_width):
        if limit < _decimals_for(mean, DIGITS):
            return _cut(mean, int(limit)), ""
        return _with_decimals(mean, decimals), ""
    if half_width == 0:
        return _with_decimals(mean, decimals), "±0"
    if own_decimals is None:
        return number(mean), f"±{number(half_width, 2)}"
    decimals = own_decimals if decimals is None else max(0, decimals, _decimals_for(mean, 2))
    if limit < decimals:
        return _cut(mean, int(limit)), f"±{_cut(half_width, int(limit))}"
    return fixed(mean, decimals), "±" + (
        fixed(half_width, decimals) if round(half_width, decimals) else number(half_width, 1)
    )


def _with_decimals(mean: float, decimals: int | None) -> str:
    """Return a mean that no half-width rounds: with the decimals of its column, or where that has none four digits."""
    if decimals is None or not mean or not _is_plain(2 - _decimals_for(mean, 3)):
        return number(mean)
    return fixed(mean, max(0, decimals, _decimals_for(mean, 2)))


def mean_decimals(mean: float, half_width: float, scale: Scale) -> int | None:
    """Return the decimals of a mean alone: two digits of its half-width, three to five of its own.

    None where it is not shown by decimals.
    """
    mean, half_width = mean / scale.divisor, half_width / scale.divisor
    if (
        not math.isfinite(half_width)
        or half_width == 0
        or (mean and not _is_plain(2 - _decimals_for(mean, 3)))
    ):
        return None
    return max(0, _decimals_for(mean, 3), min(decimals_of(half_width), _decimals_for(mean, 5)))


def most_decimals(mean: float, scale: Scale) -> int:
    """Return the decimals that a mean leaves room for: four digits."""
    return max(0, _decimals_for(mean / scale.divisor, DIGITS))


def _cut(value: float, decimals: int) -> str:
    """Return a number without the digits that are not known; negative decimals round to tens."""
    return fixed(round(value, decimals), max(0, decimals))


def _decimals_for(value: float, digits: int) -> int:
    if value == 0:
        return digits
    return digits - 1 - math.floor(math.log10(abs(value)))


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals, thousands set apart."""
    return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")


def relative(
    estimate: float,
    low: float,
    high: float,
    *,
    of: Of = "performance",
    decimals: int | None = None,
    has_interval: bool = True,
) -> tuple[str, str, Kind]:
    """Return a share of a baseline, its interval and how both read: `95.4`, `[93.0, 97.0]`, percent.

    of: what it is a share of. The performance that is a time, or another value of which less is better, reads as how
    much longer that is, or shorter.
    decimals: of its column; None for its own.
    has_interval: whether the interval is to be shown; if not, its ends need no decimals of their own.

    Performance below half of the baseline is how many times slower it is, above twice how many times faster, where
    the interval says so too; an amount above twice is how many times as much. The half-width of the interval gives
    the digits of all three numbers, unless its ends lie far apart; an end of an interval beside the baseline is not
    rounded to it. Without a finite upper bound the interval is empty.
    """
    kind, values, reference = _read(estimate, low, high, of)
    if not math.isfinite(values[0]) or not values[1:]:
        return _alone(values[0], reference), "", kind
    if decimals is not None:
        if reference == 1:  # two digits
            decimals = max(decimals, _decimals_for(values[0], 2))
        if has_interval:
            limit = _decimals_for(max(map(abs, values)), _LARGEST_DIGITS)
            decimals = _beside(values, reference, decimals, limit)
    elif _is_wide(values, reference):
        text, *ends = (number(value, 2) for value in values)
        return text, f"[{', '.join(ends)}]", kind
    else:
        decimals = _shared_decimals(values, reference, has_interval=has_interval)
    text, *ends = (_rounded(value, decimals) for value in values)
    return text, f"[{', '.join(ends)}]", kind


def relative_decimals(
    estimate: float, low: float, high: float, of: Of = "performance"
) -> tuple[Kind, int | None]:
    """Return how a share reads, and the decimals that it has alone; None without an interval, or with a wide one."""
    kind, values, reference = _read(estimate, low, high, of)
    if not values[1:] or not all(map(math.isfinite, values)) or _is_wide(values, reference):
        return kind, None
    return kind, _shared_decimals(values, reference)


def _is_wide(values: Sequence[float], reference: float) -> bool:
    return bool(reference) and values[2] >= _WIDE * values[1] > 0


def _read(
    estimate: float, low: float, high: float, of: Of
) -> tuple[Kind, tuple[float, ...], float]:
    """Return how a share reads, its numbers (one without an interval, else three), and which number is the baseline."""
    is_bounded = math.isfinite(high)
    kind: Kind = "percent"
    is_amount = of == "amount"
    values: tuple[float, ...] = (round(100 * estimate, 12), 100 * low, 100 * high)
    reference = 100.0
    if not is_amount and 0 < estimate < _HALF and (high < 1 or not is_bounded):
        kind, reference = "slower", 1.0
        values = (1 / estimate, 1 / high, 1 / low if low else math.inf)
    elif estimate > 1 / _HALF and (is_amount or low > 1 or not is_bounded):
        kind, reference = "times" if is_amount else "faster", 1.0
        values = (estimate, low, high)
    elif of in ("time", "value") and estimate > 0:
        kind, values = _change(estimate, low, high)
        reference, is_bounded = 0.0, is_bounded and low > 0
    return kind, values if is_bounded else values[:1], reference


def _change(estimate: float, low: float, high: float) -> tuple[Kind, tuple[float, float, float]]:
    """Return by how many percent the inverse of a share is more or less than 1, with the ends of its interval."""
    inverse = [1 / estimate, 1 / high if math.isfinite(high) else 0.0, 1 / low if low else math.inf]
    difference, lowest, highest = (round(100 * (ratio - 1), 12) for ratio in inverse)
    if difference >= 0:
        return "more", (difference, lowest, highest)
    return "less", (-difference, -highest, -lowest)


def _alone(value: float, reference: float) -> str:
    """Return a number without an interval: `99.8`, `103.4`, `4.97`; of times two digits; a whole number as it is."""
    if abs(value) < _LARGEST_WHOLE and value == round(value):
        return fixed(value, 0)
    digits = {1.0: 2, 0.0: 2}.get(reference, 3 if abs(value) < 99.95 else 4)
    return number(value, digits)


def _shared_decimals(
    values: Sequence[float], reference: float, *, has_interval: bool = True
) -> int:
    """Return the decimals of an estimate and its ends: two digits of the half-width, at most four of the largest."""
    finite_values = [value for value in values if math.isfinite(value)]
    largest = max(map(abs, finite_values))
    limit = _decimals_for(largest, _LARGEST_DIGITS)
    half_width = (max(finite_values) - min(finite_values)) / (2 if math.isfinite(values[2]) else 1)
    decimals = min(decimals_of(half_width), limit) if half_width else limit
    if reference != 1:
        decimals = max(decimals, 0)  # whole percents, so that the lowest end is lowest as shown
    return _beside(values, reference, decimals, limit) if has_interval else decimals


def _beside(values: Sequence[float], reference: float, decimals: int, limit: int) -> int:
    """Return as many decimals, or more where an interval beside the baseline would end at it."""
    is_beside = (values[1] - reference) * (values[2] - reference) > 0
    ends = [end for end in values[1:] if math.isfinite(end)]
    while (
        is_beside and decimals < limit + 2 and reference in (round(end, decimals) for end in ends)
    ):
        decimals += 1
    return decimals


def _rounded(value: float, decimals: int) -> str:
    if not math.isfinite(value) or (value and not _is_plain(math.floor(math.log10(abs(value))))):
        return number(value, 3)
    return fixed(round(value, decimals) + 0.0, max(0, decimals))  # + 0.0: no −0


def bounds(low: float, high: float, scale: Scale) -> str:
    """Return an interval of stored values as shown: `[612.4, 630.9]`, both rounded alike; nothing when it is not
    bounded."""
    low, high = low / scale.divisor, high / scale.divisor
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    maximum = max(abs(low), abs(high))
    if maximum and not _is_plain(2 - _decimals_for(maximum, 3)):
        return f"[{number(low)}, {number(high)}]"
    widest = _decimals_for(maximum, 6)
    decimals = max(0, min(decimals_of((high - low) / 2), widest) if low != high else widest - 2)
    return f"[{fixed(low, decimals)}, {fixed(high, decimals)}]"


def percent(value: float) -> str:
    """Return a share as percent with two significant digits: `0.83 %`, `12 %`; `–` when not known."""
    if not math.isfinite(value):
        return "–"
    share = value * 100
    text = fixed(share, 0) if abs(share) >= 9.95 else number(share, 2)
    return f"{text}\N{NO-BREAK SPACE}%"


def plain_percent(value: float) -> str:
    """Return a declared share as it was declared: `2 %`, `97.5 %`."""
    return format_percent(value, "g")
