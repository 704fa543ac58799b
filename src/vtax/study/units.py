"""Sizes and durations as people write them in a study: `512MiB`, `64k`, `7s`, `2h`."""

from __future__ import annotations

import re

_SIZE_FACTORS = {
    "": 1, "b": 1,
    "k": 1024, "kib": 1024, "kb": 1000,
    "m": 1024**2, "mib": 1024**2, "mb": 1000**2,
    "g": 1024**3, "gib": 1024**3, "gb": 1000**3,
    "t": 1024**4, "tib": 1024**4, "tb": 1000**4,
}  # fmt: skip
_TIME_FACTORS = {"": 1.0, "ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def size_bytes(text: str | int) -> int:
    """Bytes of a size: a plain number, IEC units (KiB, MiB, ...; a bare K, M, G is binary) or SI (kB, MB, ...).

    Raises ValueError with the units it knows.
    """
    if isinstance(text, int):
        return text
    number, unit = _split(text, _SIZE_FACTORS, "512MiB, 64KiB, 1GB or 4096")
    return round(number * _SIZE_FACTORS[unit])


def duration_s(text: str | float) -> float:
    """Seconds of a duration: a plain number, or with ms, s, min, h, d. Raises ValueError with the units it knows."""
    if isinstance(text, int | float):
        return float(text)
    number, unit = _split(text, _TIME_FACTORS, "500ms, 7s, 10min or 2h")
    return number * _TIME_FACTORS[unit]


def format_size(value: int) -> str:
    """The shortest exact IEC form of a number of bytes: 536870912 -> `512MiB`."""
    for unit, factor in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if value >= factor and value % factor == 0:
            return f"{value // factor}{unit}"
    return f"{value}B"


def _split(text: str, factors: dict[str, float] | dict[str, int], examples: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if not match or match[2].lower() not in factors:
        raise ValueError(f"{text!r} is not understood; write for example {examples}")
    return float(match[1]), match[2].lower()
