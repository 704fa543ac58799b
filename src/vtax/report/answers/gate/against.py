"""A check of runs against other runs, with which they share no block, by the ratio of both ratios to a baseline.

What the host of a session does to all platforms alike cancels in a ratio to a baseline that both runs have. What it
does to one alone stays, and only several sessions show its size: with one session a side nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vtax.errors import BadInput
from vtax.levels import NO_LEVELS, Level, unknown
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.compared import Cell, CellPair, Side
from vtax.report.analysis.values import Analysis
from vtax.report.answers.compare.compute import (
    check_names,
    differences_of,
    pairs_of,
    unmatched_cells,
)
from vtax.report.answers.compare.run_differences import design_differences
from vtax.report.answers.compare.unpaired import logs_of_runs, logs_to_baseline, trials_of
from vtax.report.answers.gate.compute import (
    Against,
    Checks,
    NotTested,
    judged,
    known_margins,
    of_pairs,
    refuse_other_role,
    refuse_within_margins,
    require_block,
    untested,
)
from vtax.report.document import factors, joined, msg
from vtax.stats.checks import StatsError
from vtax.stats.ranges import Claimed, Sample, at_most
from vtax.stats.rules import Rule
from vtax.stats.terms import Conditions


def check_against(
    runs: Sequence[Analysis],
    baseline_runs: Sequence[Analysis],
    conditions: Conditions,
    platform: str,
    metric: str,
    label: str,
) -> Checks:
    """Every platform of some runs against itself in others, at every point that both have.

    platform: the only one; empty for all. metric: empty for those that answer. label: of the one benchmark; empty for
    all.

    Nothing is compared where the runs do not measure the same; `not_tested` says why. Raises BadInput for runs
    without a block or a baseline in common, and for names that do not exist.
    """
    baseline, margins = _common_baseline(runs, baseline_runs), conditions.margins
    sides = _side(runs), _side(baseline_runs)
    lead = runs[0]
    check_names(sides, metric, label)
    treatments = [p.name for p in lead.platforms if p.name != baseline]
    if platform == baseline:
        sentence = f"{platform} is the baseline that ratios are to"
        raise BadInput(sentence, hint=f"name one of {', '.join(treatments)}")
    if platform and platform not in treatments:
        raise unknown("platform", platform, treatments, platform, lead.name)
    treatments = [name for name in treatments if platform in ("", name)]
    pairs = [
        pair
        for pair in pairs_of(*sides, metric, label)
        if pair.treatment.platform.name in treatments and pair.section.metric.role in margins
    ]
    comparable_pairs, differing_points = _split(pairs)
    all_runs = (*runs, *baseline_runs)
    rule = _rule(all_runs, comparable_pairs)
    limits = known_margins(margins, all_runs)
    refuse_within_margins(conditions.detect, limits)
    refuse_other_role(all_runs, metric, limits)
    limits = of_pairs(limits, pairs) or limits
    comparisons, alpha = judged(rule, comparable_pairs, margins, _claim_of)
    not_tested = (
        *untested(lead, platform, baseline),
        *differing_points,
        *_only_in_one(sides, pairs, (metric, label), platform),
    )
    against = Against(
        tuple(runs), tuple(baseline_runs), tuple(differences_of(sides, comparable_pairs))
    )
    platforms = tuple(
        dict.fromkeys(comparison.pair.treatment.platform.name for comparison in comparisons)
    )
    return Checks(
        lead,
        platforms,
        baseline,
        limits,
        tuple(comparisons),
        not_tested,
        alpha,
        against,
        conditions.detect,
        conditions.strict,
    )


def _only_in_one(
    sides: tuple[Side, Side],
    pairs: Sequence[CellPair],
    metric_and_label: tuple[str, str],
    platform: str,
) -> Iterator[NotTested]:
    """Points that the runs of one side alone have. metric_and_label: either may be empty. platform: the only
    one; empty: all."""
    cells = [cell for pair in pairs for cell in (pair.treatment.cell, pair.baseline.cell)]
    for side in sides:
        for cell in unmatched_cells(side, cells, *metric_and_label):
            if cell.platform != side.analysis.baseline and platform in ("", cell.platform):
                reason = _at(cell.levels, msg("only in {run}", run=side.name))
                yield NotTested(cell.platform, reason, label=cell.label)


def _side(runs: Sequence[Analysis]) -> Side:
    first, *further_sides = (Side(run.name, run, "", NO_LEVELS) for run in runs)
    return replace(first, further=tuple(further_sides))


def _common_baseline(runs: Sequence[Analysis], baseline_runs: Sequence[Analysis]) -> str:
    """Return the baseline of all runs. Raises BadInput without one, for a run that is named twice, and for one
    without a block."""
    keys: set[str] = set()
    treatment_keys = {run.identity or run.name for run in runs}
    for run in (*runs, *baseline_runs):
        require_block(run)
        key = run.identity or run.name
        if key in keys:
            if key in treatment_keys and run in baseline_runs:
                sentence = f"{run.name} is on both sides: a run, or a bundle of it, is not compared with itself"
                raise BadInput(sentence, hint="name another run or bundle")
            raise BadInput(f"{run.name} is named twice", hint="a run belongs to one side, once")
        keys.add(key)
    baselines = {run.baseline: run.name for run in (*runs, *baseline_runs)}
    if len(baselines) > 1:
        names_by_run = ", ".join(f"{baseline} in {run}" for baseline, run in baselines.items())
        raise BadInput(
            f"the runs have no baseline in common: {names_by_run}",
            hint="measure both with the same baseline, or both platforms in one run: vtax run STUDY --ab OLD,NEW",
        )
    return next(iter(baselines))


def _split(pairs: Sequence[CellPair]) -> tuple[list[CellPair], list[NotTested]]:
    """Pairs that measure the same in all runs, and the others with what differs."""
    comparable_pairs, differing_points = list[CellPair](), list[NotTested]()
    for pair in pairs:
        lead, *further_cells = (*pair.cells[0], *pair.cells[1])
        texts: dict[str, doc.Inline] = {}
        for further_cell in further_cells:
            cells = lead.row.cell, further_cell.row.cell
            for text in design_differences(lead.run, further_cell.run, cells):
                texts[repr(text)] = text
        if texts:
            reason = _at(pair.levels, joined(texts.values(), "; "))
            differing_points.append(
                NotTested(pair.treatment.platform.name, reason, label=pair.section.label)
            )
        else:
            comparable_pairs.append(pair)
    return comparable_pairs, differing_points


def _at(levels: Mapping[str, Level], reason: doc.Inline) -> doc.Inline:
    return joined([factors(levels), reason], ": ")


def _rule(runs: Sequence[Analysis], pairs: Sequence[CellPair]) -> Rule:
    """One rule for all: of the strictest level that the rule of any run asks for after the blocks it made."""
    levels = [run.rule.confidence for run in runs]
    for pair in pairs:
        levels += [cell.interval_confidence for side in pair.cells for cell in side]
    confidence = max(levels)
    return replace(runs[0].rule.judged_once, confidence=confidence)


def _claim_of(pair: CellPair, margin: float) -> Claimed:
    """Return what is claimed of a pair. Raises StatsError where a side has no ratio to its baseline."""
    if pair.reason:
        raise StatsError(pair.reason)
    samples = _sample(pair.cells[0], "treatment"), _sample(pair.cells[1], "baseline")
    return at_most(trials_of(pair), margin, samples)


def _sample(cells: Sequence[Cell], side: str) -> Sample:
    """Log-ratios to the baseline in all blocks of a side, and the session of each."""
    if all(cell.row.summary is None for cell in cells):
        raise StatsError(Note(f"{side}-without-values"))
    return logs_of_runs(cells, logs_to_baseline)
