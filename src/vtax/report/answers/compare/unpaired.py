"""Contrasts across runs: two samples of sessions, or of the blocks of one session a side; and ratios of ratios.

A run is at least one session of its host. With several sessions on both sides, by several runs or by runs of several
sessions, the session is the unit and a verdict can fall. With one a side there is none: what differs between two
sessions is in their ratio, and in no interval. What a session does to all platforms alike cancels where each side is
first divided by the baseline that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from vtax.messages import Note
from vtax.pairing import Logs
from vtax.report.analysis.compared import Cell, CellPair, Side
from vtax.report.analysis.result import logs_to, tried
from vtax.report.analysis.values import Row, is_other_quantity
from vtax.stats.checks import StatsError, positive_logs
from vtax.stats.contrasts import Contrast, unpaired_ratio_of_logs, zeros_of
from vtax.stats.describe import describe_blocks
from vtax.stats.judge import say_at_most
from vtax.stats.ranges import Sample, at_most
from vtax.stats.ratio import Ratio
from vtax.stats.resolution import coarsened, coarsest
from vtax.stats.rules import FixedRule
from vtax.stats.sessions import unpaired_over_sessions
from vtax.stats.verdict import Verdict, judge_family, worded
from vtax.stats.withholding import for_clock, for_failures, for_resolution, for_work
from vtax.store.query import Floats, Ints


def unpaired(
    pairs: Sequence[CellPair], sides: tuple[Side, Side], confidence: float
) -> list[CellPair]:
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
    levels = []
    for pair in result:
        if not pair.reason:
            levels += [cell.interval_confidence for side in pair.cells for cell in side]
    level = max(levels, default=confidence)
    baseline_name = shared_baseline(sides)
    for number, pair in enumerate(pairs):
        if result[number].reason:
            continue
        try:
            ratios[number] = replace(_own_ratio(pair, level), confidence=confidence)
        except StatsError as error:
            result[number] = replace(result[number], reason=error.note)
    in_family = 1 - (1 - level) / max(len(ratios), 1)
    for number, ratio in ratios.items():
        bounds = _own_ratio(pairs[number], in_family)
        ratios[number] = replace(ratio, family_low=bounds.low, family_high=bounds.high)
    verdicts = _verdicts(pairs, ratios, level)
    for number, ratio in ratios.items():
        verdict = verdicts.get(number)
        trials = trials_of(pairs[number])
        warnings = (*ratio.warnings, *trials.notes)
        reason = "" if verdict else Note("one-session")
        result[number] = replace(
            result[number],
            ratio=replace(ratio, warnings=warnings),
            verdict=worded(verdict, pairs[number].section.metric.role),
            reason=reason,
            relative=_relative(pairs[number], baseline_name, level, confidence),
        )
    return result


def _verdicts(
    pairs: Sequence[CellPair], ratios: Mapping[int, Ratio], level: float
) -> dict[int, Verdict]:
    """Return the verdicts on the ratios over several sessions, by their numbers: one family.

    pairs: all.
    ratios: by the number of their pair.
    level: confidence of the family.
    """
    session_ratios = {str(n): ratio for n, ratio in ratios.items() if ratio.n_sessions > 1}
    if not session_ratios:
        return {}
    trials = {name: trials_of(pairs[int(name)]) for name in session_ratios}
    better = [contrast.better for contrast in trials.values()]
    margins = [pairs[int(name)].margin for name in session_ratios]
    words = judge_family(list(session_ratios.values()), margins, better, 1 - level)
    verdicts = {}
    for (name, ratio), word in zip(session_ratios.items(), words, strict=True):
        verdict = for_work(for_failures(word, trials[name]), trials[name])
        verdict = for_resolution(verdict, ratio, trials[name].resolution)
        verdicts[name] = for_clock(verdict) if trials[name].clock_is_wrong else verdict
    no_samples: tuple[Sample, Sample] = (((), ()), ((), ()))
    claims = {}
    for (name, contrast), margin in zip(trials.items(), margins, strict=True):
        claims[name] = at_most(contrast, margin, no_samples)
    rule = FixedRule(confidence=level)
    final_verdicts = say_at_most(verdicts, session_ratios, claims, rule, 1 - level)
    return {int(name): verdict for name, verdict in final_verdicts.items()}


def trials_of(pair: CellPair) -> Contrast:
    """Return what failed on either side in all of its runs, and how finely they measured; without blocks."""
    of, to = ([cell.row for cell in side] for side in pair.cells)
    failed = sum(row.failed for row in of), sum(row.failed for row in to)
    trials = sum(map(tried, of)), sum(map(tried, to))
    zeros = sum(len(zeros_of(row.means_of_blocks)) for row in (*of, *to) if row.summary)
    return Contrast(
        np.full(1, np.nan),
        pair.section.better,
        failed=failed,
        tried=trials,
        resolution=coarsest([row.resolution for row in (*of, *to)]),
        zeros=zeros,
        clock_is_wrong=pair.clock_is_wrong,
        is_other_quantity=is_other_quantity(of, to),
    )


def shared_baseline(sides: tuple[Side, Side]) -> str:
    """Return the platform that is the baseline of every run; empty without one."""
    names = {run.analysis.baseline for side in sides for run in side.runs}
    return names.pop() if len(names) == 1 else ""


def check(pair: CellPair) -> None:
    """Raise StatsError when a pair cannot be compared."""
    if pair.reason:
        raise StatsError(pair.reason)
    for name, row in (("treatment", pair.treatment), ("baseline", pair.baseline)):
        if row.summary is None:
            raise StatsError(Note(f"{name}-without-values"))
        positive_logs(row.block_means, f"values of the {name}")


def _pooled(pair: CellPair) -> CellPair:
    """Return the pair with one row a side: of several runs, its values are the means of sessions."""
    treatment, baseline = map(_pooled_row, pair.cells)
    return replace(pair, treatment=treatment, baseline=baseline)


def _pooled_row(cells: tuple[Cell, ...]) -> Row:
    measured_cells = [cell for cell in cells if cell.row.summary is not None]
    if len(cells) == 1 or not measured_cells:
        return cells[0].row
    means = []
    for cell in measured_cells:
        sessions = cell.run.units_of(cell.row.blocks)[:, -1]
        for number in np.unique(sessions):
            means.append(float(cell.row.block_means[sessions == number].mean()))
    row, values, blocks = measured_cells[0].row, np.array(means), np.arange(len(means))
    assert row.summary is not None
    summary, *_ = describe_blocks(values, row.summary.confidence, blocks=blocks)
    failed = sum(cell.row.failed for cell in cells)
    return replace(row, summary=summary, blocks=blocks, block_means=values, failed=failed)


def _own_ratio(pair: CellPair, level: float) -> Ratio:
    """Treatment / baseline, no finer than what was measured. Raises StatsError."""
    return coarsened(_ratio(pair, _own_logs, level), trials_of(pair).resolution)


def _ratio(pair: CellPair, logs_of: Callable[[Cell], Logs], level: float) -> Ratio:
    """Treatment / baseline over sessions, or over the blocks of one session a side. Raises StatsError."""
    treatment, baseline = (logs_of_runs(side, logs_of) for side in pair.cells)
    return unpaired_over_sessions(treatment, baseline, level) or unpaired_ratio_of_logs(
        treatment[0], baseline[0], level
    )


def logs_of_runs(cells: Sequence[Cell], logs_of: Callable[[Cell], Logs]) -> tuple[Floats, Ints]:
    """Return the logarithms of all runs of a side, and the host and session of each.

    Sessions are numbered on from run to run.
    """
    logs, of, first = [], [], 0
    for cell in cells:
        if cell.row.summary is None:
            continue
        of_run = logs_of(cell)
        sessions = cell.run.units_of(of_run.units)
        sessions[:, -1] += first
        first = int(sessions[:, -1].max()) + 1
        logs.append(of_run.values)
        of.append(sessions)
    return np.concatenate(logs), np.concatenate(of)


def _own_logs(cell: Cell) -> Logs:
    return Logs(cell.row.blocks, positive_logs(cell.row.block_means, "values")).known()


def _relative(pair: CellPair, baseline_name: str, level: float, confidence: float) -> Ratio | None:
    """Return the ratio of the two sides' ratios to their common baseline; None where there is none."""
    if not baseline_name or baseline_name in (
        pair.treatment.platform.name,
        pair.baseline.platform.name,
    ):
        return None
    try:
        ratio = _ratio(pair, logs_to_baseline, level)
    except StatsError:
        return None
    notes = (Note("ratio-of-ratios"),) if ratio.n_sessions == 1 else ()
    return replace(ratio, confidence=confidence, warnings=(*ratio.warnings, *notes))


def logs_to_baseline(cell: Cell) -> Logs:
    """Return the log-ratios to the baseline within blocks. Raises StatsError without any."""
    return logs_to(cell.row, cell.section.point_of(cell.row).baseline)
