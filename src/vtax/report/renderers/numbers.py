"""How numbers look, in every output: few digits, thousands set apart, a mean rounded to fit its half-width."""

from __future__ import annotations

import math
from typing import Literal

from vtax.report.document.cells import Scale
from vtax.units import format_percent

DIGITS = 4
Kind = Literal["percent", "slower", "faster", "times"]
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
    mean: float, half: float, scale: Scale, step: float = 0.0
) -> tuple[str, str]:
    """Return a mean and its interval's half-width, rounded alike: `1 234`, `±12`. The half is empty when not
    finite.

    step: of the figures, below which their tool tells nothing. A mean of many is known to a digit more, unless its
    interval is no wider than the step.
    """
    mean, half, step = mean / scale.divisor, half / scale.divisor, step / scale.divisor
    is_of_many = math.isfinite(half) and half > _ONE_STEP * step
    most = decimals_of(step, 1) + is_of_many if step else math.inf
    if not math.isfinite(half):
        return (number(mean) if most >= _decimals_for(mean, DIGITS) else _cut(mean, int(most))), ""
    if half == 0:
        return number(mean), "±0"
    if mean and not _is_plain(2 - _decimals_for(mean, 3)):
        return number(mean), f"±{number(half, 2)}"
    decimals = max(0, _decimals_for(mean, 3), min(decimals_of(half), _decimals_for(mean, 5)))
    if most < decimals:
        return _cut(mean, int(most)), f"±{_cut(half, int(most))}"
    return fixed(mean, decimals), "±" + (
        fixed(half, decimals) if round(half, decimals) else number(half, 1)
    )


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
    estimate: float, low: float, high: float, *, is_amount: bool = False
) -> tuple[str, str, Kind]:
    """Return a share of a baseline, its interval and how both read: `95.4`, `[93.0, 97.0]`, percent.

    Performance below half of the baseline is how many times slower it is, above twice how many times faster, where
    the interval says so too; an amount above twice is how many times as much. The half-width of the interval gives
    the digits of all three numbers, unless its ends lie far apart; an end that is not the baseline is not rounded to
    it. Without a finite upper bound the interval is empty.
    """
    is_bounded = math.isfinite(high)
    kind: Kind = "percent"
    values, one = (round(100 * estimate, 12), 100 * low, 100 * high), 100.0
    if not is_amount and 0 < estimate < _HALF and (high < 1 or not is_bounded):
        kind, one = "slower", 1.0
        values = (1 / estimate, 1 / high, 1 / low if low else math.inf)
    elif estimate > 1 / _HALF and (is_amount or low > 1 or not is_bounded):
        kind, one = "times" if is_amount else "faster", 1.0
        values = (estimate, low, high)
    if not is_bounded or not math.isfinite(values[0]):
        return _alone(values[0], one), "", kind
    if values[2] >= _WIDE * values[1] > 0:
        shown, *ends = (number(value, 2) for value in values)
        return shown, f"[{', '.join(ends)}]", kind
    decimals = _shared_decimals(values, one)
    shown, *ends = (_rounded(value, decimals) for value in values)
    return shown, f"[{', '.join(ends)}]", kind


def _alone(value: float, one: float) -> str:
    """Return a number without an interval: `99.8`, `103.4`, `4.97`; of times two digits; a whole number as it is."""
    if abs(value) < _LARGEST_WHOLE and value == round(value):
        return fixed(value, 0)
    return number(value, 2 if one == 1 else 3 if abs(value) < 99.95 else 4)


def _shared_decimals(values: tuple[float, float, float], one: float) -> int:
    """Return the decimals of an estimate and its ends: two digits of the half-width, at most four of the largest."""
    finite = [value for value in values if math.isfinite(value)]
    largest = max(map(abs, finite))
    most = _decimals_for(largest, _LARGEST_DIGITS)
    half = (max(finite) - min(finite)) / (2 if math.isfinite(values[2]) else 1)
    decimals = min(decimals_of(half), most) if half else most
    if one == 100:
        decimals = max(decimals, 0)  # whole percents, so that the lowest end is lowest as shown
    while decimals < most + 2 and any(
        end != one and round(end, decimals) == one for end in finite[1:]
    ):
        decimals += 1
    return decimals


def _rounded(value: float, decimals: int) -> str:
    if not math.isfinite(value) or (value and not _is_plain(math.floor(math.log10(abs(value))))):
        return number(value, 3)
    return fixed(round(value, decimals), max(0, decimals))


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
