"""Contrasts across runs: two samples of sessions, or of the blocks of one session a side; and ratios of ratios.

A run is at least one session of its host. With several sessions on both sides, by several runs or by runs of several
sessions, the session is the unit and a verdict can fall. With one a side there is none: what differs between two
sessions is in their ratio, and in no interval. What a session does to all platforms alike cancels where each side is
first divided by the baseline that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtax.messages import Note
from vtax.report.analysis.compared import Compared, Side
from vtax.report.analysis.result import tried
from vtax.report.analysis.values import Analysis, Floats, Ints, Row, Section, every_row
from vtax.stats.checks import StatsError, check_positive
from vtax.stats.contrasts import Contrast, unpaired_ratio_of_logs
from vtax.stats.describe import describe_blocks
from vtax.stats.ratio import Ratio, block_contrast
from vtax.stats.sessions import unpaired_over_sessions
from vtax.stats.stopping import interval_confidence
from vtax.stats.verdict import judge_unordered
from vtax.stats.withholding import for_clock, for_failures

Measured = tuple[Analysis, Section, Row]  # a row, its section and the run that has them
_Logs = tuple[Floats, Ints]  # of blocks, and the session of each


@dataclass(frozen=True)
class Pair:
    """What is compared, and the rows of it that each run of a side has; the first are those of `compared`."""

    compared: Compared
    treatment: tuple[Measured, ...]
    baseline: tuple[Measured, ...]


def unpaired(pairs: Sequence[Pair], sides: tuple[Side, Side], margin: float, confidence: float) -> list[Compared]:
    """Ratios of runs that share no blocks, and verdicts of one family, whichever side is written first.

    A ratio of one session a side has none: were the effect of a session as large as a block's, half of
    all such verdicts would be false.

    Any run may have been looked at while it was made, so intervals and verdicts are all of one level: the strictest
    that the rule of any run asks for after the blocks it made.
    """
    result, ratios = [_pooled(pair) for pair in pairs], dict[int, Ratio]()
    for number, pooled in enumerate(result):
        try:
            check(pooled)
        except StatsError as error:
            result[number] = replace(pooled, reason=error.note)
    level = max(
        (
            interval_confidence(analysis.rule, row.block_means.size)
            for number, pair in enumerate(pairs)
            if not result[number].reason
            for analysis, _, row in (*pair.treatment, *pair.baseline)
        ),
        default=confidence,
    )
    common = shared_baseline(sides)
    for number, pair in enumerate(pairs):
        if result[number].reason:
            continue
        try:
            ratio = _ratio(pair, _own_logs, level)
            ratios[number] = replace(ratio, confidence=confidence)
        except StatsError as error:
            result[number] = replace(result[number], reason=error.note)
    judged = {n: ratio for n, ratio in ratios.items() if ratio.n_sessions > 1}
    better = [pairs[number].compared.section.better for number in judged]
    words = judge_unordered(list(judged.values()), margin, better, 1 - level) if judged else ()
    verdicts = dict(zip(judged, words, strict=True))
    for number, ratio in ratios.items():
        verdict = verdicts.get(number)
        trials = trials_of(pairs[number])
        if verdict is not None:
            verdict = for_failures(verdict, trials)
            verdict = for_clock(verdict) if pairs[number].compared.clock_is_wrong else verdict
        warnings = (*ratio.warnings, *([trials.failures] if trials.failures else ()))
        reason = "" if verdict else Note("one-session")
        result[number] = replace(
            result[number], ratio=replace(ratio, warnings=warnings), verdict=verdict, reason=reason,
            relative=_relative(pairs[number], common, level, confidence),
        )  # fmt: skip
    return result


def trials_of(pair: Pair) -> Contrast:
    """What failed on either side in all of its runs; a contrast without blocks."""
    of, to = ([row for _, _, row in measured] for measured in (pair.treatment, pair.baseline))
    failed = sum(row.failed for row in of), sum(row.failed for row in to)
    made = sum(map(tried, of)), sum(map(tried, to))
    return Contrast(np.full(1, np.nan), pair.compared.section.better, failed=failed, tried=made)


def shared_baseline(sides: tuple[Side, Side]) -> str:
    """The platform that is the baseline of every run; empty without one."""
    names = {run.analysis.baseline for side in sides for run in side.runs}
    return names.pop() if len(names) == 1 else ""


def section_of(analysis: Analysis, row: Row) -> Section:
    """The section of a run that has a row."""
    return next(section for section, _, each in every_row(analysis.sections) if each is row)


def check(pair: Compared) -> None:
    """Raises StatsError when a pair cannot be compared."""
    if pair.reason:
        raise StatsError(pair.reason)
    for name, row in (("treatment", pair.treatment), ("baseline", pair.baseline)):
        if row.summary is None:
            raise StatsError(Note(f"{name}-without-values"))
        check_positive(row.block_means, f"values of the {name}")


def _pooled(pair: Pair) -> Compared:
    """The pair with one row a side: of several runs, its values are the means of sessions."""
    treatment, baseline = _pooled_row(pair.treatment), _pooled_row(pair.baseline)
    return replace(pair.compared, treatment=treatment, baseline=baseline)


def _pooled_row(measured: tuple[Measured, ...]) -> Row:
    if len(measured) == 1:
        return measured[0][2]
    row = next((row for _, _, row in measured if row.summary is not None), measured[0][2])
    means = [
        float(each.block_means[labels(analysis, each.blocks) == number].mean())
        for analysis, _, each in measured
        if each.summary is not None
        for number in np.unique(labels(analysis, each.blocks))
    ]
    if row.summary is None:
        return row
    values, blocks = np.array(means), np.arange(len(means))
    summary, *_ = describe_blocks(values, row.summary.confidence, blocks=blocks)
    return replace(
        row, summary=summary, blocks=blocks, block_means=values, failed=sum(r.failed for _, _, r in measured)
    )


def labels(analysis: Analysis, blocks: Ints) -> Ints:
    """The session of each block."""
    of = {block: session.number for session in analysis.sessions for block in session.blocks}
    return np.array([of.get(block, 1) for block in blocks.tolist()], np.int64)


def _ratio(pair: Pair, logs_of: Callable[[Measured], _Logs], level: float) -> Ratio:
    """Treatment / baseline over sessions, or over the blocks of one session a side. Raises StatsError."""
    treatment, baseline = logs_of_runs(pair.treatment, logs_of), logs_of_runs(pair.baseline, logs_of)
    return unpaired_over_sessions(treatment, baseline, level) or unpaired_ratio_of_logs(
        treatment[0], baseline[0], level
    )


def logs_of_runs(measured: tuple[Measured, ...], logs_of: Callable[[Measured], _Logs]) -> _Logs:
    """Logarithms of all runs of a side; sessions are numbered on from run to run."""
    logs, of, first = [], [], 0
    for each in measured:
        if each[2].summary is None:
            continue
        found, sessions = logs_of(each)
        logs.append(found)
        of.append(sessions + first)
        first = int(of[-1].max()) + 1
    return np.concatenate(logs), np.concatenate(of)


def _own_logs(measured: Measured) -> _Logs:
    analysis, _, row = measured
    return block_contrast(row.means_of_blocks), labels(analysis, row.blocks)


def _relative(pair: Pair, common: str, level: float, confidence: float) -> Ratio | None:
    """The ratio of the two sides' ratios to their common baseline; None where there is none."""
    if not common or common in (pair.treatment[0][2].platform.name, pair.baseline[0][2].platform.name):
        return None
    try:
        found = _ratio(pair, logs_to_baseline, level)
    except StatsError:
        return None
    notes = (Note("ratio-of-ratios"),) if found.n_sessions == 1 else ()
    return replace(found, confidence=confidence, warnings=(*found.warnings, *notes))


def logs_to_baseline(measured: Measured) -> _Logs:
    """Log-ratios to the baseline within blocks. Raises StatsError without any."""
    analysis, section, row = measured
    base = section.point_of(row).baseline
    if base is None or base.summary is None:
        raise StatsError(Note("no-baseline-here"))
    logs = block_contrast(row.means_of_blocks, base.means_of_blocks)
    return logs, labels(analysis, np.union1d(row.blocks, base.blocks))
