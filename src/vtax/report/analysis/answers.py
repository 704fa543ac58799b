"""The summary of a run: one sentence per platform, made from its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.messages import Note
from vtax.report.analysis.next_step import withheld
from vtax.report.analysis.values import Analysis, Row, every_row
from vtax.report.document import (
    Count,
    Duration,
    Factor,
    Inline,
    Number,
    Range,
    Relative,
    Share,
    first_of,
    joined,
    levels_of,
    listed,
    more_blocks,
    msg,
    stored,
)
from vtax.stats.censoring import floored
from vtax.stats.checks import MINIMUM_BLOCKS, Better
from vtax.stats.outlook import Needed
from vtax.stats.verdict import Kind

_ROUNDED = 100  # blocks, from which two digits are all that is known
_MAX_NAMED = 4
_FAR = 0.5  # below which a share reads as times slower
_DEPENDENT = "withheld-likely-dependent"  # more blocks leave less of it plausible
_KINDS: tuple[Kind, ...] = ("slower", "faster", "equivalent", "undecided")


@dataclass(frozen=True)
class Answer:
    """What a run says about one platform."""

    platform: Annotated[str, Means("name")]
    marks: Annotated[tuple[str, ...], Means("its marks")]
    text: Annotated[Inline, Means("completes the sentence that begins with the platform's name")]


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
    return any(row.summary for *_, row in every_row(analysis.sections))


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
            for row in point.rows:
                yield _Found(name, row, section.better, point.baseline)


def _sentence(analysis: Analysis, contrasts: list[_Found]) -> Inline:
    parts: list[Inline] = []
    for kind in _KINDS:
        these = [c for c in contrasts if c.row.verdict is not None and c.row.verdict.kind == kind]
        if these and kind == "undecided":
            is_bounded = all(_at_most(c) is not None for c in these)
            if is_bounded:
                parts.append(_reach(these, len(contrasts), analysis))
            else:
                parts.append(_part(kind, these, len(contrasts), analysis))
            parts += [*_certain(these, analysis), *_needed(these, analysis)]
        elif these:
            parts.append(_part(kind, these, len(contrasts), analysis))
    parts += _pauses(contrasts)
    parts += _timed_out(contrasts)
    if without := [c for c in contrasts if c.row.verdict is None]:
        reason = without[0].row.reason
        parts.append(msg("has no result on {names}: {reason}", names=_names(without), reason=reason))
    return joined(parts, "; ") if parts else msg("has no results yet")


def _part(kind: Kind, these: list[_Found], total: int, analysis: Analysis) -> Inline:
    spread = _spread(these, total, analysis.baseline)
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


def _at_most(found: _Found) -> float | None:
    return found.row.verdict.costs_at_most if found.row.verdict is not None else None


def _reach(these: list[_Found], total: int, analysis: Analysis) -> Inline:
    """Return what is known where no difference is shown: the least that it reaches, of few comparisons by name."""
    order = sorted(these, key=lambda found: _at_most(found) or 0.0)
    bounds: Inline
    if len(these) > _MAX_NAMED:
        best, worst = order[0], order[-1]
        bounds = msg(
            "{high} on {name} to {low} on {worst}",
            high=_bound_of(best, analysis.baseline), name=best.name, low=_bound_of(worst), worst=worst.name,
        )  # fmt: skip
    else:
        bounds = listed([
            msg("{share} on {name}", share=_bound_of(each, "" if n else analysis.baseline), name=each.name)
            for n, each in enumerate(these)
        ])  # fmt: skip
    if len(these) < total:
        return msg(
            "is undecided in {number} of {total} comparisons, where it reaches at least {bounds} ({level})",
            number=Count(len(these)), total=Count(total), bounds=bounds, level=analysis.level,
        )  # fmt: skip
    if any(_bound(each, analysis.rule.margin) for each in these):
        return msg("is undecided: it reaches at least {bounds} ({level})", bounds=bounds, level=analysis.level)
    return msg("shows no difference: it reaches at least {bounds} ({level})", bounds=bounds, level=analysis.level)


def _bound_of(found: _Found, baseline: str = "") -> Inline:
    return Relative(1 - max(_at_most(found) or 0.0, 0.0), is_of="amount", baseline=baseline)


def _spread(these: list[_Found], total: int, baseline: str) -> Inline:
    """Every share of the baseline when they are few, else the max and the min; each with its interval."""
    if len(these) <= _MAX_NAMED:
        return msg("on {names}", names=listed([
            msg("{name} ({share})", name=each.name, share=_named(_share(each, "" if n else baseline)))
            for n, each in enumerate(these)
        ]))  # fmt: skip
    ordered = sorted(these, key=lambda c: _share(c).estimate, reverse=True)
    first, last = ordered[0], ordered[-1]
    ends = {
        "high": _named(_share(first, baseline)), "high_name": first.name,
        "low": _named(_share(last)), "low_name": last.name,
    }  # fmt: skip
    if len(these) == total:
        return msg(
            "in all {total} comparisons, from {high} on {high_name} to {low} on {low_name}",
            total=Count(total), **ends,
        )  # fmt: skip
    return msg(
        "in {number} of {total} comparisons, from {high} on {high_name} to {low} on {low_name}",
        number=Count(len(these)), total=Count(total), **ends,
    )  # fmt: skip


def _certain(these: list[_Found], analysis: Analysis) -> Iterator[Inline]:
    """By how much undecided contrasts differ at least, where the interval of each alone lies outside the margin.

    Furthest first. The verdict, which is corrected for the family, stays open beside it; of one that is withheld the
    reason says so.
    """
    open_ = [each for each in these if not withheld(each.row)]
    bounds = [(bound[0], each, bound[1]) for each in open_ if (bound := _bound(each, analysis.rule.margin))]
    if not bounds:
        return
    bounds.sort(key=lambda bound: bound[0], reverse=True)
    shown = first_of([text for _, _, text in bounds], _MAX_NAMED)
    if any(each.row.verdict is not None and each.row.verdict.family > 1 for _, each, _ in bounds):
        yield msg("probably {bounds}; not significant after adjustment for all comparisons", bounds=listed(shown))
    else:
        yield msg("{bounds}, not yet a verdict", bounds=listed(shown))


def _bound(found: _Found, margin: float) -> tuple[float, Inline] | None:
    """(how many times it differs at least, the sentence of it), where its interval lies outside the margin."""
    if found.row.ratio is None:
        return None
    efficiency = found.row.ratio.efficiency(found.better)
    name = found.name
    if 0 < efficiency.high < 1 - margin:
        share = Relative(efficiency.high)
        text = msg("at least {share} on {name}", share=share, name=name)
        return 1 / efficiency.high, text if efficiency.high < _FAR else msg(
            "at most {share} on {name}", share=share, name=name
        )
    if 1 + margin < efficiency.low < math.inf:
        return efficiency.low, msg("at least {share} on {name}", share=Relative(efficiency.low), name=name)
    return None


def _timed_out(contrasts: list[_Found]) -> Iterator[Inline]:
    """What trials that timed out say for certain, each contrast by itself."""
    bounded = [c for c in contrasts if c.row.timeouts is not None and c.row.timeouts.slower_at_least > 1]
    for each in bounded[:_MAX_NAMED]:
        assert each.row.timeouts is not None
        times = Number(floored(each.row.timeouts.slower_at_least), 2)
        yield msg("at least {times} times slower on {name}, where trials timed out", times=times, name=each.name)


def _pauses(contrasts: list[_Found]) -> Iterator[Inline]:
    """Where a platform may pause: its ratio and that of typical trials differ clearly; with the latter."""
    these = [c for c in contrasts if c.row.typical is not None and c.row.typical.pauses == "treatment"]
    named: list[Inline] = []
    for each in these:
        assert each.row.typical is not None
        typical = Relative(each.row.typical.efficiency(each.better).estimate)
        named.append(msg("{name} (typical trials {share})", name=each.name, share=typical))
    if named:
        yield msg("may pause on {names}", names=listed(first_of(named, _MAX_NAMED)))


def _needed(these: list[_Found], analysis: Analysis) -> Iterator[Inline]:
    """What would decide undecided contrasts: blocks where a number is known, else the minimum, sessions, or open."""
    measured, planned = len(analysis.sessions), analysis.planned_sessions
    if measured < planned:
        yield msg(
            "needs more sessions: {measured} of {planned} measured", measured=Count(measured), planned=Count(planned)
        )
        return
    if any(c.row.ratio is not None and c.row.ratio.n_sessions > 1 for c in these):
        yield msg("only more sessions would decide")
        return
    known = [c for c in these if _range_of(c) is not None]
    rest = [c for c in these if _range_of(c) is None and c.row.ratio is not None]
    few = [c for c in rest if _has_few_blocks(c)]
    kept_back = [c for c in rest if withheld(c.row)]
    still_open = [c for c in rest if not _has_few_blocks(c) and not withheld(c.row)]
    if known:
        yield _further(known, is_all=not rest)
    if few:
        minimum = Count(MINIMUM_BLOCKS)
        if len(few) == len(these):
            yield msg("a verdict needs {count} blocks", count=minimum)
        else:
            yield msg("a verdict needs {count} blocks on {names}", count=minimum, names=_names(few))
    yield from _withheld(kept_back, analysis, is_all=len(kept_back) == len(these) == 1)
    unsure = [c for c in kept_back if any(note.code == _DEPENDENT for note in withheld(c.row))]
    yield from _limit([*still_open, *unsure], analysis)


def _withheld(these: list[_Found], analysis: Analysis, *, is_all: bool) -> Iterator[Inline]:
    """What intervals say, and why verdicts that they support are not given. is_all: one contrast, without a name."""
    of_reason: dict[Note, list[_Found]] = {}
    for each in these:
        of_reason.setdefault(withheld(each.row)[0], []).append(each)
    for reason, found in of_reason.items():
        bounds = [_bound(each, analysis.rule.margin) if n < _MAX_NAMED else None for n, each in enumerate(found)]
        known = [bound[1] for bound in bounds if bound]
        if known:
            others = [each for each, bound in zip(found, bounds, strict=True) if not bound]
            yield joined([listed([*known, *([_names(others)] if others else [])]), reason], ": ")
        else:
            yield reason if is_all else joined([_names(found), reason], ": ")


def _has_few_blocks(found: _Found) -> bool:
    """Whether its blocks are below the minimum of a verdict."""
    return found.row.ratio is not None and found.row.ratio.n_blocks < MINIMUM_BLOCKS


def _range_of(found: _Found) -> tuple[int, int] | None:
    """The range of further blocks that would decide a contrast; None where it is not known."""
    verdict = found.row.verdict
    if verdict is None or not verdict.blocks_needed_low or not verdict.blocks_needed:
        return None
    return verdict.blocks_needed_low, verdict.blocks_needed


def _further(known: list[_Found], *, is_all: bool) -> Inline:
    """`2 to 20 more blocks would decide stream and dd`. is_all: no other contrast is undecided."""
    ranges = [found for found in map(_range_of, known) if found is not None]
    blocks = more_blocks(max(low for low, _ in ranges), max(high for _, high in ranges))
    if not is_all:
        return msg("{blocks} would decide {names}", blocks=blocks, names=_names(known))
    if len(known) == 1:
        return msg("{blocks} would decide it", blocks=blocks)
    return msg("{blocks} would decide all", blocks=blocks)


def _limit(these: list[_Found], analysis: Analysis) -> Iterator[Inline]:
    """How many blocks the noisiest contrast takes."""
    limiting = [(c, c.row.verdict.needed) for c in these if c.noise > 0 and c.row.verdict is not None]
    known = [(c, found) for c, found in limiting if found is not None]
    if known:
        worst, found = max(known, key=lambda each: each[0].noise)
        sides = tuple(row for row in (worst.base, worst.row) if row is not None)
        yield blocks_in_all(worst.name, sides, worst.noise, found, analysis)


def _names(these: list[_Found]) -> Inline:
    return listed(first_of([c.name for c in these], len(these) if len(these) <= _MAX_NAMED + 1 else _MAX_NAMED))


def _named(share: Relative) -> Inline:
    """Return a share that says why it has no interval."""
    return share if math.isfinite(share.high) else msg("{share} [no interval from one block]", share=share)


def _share(found: _Found, baseline: str = "") -> Relative:
    """Return a contrast that has a ratio as a share of the baseline's performance, with its interval."""
    assert found.row.ratio is not None
    share = found.row.ratio.efficiency(found.better)
    return Relative(share.estimate, share.low, share.high, baseline=baseline)


def blocks_in_all(name: Inline, rows: tuple[Row, ...], noise: float, found: Needed, analysis: Analysis) -> Inline:
    """`noise of dd ...: if equal 90 to 640 blocks in all, to show 5 % 20 to 98, of 34 s each`.

    rows: both sides. noise: standard deviation of the log-ratio from block to block.
    """
    noises = joined([joined([row.platform.name, Share(_block_noise(row))], " ") for row in rows], ", ")
    text = msg(
        "noise of {name} from block to block ({noises}; of the ratio {noise}): if equal {equal} blocks in all, to "
        "show {size} {different}",
        name=name, noises=noises, noise=Share(noise), size=Share(found.size, "declared"),
        equal=blocks_text(found.equal), different=blocks_text(found.different),
    )  # fmt: skip
    if not (analysis.duration_s and analysis.blocks):
        return text
    return msg("{text}, of {duration} each", text=text, duration=Duration(analysis.duration_s / analysis.blocks))


def blocks_text(blocks: tuple[int, int | None]) -> Inline:
    """`9 to 16`, `60 or many more`."""
    low, high = blocks
    if high is None:
        return msg("{low} or many more", low=_count_text(low))
    return _count_text(low) if low == high else Range(_count_text(low), _count_text(high))


def _count_text(blocks: int) -> Inline:
    return Count(blocks) if blocks < _ROUNDED else Number(blocks, 2)


def _block_noise(row: Row) -> float:
    """Coefficient of variation of the block means."""
    return float(row.block_means.std(ddof=1) / abs(row.block_means.mean()))
