"""The factors of a run: whatever tells two figures apart, varied or not, and their levels as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vtax.levels import (
    BENCHMARK,
    HOST,
    METRIC,
    NAMES,
    PLATFORM,
    TOPOLOGY,
    Levels,
    canonical,
    link_factors,
    number_of,
)
from vtax.report.analysis.values import Analysis
from vtax.store.records import CellRecord, UntestedRecord

BLOCK, SESSION = "block", "session"
PARTS = (BLOCK, SESSION, HOST)


def factors_of(analysis: Analysis) -> list[str]:
    """Return the factors of a run by name: first those that vary, then the settings that all cells share, then
    parts."""
    names = dict.fromkeys(factor for cell in analysis.cells for factor in cell.levels)
    fixed = dict.fromkeys(name for cell in analysis.cells for name in settings_of(cell))
    topology = [TOPOLOGY] if any(cell.topology for cell in analysis.cells) else []
    return list(dict.fromkeys([PLATFORM, BENCHMARK, METRIC, *topology, *names, *fixed, *PARTS]))


def settings_of(cell: CellRecord) -> dict[str, Any]:
    """Return the parameters and link settings that a cell has, varied or not."""
    settings = {**cell.parameters, **link_factors(cell.link)}
    return {name: value for name, value in settings.items() if value is not None}


def recorded(cell: CellRecord | UntestedRecord, metric: str) -> dict[str, str]:
    """Return every level of a cell as text, but parts of the run. metric: empty for none."""
    settings = settings_of(cell) if isinstance(cell, CellRecord) else {}
    own_levels = {
        PLATFORM: cell.platform,
        BENCHMARK: cell.label,
        METRIC: metric,
        TOPOLOGY: cell.topology,
    }
    levels = {
        **settings,
        **cell.levels,
        **{name: level for name, level in own_levels.items() if level},
    }
    return dict(Levels(levels).texts)


def first_spellings(factor: str, levels: Iterable[str]) -> dict[str, str]:
    """Return for every level its first spelling: 10 and 10.0 are one level of a factor of numbers."""
    first: dict[str, str] = {}
    return {level: first.setdefault(canonical(factor, level), level) for level in levels}


def ordered(factor: str, levels: Iterable[str], platforms: Iterable[str]) -> tuple[str, ...]:
    """Levels, each once: platforms in the order of the run, numbers ascending, others as they come."""
    names = dict.fromkeys(levels)
    if factor == PLATFORM:
        order = list(platforms)
        return tuple(sorted(names, key=order.index))
    numbers = {level: number_of(level) for level in names}
    if factor not in NAMES and all(number is not None for number in numbers.values()):
        return tuple(sorted(names, key=lambda level: numbers[level] or 0.0))
    return tuple(names)
