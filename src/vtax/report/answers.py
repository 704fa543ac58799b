"""The answer first: one sentence per platform, made from its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vtax.report.analysis import Analysis, Row
from vtax.report.numbers import number, plain_percent
from vtax.stats.ratio import Better
from vtax.stats.verdict import Kind

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
    base = analysis.baseline
    if kind == "equivalent":
        return f"is equivalent to {base} within ±{plain_percent(analysis.rule.margin)} on {_names(these)}"
    if kind == "undecided":
        needed = [c.row.verdict.blocks_needed for c in these if c.row.verdict is not None]
        known = [n for n in needed if n]
        more = f" (about {max(known)} more blocks would settle all)" if known and len(known) == len(needed) else ""
        which = f"in all {total} comparisons" if len(these) == total > 1 else f"on {_names(these)}"
        return f"is undecided {which}{more}"
    if len(these) <= _MOST_NAMED:
        return f"is {kind} on {_names(these, with_share=True)}"
    ordered = sorted(these, key=lambda c: _share(c)[0])
    first, last = ordered[0], ordered[-1]
    return (
        f"is {kind} in {len(these)} of {total} comparisons, from {_share_text(first)} of {base} ({first.name}) "
        f"to {_share_text(last)} ({last.name})"
    )


def _names(these: list[_Found], *, with_share: bool = False) -> str:
    shown = these if len(these) <= _MOST_NAMED + 1 else these[:_MOST_NAMED]
    texts = [f"{c.name} at {_share_text(c)}" if with_share else c.name for c in shown]
    if len(shown) < len(these):
        texts.append(f"{len(these) - len(shown)} more")
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _share(found: _Found) -> tuple[float, float, float]:
    assert found.row.ratio is not None
    efficiency = found.row.ratio.efficiency(found.better)
    return efficiency.estimate, efficiency.low, efficiency.high


def _share_text(found: _Found) -> str:
    estimate, low, high = _share(found)
    return f"{share(estimate)} [{share(low)}, {share(high)}]" if math.isfinite(high) else share(estimate)


def share(value: float) -> str:
    """Performance as a share of the baseline's: `99.8 %`, `13.5 %`, `4.97 %`."""
    text = number(value * 100, 3 if abs(value) < 0.9995 else 4)
    return f"{text}\N{NO-BREAK SPACE}%"
