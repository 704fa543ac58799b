"""The summary of a run: one sentence per platform, made from its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vtax.report.analysis.values import Analysis, Row
from vtax.report.document import (
    Count,
    Factor,
    Inline,
    Interval,
    Number,
    Ratio,
    Share,
    joined,
    levels_of,
    listed,
    msg,
    plural,
    stored,
)
from vtax.stats.censoring import floored
from vtax.stats.checks import Better
from vtax.stats.verdict import Kind

_MAX_NAMED = 4
_FAR = 2.0  # times, from which a difference is printed as a multiple
_KINDS: tuple[Kind, ...] = ("slower", "faster", "equivalent", "undecided")


@dataclass(frozen=True)
class Answer:
    """What a run says about one platform. text: completes the sentence that begins with the platform's name."""

    platform: str
    marks: tuple[str, ...]
    text: Inline


@dataclass(frozen=True)
class _Found:
    name: Inline
    row: Row
    better: Better
    base: Row | None = None

    @property
    def noise(self) -> float:
        """Standard deviation of the log-ratio from block to block; 0 where one block says nothing of it."""
        if self.base is None or self.row.ratio is None or self.row.ratio.n_blocks < 2:
            return 0.0
        _, mine, its = np.intersect1d(self.row.blocks, self.base.blocks, return_indices=True)
        return float(np.log(self.row.block_means[mine] / self.base.block_means[its]).std(ddof=1))


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
            reason = msg("was not tested: {reason}", reason=stored(platform.reason))
            found.append(Answer(platform.name, platform.marks, reason))
            continue
        contrasts = [c for c in _contrasts(analysis) if c.row.platform.name == platform.name]
        found.append(Answer(platform.name, platform.marks, _sentence(analysis, contrasts)))
    return tuple(found)


def _contrasts(analysis: Analysis) -> Iterator[_Found]:
    sections = analysis.primary
    for section in sections:
        alone = sum(other.label == section.label for other in sections) == 1
        for point in section.points:
            name: Inline = section.label if alone else section.name
            if point.levels:
                name = msg("{name} ({levels})", name=name, levels=Factor(levels_of(point.levels)))
            base = next((row for row in point.rows if row.platform.is_baseline), None)
            for row in point.rows:
                yield _Found(name, row, section.better, base)


def _sentence(analysis: Analysis, contrasts: list[_Found]) -> Inline:
    parts: list[Inline] = []
    for kind in _KINDS:
        these = [c for c in contrasts if c.row.verdict is not None and c.row.verdict.kind == kind]
        if these:
            certain = list(_certain(these, analysis)) if kind == "undecided" else []
            parts.append(joined([_part(kind, these, len(contrasts), analysis), *certain, *_needed(these)], "; "))
    parts += _pauses(contrasts)
    parts += _timed_out(contrasts)
    if without := [c for c in contrasts if c.row.verdict is None]:
        reason = without[0].row.reason
        parts.append(msg("has no result on {names}: {reason}", names=_names(without), reason=reason))
    return joined(parts, "; ") if parts else msg("has no results yet")


def _part(kind: Kind, these: list[_Found], total: int, analysis: Analysis) -> Inline:
    spread = _spread(these, total)
    if kind == "slower":
        return msg("is slower {where}", where=spread)
    if kind == "faster":
        return msg("is faster {where}", where=spread)
    if kind == "undecided":
        return msg("is undecided {where}", where=spread)
    return msg(
        "is equivalent to {baseline} within ±{margin} {where}",
        baseline=analysis.baseline, margin=Share(analysis.rule.margin, "declared"), where=spread,
    )  # fmt: skip


def _spread(these: list[_Found], total: int) -> Inline:
    """Every efficiency when they are few, else the min and the max; each with its interval."""
    if len(these) <= _MAX_NAMED:
        return msg("on {names}", names=listed([_with_efficiency(each) for each in these]))
    ordered = sorted(these, key=lambda c: _estimate(c.row, c.better))
    first, last = ordered[0], ordered[-1]
    ends = {
        "low": efficiency(first.row, first.better), "low_name": first.name,
        "high": efficiency(last.row, last.better), "high_name": last.name,
    }  # fmt: skip
    if len(these) == total:
        return msg(
            "in all {total} comparisons, efficiency from {low} on {low_name} to {high} on {high_name}",
            total=Count(total), **ends,
        )  # fmt: skip
    return msg(
        "in {number} of {total} comparisons, efficiency from {low} on {low_name} to {high} on {high_name}",
        number=Count(len(these)), total=Count(total), **ends,
    )  # fmt: skip


def _with_efficiency(found: _Found) -> Inline:
    shown = efficiency(found.row, found.better)
    return msg("{name} (efficiency {efficiency})", name=found.name, efficiency=shown)


def _certain(these: list[_Found], analysis: Analysis) -> Iterator[Inline]:
    """What is certain of undecided contrasts whose whole interval lies far outside the margin, each by itself."""
    for each in these[:_MAX_NAMED]:
        if each.row.ratio is None:
            continue
        found = each.row.ratio.efficiency(each.better)
        if 0 < found.high < 1 / _FAR:
            times = Ratio(1 / found.high)
            yield msg("at least {times} times slower on {name}, not yet a verdict", times=times, name=each.name)
        elif 0 < found.high < 1 - analysis.rule.margin:
            share = Share(1 - found.high, "efficiency")
            yield msg("at least {share} slower on {name}, not yet a verdict", share=share, name=each.name)
        elif _FAR < found.low < math.inf:
            times = Ratio(found.low)
            yield msg("at least {times} times faster on {name}, not yet a verdict", times=times, name=each.name)


def _timed_out(contrasts: list[_Found]) -> Iterator[Inline]:
    """What trials that timed out say for certain, each contrast by itself."""
    bounded = [c for c in contrasts if c.row.timeouts is not None and c.row.timeouts.slower_at_least > 1]
    for each in bounded[:_MAX_NAMED]:
        assert each.row.timeouts is not None
        times = Number(floored(each.row.timeouts.slower_at_least), 2)
        yield msg("at least {times} times slower on {name}, where trials timed out", times=times, name=each.name)


def _pauses(contrasts: list[_Found]) -> Iterator[Inline]:
    """Where a platform's ratio and typical ratio differ clearly, with the efficiency of its typical trials."""
    these = [c for c in contrasts if c.row.typical is not None and c.row.typical.pauses == "treatment"]
    named: list[Inline] = []
    for each in these[:_MAX_NAMED]:
        assert each.row.typical is not None
        typical = Share(each.row.typical.efficiency(each.better).estimate, "efficiency")
        named.append(msg("{name} (efficiency of typical trials {efficiency})", name=each.name, efficiency=typical))
    if len(these) > _MAX_NAMED:
        named.append(msg("{count} more", count=Count(len(these) - _MAX_NAMED)))
    if named:
        yield msg("pauses on {names}", names=listed(named))


def _needed(these: list[_Found]) -> Iterator[Inline]:
    verdicts = [c.row.verdict for c in these if c.row.verdict is not None and c.row.verdict.kind == "undecided"]
    known = [(v.blocks_needed_low, v.blocks_needed) for v in verdicts if v.blocks_needed_low and v.blocks_needed]
    if not verdicts:
        return
    if any(c.row.ratio is not None and c.row.ratio.n_sessions > 1 for c in these):
        yield msg("only more sessions would decide")
        return
    if len(known) < len(verdicts):
        yield from _limit(these)
        return
    low, high = max(low for low, _ in known), max(high for _, high in known)
    if low == high:
        yield plural("about {count} more block would decide", "about {count} more blocks would decide", high)
    elif len(known) == 1:
        yield msg("{low} to {high} more blocks would decide it", low=Count(low), high=Count(high))
    else:
        yield msg("{low} to {high} more blocks would decide all", low=Count(low), high=Count(high))


def _limit(these: list[_Found]) -> Iterator[Inline]:
    """Which noise leaves open how many more blocks would decide: of the noisiest contrast, and of its two sides."""
    limiting = [c for c in these if c.row.verdict is not None and not c.row.verdict.blocks_needed and c.noise > 0]
    if not limiting:
        return
    worst = max(limiting, key=lambda c: c.noise)
    sides = [row for row in (worst.base, worst.row) if row is not None]
    noises = [joined([row.platform.name, Share(_block_noise(row))], " ") for row in sides]
    yield msg(
        "noise of {name} from block to block ({noises}; of the ratio {noise}) leaves open how many more blocks would "
        "decide",
        name=worst.name, noises=joined(noises, ", "), noise=Share(worst.noise),
    )  # fmt: skip


def _block_noise(row: Row) -> float:
    """Coefficient of variation of the block means."""
    return float(row.block_means.std(ddof=1) / abs(row.block_means.mean()))


def _names(these: list[_Found]) -> Inline:
    if len(these) <= _MAX_NAMED + 1:
        return listed([c.name for c in these])
    more = msg("{count} more", count=Count(len(these) - _MAX_NAMED))
    return listed([*(c.name for c in these[:_MAX_NAMED]), more])


def efficiency(row: Row, better: Better) -> Inline:
    """Efficiency of a row that has a ratio, with its interval: `13.5 % [12.9, 14.1]`."""
    assert row.ratio is not None
    found = row.ratio.efficiency(better)
    estimate = Share(found.estimate, "efficiency")
    if not math.isfinite(found.high):
        return msg("{efficiency} [no interval from one block]", efficiency=estimate)
    return joined([estimate, Interval(found.low, found.high, "efficiency")], " ")


def _estimate(row: Row, better: Better) -> float:
    assert row.ratio is not None
    return row.ratio.efficiency(better).estimate
