"""Any cells against any: platform against platform, level against level, run against run.

A side is written `[RUN:]PLATFORM[@factor=level,...]`, or RUN alone for all cells of a run; RUN may be several,
`RUN,RUN,...`. Within one run the two sides are paired by block; across runs, which share no blocks, they are compared
as two samples (`unpaired`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from vtax.errors import BadInput, NotFound
from vtax.levels import NO_LEVELS, PLATFORM, KnownLevels, Levels, unknown
from vtax.messages import Note
from vtax.question import Projection, Selection, by, rest
from vtax.report import document as doc
from vtax.report.analysis.compared import (
    Cell,
    CellPair,
    Contrasts,
    Mismatch,
    Side,
    Unmatched,
    by_table,
)
from vtax.report.analysis.result import analyse, row_contrast
from vtax.report.analysis.values import Analysis, Section
from vtax.report.answers.compare.run_differences import differences, setting_differences
from vtax.report.answers.compare.unpaired import check, shared_baseline, unpaired
from vtax.stats.checks import StatsError
from vtax.stats.judge import Comparison, Contrast
from vtax.stats.judge import analyse as judge
from vtax.stats.verdict import worded
from vtax.store.records import CellRecord
from vtax.store.store import LAST, Store

_PLAIN_NAME = re.compile(r"(?!.*\.vtax\.gz$)[^:,/]+")
"""A side that is one name: no run with a platform, no several runs, and no bundle."""


def contrast(
    store: Store,
    treatment: str,
    baseline: str,
    *,
    metric: str = "",
    label: str = "",
    run: Analysis | None = None,
) -> Contrasts:
    """Every contrast of two sides: all primary metrics they share, or the metric and benchmark label named.

    run: of a side that names none; the last one by default. Raises BadInput, with near names, for what does not
    exist, and when the sides have nothing in common.
    """
    runs = {run.name: run} if run else {}
    name = run.name if run else LAST
    sides = sides_of(store, treatment, runs, name), sides_of(store, baseline, runs, name)
    _check_alike(sides)
    check_names(sides, metric, label)
    pairs = list(pairs_of(sides[0], sides[1], metric, label))
    if not pairs:
        raise BadInput(
            f"{treatment} and {baseline} have nothing in common that was measured",
            hint="name runs with the same benchmarks and levels, or a metric that both have",
        )
    pairs, mismatched = _split(pairs) if sides[0].is_run else (pairs, ())
    if pairs and all(pair.treatment is pair.baseline for pair in pairs):
        raise BadInput(
            f"{treatment} and {baseline} are the same cells",
            hint="vary the platform, a level, or the run",
        )
    is_paired = sides[0].analysis.name == sides[1].analysis.name
    rules = [run.analysis.rule for side in sides for run in side.runs]
    margin, confidence = min(rule.margin for rule in rules), max(rule.confidence for rule in rules)
    if is_paired:
        is_of_table = all(_is_in_table(pair) for pair in pairs)
        answered_pairs = (
            [_as_in_table(pair) for pair in pairs] if is_of_table else _paired(pairs, sides[1])
        )
        return Contrasts(
            sides[0],
            sides[1],
            is_paired,
            margin,
            confidence,
            tuple(answered_pairs),
            is_of_table=is_of_table,
        )
    treatments = [*(p.treatment.cell for p in pairs), *(m.treatment for m in mismatched)]
    baselines = [*(p.baseline.cell for p in pairs), *(m.baseline for m in mismatched)]
    return Contrasts(
        sides[0],
        sides[1],
        is_paired,
        margin,
        confidence,
        tuple(unpaired(pairs, sides, confidence)),
        tuple(differences_of(sides, pairs)),
        Unmatched(
            unmatched_cells(sides[0], treatments, metric, label),
            unmatched_cells(sides[1], baselines, metric, label),
        ),
        mismatched,
        shared_baseline(sides),
    )


def texts_of(store: Store, text: str) -> list[str]:
    """Return a side's text for each of its runs: `tour-1,tour-2:lxc` is `tour-1:lxc` and `tour-2:lxc`.

    Raises BadInput for an unknown run among several, and for one that is named twice.
    """
    head, colon, selection = text.partition(":")
    names = [name.strip() for name in head.split(",")]
    if len(names) == 1 or names[0] not in {*store.run_names(), LAST}:
        return [text]
    runs = [store.open_run(name).name for name in names]
    for name in runs:
        if runs.count(name) > 1:
            raise BadInput(f"{text} names {name} twice", hint="name each run once")
    return [f"{name}{colon}{selection}" for name in runs]


def sides_of(store: Store, text: str, runs: dict[str, Analysis], run_name: str) -> Side:
    """Return a side of one run or several."""
    first, *further_sides = (
        side_of(store, run_text, runs, run_name) for run_text in texts_of(store, text)
    )
    return replace(first, text=text, further=tuple(further_sides))


def home_run(store: Store, texts: Sequence[str], run_name: str = LAST) -> str:
    """Return the run of sides that name none: the one that another of them names, as in `tour-1:docker podman`.

    Raises BadInput for a name that no run has, with near ones, and where the last run lacks a platform of them.
    """
    if run_name != LAST:
        return run_name
    names = store.run_names()
    for text in texts:
        head, colon, _ = text.partition(":")
        if colon and head in names:
            return head
    if names:
        _refuse_last(store, [text.partition("@")[0] for text in texts if text])
    return LAST


def _refuse_last(store: Store, sides: Sequence[str]) -> None:
    """Raise BadInput for sides of the last run, runs and bundles among them, that it does not have."""
    last_run = store.open_run(LAST)
    platforms_of_run = [platform.name for platform in last_run.platforms]
    lacking = [
        name for name in sides if name not in platforms_of_run and _PLAIN_NAME.fullmatch(name)
    ]
    if not lacking:
        return
    runs = store.runs()
    names = [run.name for run in runs]
    platforms = list(
        dict.fromkeys([*platforms_of_run, *(name for run in runs for name in run.platforms)])
    )
    lacking = [name for name in lacking if name not in (*names, LAST)]
    for name in lacking:
        if name not in platforms:
            raise _neither(name, platforms, names)
    if lacking:
        hint = f"vtax list --where platform={lacking[0]} lists the runs that have it"
        for run in reversed(runs):
            if {*sides} <= {*run.platforms}:
                hint = f"--run {run.name} has {'both' if len(sides) > 1 else 'it'}"
                break
        raise BadInput(f"{last_run.name}, the last run, has no {lacking[0]}", hint=hint)


def _neither(name: str, platforms: Sequence[str], runs: Sequence[str]) -> NotFound:
    """Return the error for a name that is neither a platform nor a run, with the nearest of both."""
    near = get_close_matches(name, platforms, n=3, cutoff=0.5)
    near += get_close_matches(name, runs, n=3, cutoff=0.5)
    hint = f"platforms: {', '.join(platforms)}; runs: vtax list"
    if near:
        hint = f"did you mean {', '.join(near)}?"
    if name.endswith(".vtax.gz"):
        hint = f"vtax import {name}, and compare the run that it names; only a gate takes a bundle, as B"
    return NotFound(f"there is no run or platform {name!r}", hint=hint)


def run_of(store: Store, text: str, run_name: str = LAST) -> tuple[str, str]:
    """(name of the run, what follows it) of a side's text. run_name: where it names no run.

    Nothing follows a whole run. The name of a run is the whole of it, unless `run_name` has such a platform.
    """
    head, colon, selection = text.partition(":")
    if head not in {*store.run_names(), LAST}:
        return store.open_run(run_name).name, text
    if colon:
        return store.open_run(head).name, selection
    run = store.open_run(run_name)
    if text in [platform.name for platform in run.platforms]:
        return run.name, text
    return store.open_run(head).name, selection


def side_of(
    store: Store, text: str, runs: dict[str, Analysis] | None = None, run_name: str = LAST
) -> Side:
    """Return a side from its text. runs: analyses that were made already, by run name; added to. run_name: see
    run_of.

    What stands before the first colon is a run, unless the whole is a platform of that run (`ssh:server`).
    """
    analyses = {} if runs is None else runs
    name, selection = run_of(store, text, run_name)
    head, colon, _ = selection.partition(":")
    if name not in analyses:
        analyses[name] = analyse(store, name)
    analysis = analyses[name]
    if not selection:
        return Side(text, analysis, "", NO_LEVELS)
    platforms = [p.name for p in analysis.platforms]
    platform = max(
        (p for p in platforms if selection == p or selection.startswith(f"{p}@")),
        key=len,
        default=selection.partition("@")[0],
    )
    if platform not in platforms:
        if colon and selection == text and not any(p.partition(":")[0] == head for p in platforms):
            store.open_run(head)  # raises, with the nearest names
        if selection == text == platform:
            raise _neither(text, platforms, [run.name for run in store.runs()])
        raise unknown("platform", platform, platforms, text, analysis.name)
    record = next(p for p in analysis.platforms if p.name == platform)
    if not record.available:
        raise BadInput(
            f"{analysis.name} could not test {platform}: {record.reason}",
            where=text,
            hint=record.hint,
        )
    _, separator, levels_text = selection[len(platform) :].partition("@")
    levels = _levels(levels_text, text, analysis) if separator else NO_LEVELS
    return Side(text, analysis, platform, levels)


def _levels(levels_text: str, text: str, analysis: Analysis) -> Levels:
    """Return the levels of a side as the run spells them. Raises BadInput."""
    known_levels = KnownLevels(analysis.name, (cell.levels for cell in analysis.cells))
    form = "write PLATFORM@factor=level,... or just PLATFORM"
    selection = Selection.parse([levels_text], known_levels, text, form)
    for factor, levels in selection.canonical.items():
        if len(levels) > 1:
            raise BadInput(f"a side has one level of {factor}", where=text, hint=form)
    return Levels((factor, chosen_levels[0]) for factor, chosen_levels in selection.choices.items())


def _check_alike(sides: tuple[Side, Side]) -> None:
    """Refuse a whole run beside a platform, and beside itself."""
    runs = [side for side in sides if side.is_run]
    if len(runs) == 1:
        (platform_side,) = (side for side in sides if not side.is_run)
        hint = f"write {runs[0].text}:{platform_side.platform}, or two runs"
        raise BadInput(
            f"{runs[0].text} is a whole run, and {platform_side.text} a platform of one", hint=hint
        )
    treatment, baseline = ({run.analysis.name for run in side.runs} for side in sides)
    if len(runs) == 2 and treatment == baseline:
        sentence_end = "the same run" if len(treatment) == 1 else "the same runs"
        raise BadInput(
            f"{sides[0].text} and {sides[1].text} are {sentence_end}",
            hint="name another run: vtax list",
        )
    has_several = len(treatment) > 1 or len(baseline) > 1 or len(runs) == 2
    shared_runs = sorted(treatment & baseline)
    if shared_runs and has_several:
        raise BadInput(f"{shared_runs[0]} is on both sides", hint="a run belongs to one side")


def check_names(sides: tuple[Side, Side], metric: str, label: str) -> None:
    """Raise BadInput for a metric or a benchmark that a side does not have."""
    for side in sides:
        sections = side.analysis.sections
        labels = list(dict.fromkeys(section.label for section in sections))
        if label and label not in labels:
            raise unknown("benchmark", label, labels, "--benchmark", side.analysis.name)
        of_label = [section for section in sections if label in ("", section.label)]
        metrics = list(dict.fromkeys(section.metric.name for section in of_label))
        if metric and metric not in metrics:
            raise unknown("metric", metric, metrics, "--metric", side.analysis.name)


def pairs_of(treatment: Side, baseline: Side, metric: str, label: str) -> Iterator[CellPair]:
    """Cells of the two sides that are alike but for what the sides say, with those of their further runs."""
    fixed = (*treatment.levels, *baseline.levels)
    for section in treatment.analysis.sections:
        baseline_section = _alike(section, baseline.analysis)
        if baseline_section is None or not _is_wanted(section, metric, label):
            continue
        reason = (
            "" if section.metric.unit == baseline_section.metric.unit else Note("different-units")
        )
        for cells in _joined(section, treatment, baseline):
            row, base = cells[0][0].row, cells[1][0].row
            levels = Levels({**base.cell.levels, **row.cell.levels}).without(fixed)
            yield CellPair(section, levels, row, base, cells, reason=reason)


def _is_wanted(section: Section, metric: str, label: str) -> bool:
    """Whether a section is of the metric, or of a primary one where none is named, and of the benchmark."""
    is_of_metric = section.metric.name == metric if metric else section.is_answer
    return is_of_metric and label in ("", section.label)


def _alike(section: Section, run: Analysis) -> Section | None:
    """Return the section of a run that measures the same."""
    for candidate in run.sections:
        is_of_table = (candidate.label, candidate.benchmark) == (section.label, section.benchmark)
        if is_of_table and candidate.metric.name == section.metric.name:
            return candidate
    return None


def _joined(
    section: Section, treatment: Side, baseline: Side
) -> Iterator[tuple[tuple[Cell, ...], tuple[Cell, ...]]]:
    """Yield the cells of a section, in all runs of either side, that differ in what the sides name alone.

    Whole runs are joined by their platforms and by every factor that one of them varies: what another one fixes
    counts as its level.
    """
    treatments = _cells_by_run(section, treatment)
    baselines = _cells_by_run(section, baseline)
    if treatment.is_run:
        factors: set[str] = set()
        for cells in (*treatments, *baselines):
            for cell in cells:
                factors.update(cell.row.cell.levels)
        place = by(PLATFORM, *factors)
        of = [{place.of(cell.settings): cell for cell in cells} for cells in treatments]
        to = [{place.of(cell.settings): cell for cell in cells} for cells in baselines]
    else:
        place = rest(PLATFORM, *treatment.levels, *baseline.levels)
        of = [_placed(cells, treatment, baseline, place) for cells in treatments]
        to = [_placed(cells, baseline, treatment, place) for cells in baselines]
    for key in of[0]:
        if key in to[0]:
            yield (
                tuple(of_run[key] for of_run in of if key in of_run),
                tuple(of_run[key] for of_run in to if key in of_run),
            )


def _cells_by_run(section: Section, side: Side) -> list[list[Cell]]:
    """Return the cells of a section in each run of a side that measured it."""
    cells = []
    for run in side.runs:
        section_of_run = _alike(section, run.analysis)
        if section_of_run is not None:
            cells.append([Cell(run.analysis, section_of_run, row) for row in section_of_run.rows])
    return cells


def _placed(
    cells: Iterable[Cell], side: Side, other: Side, place: Projection
) -> dict[Levels, Cell]:
    """Return the cells of a side by their places.

    A factor that only the other side fixes is held at the same level here, where this side has it.
    """
    held_levels = other.selection.without(side.selection.choices)
    cells_by_place = {}
    for cell in cells:
        if side.selection.selects(cell.levels) and held_levels.allows(cell.levels):
            cells_by_place[place.of(cell.levels)] = cell
    return cells_by_place


def _split(pairs: Sequence[CellPair]) -> tuple[list[CellPair], tuple[Mismatch, ...]]:
    """Pairs of whole runs with the same settings, and the cells of the others, each once.

    Factors of either cell are settings that the pairs were matched by.
    """
    pairs_alike, mismatches = [], dict[tuple[str, str], Mismatch]()
    for pair in pairs:
        treatment, baseline = pair.treatment.cell, pair.baseline.cell
        factors = {*treatment.levels, *baseline.levels}
        reasons = tuple(setting_differences(treatment, baseline, factors))
        if reasons:
            mismatches[treatment.key, baseline.key] = Mismatch(treatment, baseline, reasons)
        else:
            pairs_alike.append(pair)
    return pairs_alike, tuple(mismatches.values())


def unmatched_cells(
    side: Side, paired_cells: Sequence[CellRecord], metric: str, label: str
) -> tuple[CellRecord, ...]:
    """Cells of a whole run that have the metrics and are in no pair."""
    if not side.is_run:
        return ()
    keys = {cell.key for cell in paired_cells}
    cells = {}
    for section in side.analysis.sections:
        if _is_wanted(section, metric, label):
            cells.update({row.cell.key: row.cell for row in section.rows})
    return tuple(cell for key, cell in cells.items() if key not in keys)


def _is_in_table(pair: CellPair) -> bool:
    """Whether the run's own table has this ratio: of a platform to the baseline, at the same point."""
    return pair.section.point_of(pair.treatment).baseline is pair.baseline


def _as_in_table(pair: CellPair) -> CellPair:
    """Return the pair with the answer of the run's table, judged in the family of that."""
    try:
        check(pair)
    except StatsError as error:
        return replace(pair, reason=error.note)
    row = pair.treatment
    return replace(
        pair, ratio=row.ratio, verdict=row.verdict, reason="" if row.ratio else row.reason
    )


def paired(pair: CellPair, analysis: Analysis) -> Contrast:
    """Judge a pair of one run. Raises StatsError when its sides cannot be compared."""
    check(pair)
    result = row_contrast(pair.treatment, pair.baseline, pair.section.better, analysis.units)
    if np.isnan(result.logs).all():
        raise StatsError(Note("no-shared-block"))
    return result


def _paired(pairs: Sequence[CellPair], side: Side) -> list[CellPair]:
    """Block-paired ratios and verdicts, under the rule that ended the run; those of a metric are one family."""
    result = list(pairs)
    for family in by_table(pairs):
        contrasts: dict[str, Contrast] = {}
        for number in family:
            try:
                contrasts[str(number)] = paired(pairs[number], side.analysis)
            except StatsError as error:
                result[number] = replace(pairs[number], reason=error.note)
        rule = side.analysis.rule.within(pairs[family[0]].section.margin)
        for name, answer in judge(rule, contrasts).items():
            result[int(name)] = _answered(pairs[int(name)], answer)
    return result


def _answered(pair: CellPair, answer: Comparison | StatsError) -> CellPair:
    if isinstance(answer, StatsError):
        return replace(pair, reason=answer.note)
    verdict = worded(answer.verdict, pair.section.metric.role)
    return replace(pair, ratio=answer.ratio, verdict=verdict)


def differences_of(sides: tuple[Side, Side], pairs: Sequence[CellPair]) -> Iterator[doc.Inline]:
    """Yield what differs between the runs besides what is compared, see `run_differences`."""
    treatment, baseline = sides
    fixed = {*treatment.levels, *baseline.levels}
    platforms = {pair.treatment.platform.name for pair in pairs}
    platforms &= {pair.baseline.platform.name for pair in pairs}
    cells = [(pair.treatment.cell, pair.baseline.cell) for pair in pairs]
    yield from differences(treatment.analysis, baseline.analysis, platforms, cells, fixed)
    for side in sides:
        for further_side in side.further:
            yield from differences(side.analysis, further_side.analysis, platforms, (), fixed)
