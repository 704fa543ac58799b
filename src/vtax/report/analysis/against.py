"""A check of runs against other runs, with which they share no block, by the ratio of both ratios to a baseline.

What the host of a session does to all platforms alike cancels in a ratio to a baseline that both runs have. What it
does to one alone stays, and only several sessions show its size: with one session a side nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis.check import Against, Checks, NotTested, finding, judged, require_block, untested
from vtax.report.analysis.compared import Side
from vtax.report.analysis.contrast import check_names, differences_of, of_all_runs, pairs_of, unmatched_cells
from vtax.report.analysis.lookup import unknown
from vtax.report.analysis.run_differences import design_differences
from vtax.report.analysis.unpaired import Measured, Pair, logs_of_runs, logs_to_baseline, trials_of
from vtax.report.analysis.values import Analysis
from vtax.report.document import Factor, Inline, joined, levels_of, msg
from vtax.stats.checks import StatsError
from vtax.stats.claims import Check, Sample
from vtax.stats.stopping import Rule, interval_confidence


def check_against(
    runs: Sequence[Analysis], others: Sequence[Analysis], margin: float | None = None, platform: str = "",
    metric: str = "", *, label: str = "", detect: float | None = None,
) -> Checks:  # fmt: skip
    """Every platform of some runs against itself in others, at every point that both have.

    margin: 0 to 1; by default the smallest of all runs. platform: the only one. metric: by default the primary ones.
    label: of the one benchmark. detect: see Checks.

    Nothing is compared where the runs do not measure the same; `not_tested` says why. Raises BadInput for runs
    without a block or a baseline in common, and for names that do not exist.
    """
    baseline = _common_baseline(runs, others)
    sides = _side(runs), _side(others)
    lead = runs[0]
    check_names(sides, metric, label)
    treatments = [p.name for p in lead.platforms if p.name != baseline]
    if platform == baseline:
        what = f"{platform} is the baseline that ratios are to"
        raise BadInput(what, hint=f"name one of {', '.join(treatments)}")
    if platform and platform not in treatments:
        raise unknown("platform", platform, treatments, platform, lead.name)
    treatments = [name for name in treatments if platform in ("", name)]
    pairs = [
        of_all_runs(pair, sides, metric, label)
        for pair in pairs_of(*sides, metric, label) if pair.treatment.platform.name in treatments
    ]  # fmt: skip
    alike, unlike = _split(pairs)
    rule = _rule([*runs, *others], alike, margin)
    of = {id(pair.compared): pair for pair in alike}
    compared, alpha = judged(
        rule, [pair.compared for pair in alike], rule.margin, lambda pair: _finding(of[id(pair)], rule.margin)
    )
    not_tested = (*untested(lead, {platform} if platform else None, baseline), *unlike,
                  *_only_in_one(sides, pairs, (metric, label), [platform] if platform else None))  # fmt: skip
    against = Against(tuple(runs), tuple(others), tuple(differences_of(sides, [pair.compared for pair in alike])))
    shown = tuple(dict.fromkeys(each.pair.treatment.platform.name for each in compared))
    return Checks(lead, shown, baseline, rule.margin, tuple(compared), not_tested, alpha, against, detect)


def _only_in_one(
    sides: tuple[Side, Side], pairs: Sequence[Pair], named: tuple[str, str], platforms: Sequence[str] | None
) -> Iterator[NotTested]:
    """Points that the runs of one side alone have. named: metric and label, or nothing. platforms: the only
    ones; None: all."""
    cells = [each for pair in pairs for each in (pair.compared.treatment.cell, pair.compared.baseline.cell)]
    for side in sides:
        for cell in unmatched_cells(side, cells, *named):
            if cell.platform != side.analysis.baseline and (platforms is None or cell.platform in platforms):
                reason = _at(cell.levels, msg("only in {run}", run=side.name))
                yield NotTested(cell.platform, reason, label=cell.label)


def _side(runs: Sequence[Analysis]) -> Side:
    first, *others = (Side(run.name, run, "", {}) for run in runs)
    return replace(first, further=tuple(others))


def _common_baseline(runs: Sequence[Analysis], others: Sequence[Analysis]) -> str:
    """The baseline of all runs. Raises BadInput without one, for a run that is named twice, and for one without a
    block."""
    seen: set[str] = set()
    own = {run.identity or run.name for run in runs}
    for run in (*runs, *others):
        require_block(run)
        if (key := run.identity or run.name) in seen:
            if key in own and run in others:
                what = f"{run.name} is on both sides: a run, or a bundle of it, is not compared with itself"
                raise BadInput(what, hint="name another run or bundle")
            raise BadInput(f"{run.name} is named twice", hint="a run belongs to one side, once")
        seen.add(key)
    baselines = {run.baseline: run.name for run in (*runs, *others)}
    if len(baselines) > 1:
        listed = ", ".join(f"{baseline} in {run}" for baseline, run in baselines.items())
        raise BadInput(
            f"the runs have no baseline in common: {listed}",
            hint="measure both with the same baseline, or both platforms in one run: vtax run STUDY --ab OLD,NEW",
        )  # fmt: skip
    return next(iter(baselines))


def _split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[NotTested]]:
    """Pairs that measure the same in all runs, and the others with what differs."""
    alike, unlike = list[Pair](), list[NotTested]()
    for pair in pairs:
        (lead, _, row), *rest = (*pair.treatment, *pair.baseline)
        found = [text for run, _, other in rest for text in design_differences(lead, run, (row.cell, other.cell))]
        if reasons := list({repr(text): text for text in found}.values()):
            where = row.platform.name, _at(pair.compared.levels, joined(reasons, "; "))
            unlike.append(NotTested(*where, label=pair.compared.section.label))
        else:
            alike.append(pair)
    return alike, unlike


def _at(levels: Mapping[str, object], reason: Inline) -> Inline:
    return joined([Factor(levels_of(levels)), reason], ": ") if levels else reason


def _rule(runs: Sequence[Analysis], pairs: Sequence[Pair], margin: float | None) -> Rule:
    """One rule for all: of the strictest level that the rule of any run asks for after the blocks it made."""
    levels = [
        interval_confidence(run.rule, row.block_means.size)
        for pair in pairs for run, _, row in (*pair.treatment, *pair.baseline)
    ]  # fmt: skip
    smallest = min(run.rule.margin for run in runs) if margin is None else margin
    confidence = max([run.rule.confidence for run in runs] + levels)
    return replace(runs[0].rule, stop="fixed", confidence=confidence, margin=smallest)


def _finding(pair: Pair, margin: float) -> Check:
    """What is claimed of a pair. Raises StatsError where a side has no ratio to its baseline."""
    if pair.compared.reason:
        raise StatsError(pair.compared.reason)
    samples = _sample(pair.treatment, "treatment"), _sample(pair.baseline, "baseline")
    return finding(trials_of(pair), margin, samples)


def _sample(measured: Sequence[Measured], side: str) -> Sample:
    """Log-ratios to the baseline in all blocks of a side, and the session of each."""
    known = tuple(each for each in measured if each[2].summary is not None)
    if not known:
        raise StatsError(Note(f"{side}-without-values"))
    return logs_of_runs(known, logs_to_baseline)
