"""How numbers look, in every output: few digits, thousands set apart, a mean rounded to fit its half-width."""

from __future__ import annotations

import math

from vtax.report.document.cells import Scale
from vtax.study.units import format_percent

DIGITS = 4


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
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
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


def mean_and_half_width(mean: float, half: float, scale: Scale) -> tuple[str, str]:
    """Return a mean and its interval's half-width, rounded alike: `1 234`, `±12`. The half is empty when not
    finite."""
    mean, half = mean / scale.divisor, half / scale.divisor
    if not math.isfinite(half):
        return number(mean), ""
    if half == 0:
        return number(mean), "±0"
    if mean and not _is_plain(2 - _decimals_for(mean, 3)):
        return number(mean), f"±{number(half, 2)}"
    decimals = max(0, _decimals_for(mean, 3), min(decimals_of(half), _decimals_for(mean, 5)))
    return fixed(mean, decimals), "±" + (fixed(half, decimals) if round(half, decimals) else number(half, 1))


def _decimals_for(value: float, digits: int) -> int:
    if value == 0:
        return digits
    return digits - 1 - math.floor(math.log10(abs(value)))


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals, thousands set apart."""
    return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")


def ratio(value: float) -> str:
    """Return a ratio: `0.997`, `0.0312`, `12.4`; three decimals around 1, three digits elsewhere."""
    if 0.1 <= abs(value) < 10:
        return fixed(value, 3)
    return number(value, 3)


def interval(low: float, high: float) -> str:
    """Return `[0.993, 1.002]`, `[7.2, 16.2]`: both ends with the decimals of the upper one.

    The lower one has its own digits where these would leave nothing of it. Nothing when it is not bounded.
    """
    if not math.isfinite(high):
        return ""
    last = ratio(high)
    decimals = len(last.partition(".")[2])
    is_plain = low == 0 or ("e" not in last and round(low, decimals) > 0)
    return f"[{fixed(low, decimals) if low and is_plain else ratio(low)}, {last}]"


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


def share_of_baseline(value: float) -> str:
    """Return a share of the baseline in percent, without the sign: `99.8`, `13.5`, `4.97`."""
    return number(value * 100, 3 if abs(value) < 0.9995 else 4)


def overhead(value: float) -> str:
    """Return a share of the baseline that is lost in percent, without the sign: `0.28`, `2.8`, `50.9`, `−164.8`."""
    share = value * 100
    decimals = 1 if abs(share) >= 0.995 else 2
    return fixed(round(share, decimals) + 0.0, decimals)
