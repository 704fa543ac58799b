"""The answer first: one sentence per platform, made from its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vtax.report.analysis import Analysis, Row
from vtax.report.numbers import number, plain_percent
from vtax.stats.checks import Better
from vtax.stats.verdict import Kind
from vtax.study.units import format_count

_MOST_NAMED = 4
_KINDS: tuple[Kind, ...] = ("slower", "faster", "equivalent", "undecided")


@dataclass(frozen=True)
class Answer:
    """What a run says about one platform. text: completes the sentence that begins with the platform's name."""

    platform: str
    marks: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class _Found:
    name: str
    row: Row
    better: Better


def is_measured(analysis: Analysis) -> bool:
    """Whether the run has a single figure."""
    return any(row.summary for section in analysis.sections for point in section.points for row in point.rows)


def answers(analysis: Analysis) -> tuple[Answer, ...]:
    """One answer for every platform but the baseline, in study order: how it compares, or why it was not tested."""
    found: list[Answer] = []
    for platform in analysis.platforms:
        if platform.is_baseline:
            continue
        if not platform.available:
            found.append(Answer(platform.name, platform.marks, f"was not tested: {platform.reason}"))
            continue
        contrasts = [c for c in _contrasts(analysis) if c.row.platform.name == platform.name]
        found.append(Answer(platform.name, platform.marks, _sentence(analysis, contrasts)))
    return tuple(found)


def _contrasts(analysis: Analysis) -> Iterator[_Found]:
    sections = analysis.primary
    for section in sections:
        alone = sum(other.label == section.label for other in sections) == 1
        for point in section.points:
            name = section.label if alone else section.name
            for row in point.rows:
                yield _Found(f"{name} ({point.name})" if point.levels else name, row, section.better)


def _sentence(analysis: Analysis, contrasts: list[_Found]) -> str:
    parts = []
    for kind in _KINDS:
        these = [c for c in contrasts if c.row.verdict is not None and c.row.verdict.kind == kind]
        if these:
            parts.append(_part(kind, these, len(contrasts), analysis))
    if without := [c for c in contrasts if c.row.verdict is None]:
        parts.append(f"has no answer on {_names(without)}: {without[0].row.trouble}")
    return "; ".join(parts) if parts else "has no figures yet"


def _part(kind: Kind, these: list[_Found], total: int, analysis: Analysis) -> str:
    margin = plain_percent(analysis.rule.margin)
    word = f"equivalent to {analysis.baseline} within ±{margin}" if kind == "equivalent" else kind
    return f"is {word} {_spread(these, total)}{_needed(these)}"


def _spread(these: list[_Found], total: int) -> str:
    """Every efficiency when they are few, else the least and the greatest; each with its interval."""
    if len(these) <= _MOST_NAMED:
        return "on " + _joined([f"{c.name} (efficiency {efficiency(c.row, c.better)})" for c in these])
    ordered = sorted(these, key=lambda c: _estimate(c.row, c.better))
    first, last = ordered[0], ordered[-1]
    where = f"in all {total} comparisons" if len(these) == total else f"in {len(these)} of {total} comparisons"
    return (
        f"{where}, efficiency from {efficiency(first.row, first.better)} on {first.name} "
        f"to {efficiency(last.row, last.better)} on {last.name}"
    )


def _needed(these: list[_Found]) -> str:
    needed = [c.row.verdict.blocks_needed for c in these if c.row.verdict is not None]
    known = [n for n in needed if n]
    if not known or len(known) < len(needed):
        return ""
    settle = "would settle it" if len(known) == 1 else "would settle all"
    return f"; about {format_count(max(known), 'more block')} {settle}"


def _names(these: list[_Found]) -> str:
    shown = these if len(these) <= _MOST_NAMED + 1 else these[:_MOST_NAMED]
    more = [f"{len(these) - len(shown)} more"] if len(shown) < len(these) else []
    return _joined([c.name for c in shown] + more)


def _joined(texts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def efficiency(row: Row, better: Better) -> str:
    """Efficiency of a row that has a ratio, with its interval: `13.5 % [12.9, 14.1]`."""
    assert row.ratio is not None
    found = row.ratio.efficiency(better)
    text = percent_of(found.estimate)
    return f"{text} {bounds(found.low, found.high) if math.isfinite(found.high) else '[no interval from one block]'}"


def bounds(low: float, high: float) -> str:
    """An interval of shares, in percent without the sign: `[12.9, 14.1]`."""
    return f"[{_percents(low)}, {_percents(high)}]"


def percent_of(value: float) -> str:
    """A share of the baseline in percent: `99.8 %`, `13.5 %`, `4.97 %`."""
    return f"{_percents(value)}\N{NO-BREAK SPACE}%"


def _percents(value: float) -> str:
    return number(value * 100, 3 if abs(value) < 0.9995 else 4)


def _estimate(row: Row, better: Better) -> float:
    assert row.ratio is not None
    return row.ratio.efficiency(better).estimate
