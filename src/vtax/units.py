"""Parses sizes, durations and shares (`512MiB`, `7s`, `5%`); formats sizes, durations and shares."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeVar

Number = TypeVar("Number", int, float)

_SIZE_FACTORS = {
    "b": 1,
    "k": 1024,
    "kib": 1024,
    "kb": 1000,
    "m": 1024**2,
    "mib": 1024**2,
    "mb": 1000**2,
    "g": 1024**3,
    "gib": 1024**3,
    "gb": 1000**3,
    "t": 1024**4,
    "tib": 1024**4,
    "tb": 1000**4,
}
_TIME_FACTORS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = "512MiB, 64KiB, 1GB or 4096B"
_DURATIONS = "500ms, 7s, 10min or 2h"
_SHARES = "5% or 0.05"
_TOO_LARGE = 2.0**63
_SHOWN = 60  # characters
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*")


def size_bytes(text: str | int) -> int:
    """Return bytes of a size: a plain number, IEC units (KiB, ...; a bare K, M, G is binary) or SI (kB, MB, ...).

    A small b is refused, since it stands for bits, and so is a text without a unit. Raises ValueError with the units
    it knows. Other types are returned unchanged, for the caller to refuse.
    """
    if not isinstance(text, str):
        return _not_bool(text, _SIZES)
    number, unit = _split(text, _SIZE_FACTORS, _SIZES)
    if unit.endswith("b") and not unit.endswith("ib"):
        count, prefix = text.strip().removesuffix(unit).strip(), unit[:-1].upper()
        more = f" or '{count}{prefix}iB'" if prefix else ""
        raise ValueError(
            f"{_cut(text)} ends in b, for bits; for bytes write '{count}{prefix}B'{more}"
        )
    if number * _SIZE_FACTORS[unit.lower()] >= _TOO_LARGE:
        raise ValueError(f"{_cut(text)} is more than any machine has; write for example {_SIZES}")
    return round(number * _SIZE_FACTORS[unit.lower()])


def duration_s(text: str | float) -> float:
    """Return seconds of a duration: a plain number, or with ms, s, min, h, d.

    A text without a unit is refused. Other types are returned unchanged, for the caller to refuse. Raises ValueError
    with the units it knows.
    """
    if not isinstance(text, str):
        return _not_bool(text, _DURATIONS)
    number, unit = _split(text, _TIME_FACTORS, _DURATIONS)
    if number * _TIME_FACTORS[unit.lower()] >= _TOO_LARGE:
        raise ValueError(
            f"{_cut(text)} is longer than anything lasts; write for example {_DURATIONS}"
        )
    return number * _TIME_FACTORS[unit.lower()]


def share_of(value: str | float, *, percent_from_1: bool = False) -> float:
    """Return a share from 0 to 1: `5%` and `0.05` are 0.05. With a percent sign a number is always a percentage.

    percent_from_1: without one it is a percentage from 1 on, as on the command line; else it is returned unchanged,
    for the caller to refuse, as are other types. Raises ValueError for a text that is no number, and for 100 % and
    more.
    """
    if not isinstance(value, str):
        return _not_bool(value, _SHARES)
    match = _SHARE.fullmatch(value)
    if match is None:
        raise ValueError(f"{_cut(value)} is not understood; write for example {_SHARES}")
    number = Decimal(match[1])
    if not match[2] and not (percent_from_1 and number >= 1):
        return float(number)
    if number >= 100:
        raise ValueError(f"{_cut(value)} is not below 100 %; write for example {_SHARES}")
    return float(number / 100)


def format_size(value: int) -> str:
    """Return the shortest exact IEC form of a number of bytes: 536870912 -> `512MiB`."""
    for unit, factor in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if value >= factor and value % factor == 0:
            return f"{value // factor}{unit}"
    return f"{value}B"


def about_size(value: float) -> str:
    """Return bytes to three digits, in the largest binary unit that leaves at least 1: `23.5 GiB`."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.5 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}" if value < 999.5 else f"{value:.0f} {units[0]}"


def format_duration(seconds: float) -> str:
    """Return a time span people read: `0.31 s`, `48 s`, `4 min 05 s`, `2 h 10 min`; `–` for one without end."""
    if not math.isfinite(seconds):
        return "–"
    if seconds <= 0:
        return "0 s"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def format_count(number: int, noun: str) -> str:
    """`1 block`, `5 blocks`."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def format_percent(share: float, spec: str = ".1f") -> str:
    """Return a share as percent; spec: of the number, `+.1f` to show its sign, `g` as it was declared: `2.5 %`."""
    return f"{share * 100:{spec}}\N{NO-BREAK SPACE}%"


def _split(text: str, factors: Mapping[str, float], examples: str) -> tuple[float, str]:
    """Return number and unit of a quantity, the unit in the letters it was written in."""
    match = _NUMBER.fullmatch(text)
    if match and not match[2]:
        raise ValueError(f"{_cut(text)} has no unit; write for example {examples}")
    if not match or match[2].lower() not in factors:
        raise ValueError(f"{_cut(text)} is not understood; write for example {examples}")
    return float(match[1]), match[2]


def _not_bool(value: Number, examples: str) -> Number:
    """Return a value that is not true or false, which Python takes for 1 and 0. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not understood; write for example {examples}")
    return value


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def safe_bound(share: float, *, is_most: bool) -> float:
    """Return the bound of a share to two digits, as it is printed, and true.

    is_most: whether the share is the most that is possible, which is rounded up; the least is rounded down.
    """
    if share == 0 or not math.isfinite(share):
        return share
    scale = 10.0 ** (1 - math.floor(math.log10(abs(share))))
    steps = round(share * scale, 6)  # a product such as 0.07 * 100 is no whole number
    return (math.ceil(steps) if is_most else math.floor(steps)) / scale
