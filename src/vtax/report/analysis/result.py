"""From a stored run to its result: summaries, ratios to the baseline, verdicts, and every warning about them.

This is the one place where the store meets the statistics. Every view of a run shows the `Analysis` made here, so no
two outputs can differ, and none can lose a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from vtax.benchmarks.base import is_timed
from vtax.grouping import by_key
from vtax.levels import Levels
from vtax.messages import Note
from vtax.observations import Observations
from vtax.pairing import Logs
from vtax.question import EVERYTHING, Selection
from vtax.report import document as doc
from vtax.report.analysis.drift import Series, drift_warnings
from vtax.report.analysis.facts import facts_of
from vtax.report.analysis.host_cpu import with_answers
from vtax.report.analysis.sessions import (
    MeasuredSession,
    measured_sessions,
    of_hosts,
    units_of_blocks,
)
from vtax.report.analysis.tails import pooled_values, tail_of
from vtax.report.analysis.targets import Aim, Targets, failures, judged, missed_targets
from vtax.report.analysis.timeouts import timeouts_of
from vtax.report.analysis.values import (
    Analysis,
    MeasuredRow,
    ResultPoint,
    Row,
    Section,
    every_row,
    place_of,
)
from vtax.report.analysis.warnings import warnings_of
from vtax.stats.censoring import Timeouts
from vtax.stats.checks import Better, StatsError
from vtax.stats.contrasts import ContrastSide, paired_contrast
from vtax.stats.describe import Summary, describe_blocks
from vtax.stats.judge import Comparison, Contrast
from vtax.stats.judge import analyse as judge
from vtax.stats.means import Average, average_with
from vtax.stats.ratio import BlockMeans, block_contrast
from vtax.stats.resolution import Figures, Resolution, resolutions_of
from vtax.stats.rules import Rule, margins_of, rule_of
from vtax.stats.sessions import Units, half_width_over_sessions
from vtax.stats.terms import has_words, is_rate, is_time
from vtax.stats.verdict import worded
from vtax.store.query import Floats, Ints, RunData, load
from vtax.store.records import CLOCK_RATE, HOST_CACHE, OTHER_QUANTITY, CellRecord, MetricRecord
from vtax.store.store import LAST, Store

_NO_LOGS: Floats = np.full(1, np.nan)
_NOT_YET = Note("not-measured-yet")
_NONE_WELL = Note("no-trial-went-well")


def analyse(store: Store, run_name: str = LAST) -> Analysis:
    """Return the result of a stored run; `last` is the newest. Raises BadInput for an unknown run, StoreError."""
    return analyse_data(load(store.engine, store.open_run(run_name)))


def analyse_data(data: RunData) -> Analysis:
    """Return the result of a run that was loaded."""
    return shown(data, judged_run(data))


@dataclass(frozen=True)
class Judged:
    """All figures and verdicts of a run, each judged in the whole of its family."""

    rule: Rule
    sections: tuple[Section, ...]
    blocks: int
    aims: tuple[Aim, ...]
    targets: Targets


def judged_run(data: RunData) -> Judged:
    """Return the figures of a run that was loaded."""
    reason = data.run.stopped_because if data.run.status == "finished" else ""
    rule = rule_of(data.run.declared.get("design", {}), reason)
    units, margins = units_of_blocks(data), margins_of(data.run.declared)
    families = []
    for family in _families(data, _measured(data, rule, units, margins)):
        families.append(_judged(family, rule.within(margins.get(family.label)), units))
    blocks = int(np.unique(data.trials.block[data.trials.block >= 0]).size)
    aims = tuple(_aims(data, families))
    targets = judged(rule, aims, blocks)
    timeouts = timeouts_of(data, rule)
    ended = {
        data.run.cells[cell].key: timeouts_of_cell for cell, timeouts_of_cell in timeouts.items()
    }
    sections = with_answers([_section(family, targets.missed, ended) for family in families])
    return Judged(rule, sections, blocks, aims, targets)


def shown(data: RunData, found: Judged, only: Selection = EVERYTHING) -> Analysis:
    """Return the result of a run from its figures: all of it, or what was selected, beside the baseline.

    A selection judges nothing again: means, ratios, verdicts and ranks are those of the whole run, so that every
    verdict stays corrected for the family it was judged in, however few of that family are shown.

    data: the whole run's.
    found: its figures.
    only: what was selected.
    """
    run, rule, measured = data.run, found.rule, ~data.trials.is_warmup
    baseline = next((p.name for p in run.platforms if p.is_baseline), "")
    cells = only.beside(baseline)
    part = data.narrowed(cells)
    sections = tuple(_sections_shown(found.sections, cells)) if only else found.sections
    rows, sessions = _placed(sections), measured_sessions(data)
    places = {place for place, _, _ in rows}
    missed = []
    if run.status == "finished":
        aims = [aim for aim in found.aims if aim.place in places]
        missed = missed_targets(rule, aims, found.blocks, found.targets, run.stopped_because)
    return Analysis(
        name=run.name,
        study=run.study,
        declared=run.declared,
        status=run.status,
        stopped_because=run.stopped_because,
        seed=run.seed,
        vtax_version=run.vtax_version,
        image_key=run.image_key,
        host=facts_of(run.host),
        plugins=run.plugins,
        identity=run.identity,
        provenance=run.provenance,
        annotations=run.annotations,
        started_at=run.started_at,
        ended_at=run.ended_at,
        duration_s=run.duration_s,
        rule=rule,
        baseline=baseline,
        blocks=found.blocks,
        trials=int(measured.sum()),
        failed=int((measured & ~data.trials.is_ok).sum()),
        platforms=tuple(
            p for p in run.platforms if not only.platforms or p.name in cells.platforms
        ),
        sections=sections,
        guests=part.guests,
        failures=part.failures,
        cells=tuple(cell for cell in run.cells if cells.selects(cell.place)),
        untested=tuple(point for point in run.untested if cells.selects(point.place)),
        warnings=(*warnings_of(part, rows), *_drift(found, rule, places, sessions)),
        missed_targets=(*failures(part), *missed),
        filter=only,
        sessions=sessions,
    )


def _drift(
    found: Judged,
    rule: Rule,
    places: Container[doc.WarnedPlace],
    sessions: Sequence[MeasuredSession],
) -> tuple[doc.Warning, ...]:
    """Return the warning of a drift; none over several hosts, whose order in a merged run is not one in time."""
    if len(of_hosts(sessions)) > 1:
        return ()
    return drift_warnings(_series(found.sections), rule.confidence, places, sessions=len(sessions))


def _sections_shown(sections: Sequence[Section], only: Selection) -> Iterator[Section]:
    for section in sections:
        rows = {
            point.key: tuple(row for row in point.rows if only.selects(row.cell.place))
            for point in section.points
        }
        points = tuple(
            replace(point, rows=rows[point.key]) for point in section.points if rows[point.key]
        )
        if points:
            yield replace(section, points=points)


def _placed(sections: tuple[Section, ...]) -> list[tuple[doc.WarnedPlace, Row, bool]]:
    return [
        (place_of(*row_and_place), row_and_place[2], row_and_place[0].is_answer)
        for row_and_place in every_row(sections)
    ]


def _series(sections: tuple[Section, ...]) -> list[Series]:
    return [
        (place_of(section, point, row), row.blocks, row.block_means)
        for section, point, row in every_row(sections)
        if section.metric.is_primary and row.summary is not None
    ]


@dataclass(frozen=True)
class _Description:
    """A cell in one metric, described by its own values alone. seen: the values that the summary is of."""

    seen: Observations
    summary: Summary | None = None
    blocks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    means: Floats = field(default_factory=lambda: np.zeros(0))
    reason: str = ""
    is_withheld: bool = False


def _measured(
    data: RunData, rule: Rule, units: Units, margins: Mapping[str, float]
) -> dict[tuple[int, int], MeasuredRow]:
    """Return (index of a cell, index of a metric) -> its row without an answer, of all metrics of the cell's benchmark.

    units: hosts and sessions of blocks.
    margins: label of a benchmark -> its own.
    """
    run, trials, observations = data.run, data.trials, Observations.of_run(data)
    metrics_of = by_key((record.benchmark, number) for number, record in enumerate(run.metrics))
    descriptions = {
        (cell, metric): _described(data, observations.of(cell, metric), cell, metric, rule)
        for cell, record in enumerate(run.cells)
        for metric in metrics_of.get(record.benchmark, ())
    }
    resolutions = _resolutions(data, descriptions, rule, margins)
    failed_counts = np.bincount(
        trials.cell[~trials.is_ok & ~trials.is_warmup], minlength=len(run.cells)
    )
    platforms = {platform.name: platform for platform in run.platforms}
    wrong, held = (
        {w.cell for w in data.warnings if w.code == code} for code in (CLOCK_RATE, HOST_CACHE)
    )
    other_cells = {w.cell for w in data.warnings if w.code in OTHER_QUANTITY}
    settled_blocks = settled(data, rule)
    rows = {}
    for (cell, metric), description in descriptions.items():
        record, resolution = run.metrics[metric], resolutions[cell, metric]
        rows[cell, metric] = MeasuredRow(
            run.cells[cell],
            platforms[run.cells[cell].platform],
            _widened(description, units, resolution),
            description.blocks,
            description.means,
            int(failed_counts[cell]),
            better="lower" if record.better == "lower" else "higher",
            reason=description.reason,
            clock_is_wrong=cell in wrong and is_timed(record.name, record.unit),
            resolution=resolution,
            is_other_quantity=cell in other_cells,
            is_held_below=cell in held,
            is_withheld=description.is_withheld,
            settled=settled_blocks.get(cell, frozenset()),
            observed=description.seen,
        )
    return rows


def _described(
    data: RunData, seen: Observations, cell: int, metric: int, rule: Rule
) -> _Description:
    """Return what the values of a cell say. A percentile is that of all requests of a block, see `tails`.

    seen: the values.
    cell, metric: their indices.
    rule: of the run.
    """
    record = data.run.metrics[metric]
    if not seen.value.size:
        trials = data.trials
        attempted = (trials.cell == cell) & ~(trials.is_ok & trials.is_warmup)
        return _Description(seen, reason=_NONE_WELL if attempted.any() else _NOT_YET)
    average, confidence = _averaged(record, data.run.cells[cell]), rule.confidence
    try:
        summary, blocks, means = describe_blocks(
            seen.value, confidence, blocks=seen.block, average=average
        )
    except StatsError as error:
        return _Description(seen.none(), reason=error.note)
    tail = tail_of(record.benchmark, record.name) if data.histograms else None
    pooled = pooled_values(tail, blocks, seen, data.histograms) if tail else None
    reason, is_withheld = "", False
    if isinstance(pooled, Note):
        reason, is_withheld = pooled, True
    elif pooled is not None:
        whole, blocks, means = describe_blocks(pooled, confidence, blocks=blocks)
        summary = replace(whole, n=summary.n)
    return _Description(seen, summary, blocks, means, reason, is_withheld)


def _widened(description: _Description, units: Units, resolution: Resolution) -> Summary | None:
    """Return the summary with its interval over sessions, where there are several, and of at least a step each way.

    units: hosts and sessions of blocks.
    """
    summary = description.summary
    if summary is None:
        return None
    if units.are_several:
        of_blocks = units.of(description.blocks)
        half_width = half_width_over_sessions(description.means, of_blocks, summary.confidence)
        if half_width is not None:
            summary = replace(
                summary, low=summary.mean - half_width, high=summary.mean + half_width
            )
    step = abs(summary.mean) * resolution.share
    if not step:
        return summary
    low, high = min(summary.low, summary.mean - step), max(summary.high, summary.mean + step)
    return replace(summary, low=low, high=high)


def _resolutions(
    data: RunData,
    descriptions: Mapping[tuple[int, int], _Description],
    rule: Rule,
    margins: Mapping[str, float],
) -> dict[tuple[int, int], Resolution]:
    """Return how finely the figures of every row are known, by those of all cells of its point."""
    points = by_key(((data.run.cells[cell].point, metric), cell) for cell, metric in descriptions)
    resolutions_by_cell: dict[tuple[int, int], Resolution] = {}
    for (_, metric), cells in points.items():
        record = data.run.metrics[metric]
        figures = {
            str(cell): _figures(data, descriptions[cell, metric].seen, record.name)
            for cell in cells
        }
        of_table = rule.within(margins.get(data.run.cells[cells[0]].label))
        resolutions = resolutions_of(
            figures, of_table.margin, is_time=is_time(record.unit), is_rate=is_rate(record.unit)
        )
        resolutions_by_cell |= {(cell, metric): resolutions[str(cell)] for cell in cells}
    return resolutions_by_cell


def _figures(data: RunData, seen: Observations, metric: str) -> Figures:
    """Return the figures of a row, trial by trial."""
    steps = np.zeros(seen.value.size)
    if data.resolutions:
        for place, trial in enumerate(seen.trial.tolist()):
            steps[place] = data.resolutions.get(trial, {}).get(metric, (0.0,))[0]
    return Figures(seen.value, steps)


def _averaged(metric: MetricRecord, cell: CellRecord) -> Average:
    """How a cell's trials are averaged: harmonically where each is a rate over fixed work."""
    average: Average = "arithmetic"
    for name in get_args(Average):
        average = name if metric.average == name else average
    return average_with(average, metric.fixed_work, cell.parameters)


@dataclass(frozen=True)
class _Family:
    """One metric of one benchmark table over all its points: what is judged together, and becomes a section.

    first: the cell that names its tool.
    points: key of a point -> its rows, in the order of the platforms.
    contrasts: how many are judged.
    answers: key of a cell -> the answer on its row; none for the baseline.
    margin: of its verdicts.
    """

    label: str
    metric: MetricRecord
    first: CellRecord
    points: Mapping[str, tuple[MeasuredRow, ...]]
    contrasts: int = 0
    answers: Mapping[str, Comparison | StatsError] = field(default_factory=dict)
    margin: float = 0.0

    @property
    def name(self) -> str:
        """As that of its section."""
        return f"{self.label} {self.metric.name}"

    def aim(self, row: MeasuredRow) -> str:
        """Return the name of what the rule of the run wants of a row."""
        return f"{self.name} {row.cell.key}"


def _families(data: RunData, rows: Mapping[tuple[int, int], MeasuredRow]) -> list[_Family]:
    """Return the rows in families, those of primary metrics first within a benchmark.

    A point without any value is left out, but of a primary metric where its benchmark has no value of another one.
    """
    order = {platform.name: index for index, platform in enumerate(data.run.platforms)}
    rows_by_metric: dict[tuple[str, int], dict[str, list[MeasuredRow]]] = {}
    points_with_values = set()
    for (_, metric), row in rows.items():
        label, point = row.cell.label, row.cell.point
        rows_by_metric.setdefault((label, metric), {}).setdefault(point, []).append(row)
        if row.summary is not None:
            points_with_values.add((label, point))
    families = []
    for (label, metric), points in rows_by_metric.items():
        record = data.run.metrics[metric]
        rows_by_point = {
            point: tuple(sorted(of_point, key=lambda row: order[row.platform.name]))
            for point, of_point in points.items()
            if any(row.summary for row in of_point)
            or (record.is_primary and (label, point) not in points_with_values)
        }
        if rows_by_point:
            first = points[next(iter(rows_by_point))][0].cell
            families.append(_Family(label, record, first, rows_by_point))
    labels = list(dict.fromkeys(family.label for family in families))
    return sorted(families, key=lambda f: (labels.index(f.label), not f.metric.is_primary))


def _baseline(rows: Sequence[MeasuredRow]) -> MeasuredRow | None:
    return next((row for row in rows if row.platform.is_baseline), None)


def _judged(family: _Family, rule: Rule, units: Units) -> _Family:
    """Return the family with ratios and verdicts, judged in one call (see stats.judge).

    units: hosts and sessions of blocks.
    """
    contrasts: dict[str, Contrast] = {}
    answers: dict[str, Comparison | StatsError] = {}
    for rows in family.points.values():
        base = _baseline(rows)
        for row in rows:
            if row is base or row.summary is None:
                continue
            try:
                contrasts[row.cell.key] = row_contrast(row, base, row.better, units)
            except StatsError as error:
                answers[row.cell.key] = error
    answers.update(judge(rule, contrasts))
    return replace(family, contrasts=len(contrasts), answers=answers, margin=rule.margin)


def _section(family: _Family, missed: Collection[str], timeouts: Mapping[str, Timeouts]) -> Section:
    """Return the section of a family.

    missed: names of the aims that miss the target of the rule.
    timeouts: key of a cell -> what its trials say that timed out.
    """
    is_primary = family.metric.is_primary

    def filled(row: MeasuredRow) -> Row:
        answer = family.answers.get(row.cell.key)
        answered = answer if isinstance(answer, Comparison) else None
        is_fixed_work = _averaged(family.metric, row.cell) == "harmonic"
        return Row.of(
            row,
            ratio=answered.ratio if answered else None,
            verdict=worded(answered.verdict, family.metric.role) if answered else None,
            reason=answer.note if isinstance(answer, StatsError) else row.reason,
            target_missed=is_primary and family.aim(row) in missed,
            timeouts=timeouts.get(row.cell.key) if is_fixed_work else None,
        )

    points = tuple(
        ResultPoint(key, Levels(rows[0].cell.levels), tuple(map(filled, rows)))
        for key, rows in family.points.items()
    )
    return Section(
        family.label,
        family.first.benchmark,
        family.first.tool_version,
        family.metric,
        points,
        family.contrasts if has_words(family.metric.role) else 0,
        family.first.tool,
        margin=family.margin,
    )


def row_contrast(
    row: MeasuredRow, base: MeasuredRow | None, better: Better, units: Units
) -> Contrast:
    """Return one log-ratio per block of a row to another.

    better: which way is better for their metric.
    units: hosts and sessions of blocks.
    Raises StatsError.
    """
    if base is None or base.summary is None:
        raise StatsError(Note("no-baseline-here"))
    if withheld := next(
        (row_or_base.reason for row_or_base in (row, base) if row_or_base.is_withheld), None
    ):
        raise StatsError(withheld)
    return paired_contrast(_side(row, base.settled), _side(base, row.settled), better, units)


def _side(row: MeasuredRow, settled_blocks: frozenset[int]) -> ContrastSide:
    """Return one side of a contrast. settled_blocks: those that the other side was left out of."""
    means = without(row.means_of_blocks, settled_blocks)
    return ContrastSide(
        means,
        row.failed,
        tried(row),
        row.clock_is_wrong,
        row.resolution,
        row.is_other_quantity,
        row.is_held_below,
    )


def tried(row: MeasuredRow) -> int:
    """Return how many trials a row has, those that failed too."""
    return row.failed + (row.summary.n if row.summary else 0)


def logs_to(row: MeasuredRow, base: MeasuredRow | None) -> Logs:
    """Return the log-ratios of a row to its baseline in the blocks that either has. Raises StatsError without any."""
    if base is None or base.summary is None:
        raise StatsError(Note("no-baseline-here"))
    logs = block_contrast(row.means_of_blocks, base.means_of_blocks)
    return Logs(np.union1d(row.blocks, base.blocks), logs)


def _aims(data: RunData, families: Sequence[_Family]) -> Iterator[Aim]:
    """Yield what the run's rule judges, in the families of the result."""
    is_alone = len({cell.platform for cell in data.run.cells}) == 1
    for family in families:
        for rows in family.points.values() if family.metric.is_primary else ():
            base = _baseline(rows)
            for row in rows:
                if row is base and not is_alone:
                    continue
                answer = family.answers.get(row.cell.key)
                yield Aim(
                    family.aim(row),
                    family.name,
                    doc.WarnedPlace(row.platform.name, family.name, Levels(row.cell.levels).texts),
                    _own_logs(row) if is_alone else _logs_or_none(row, base),
                    answer if isinstance(answer, Comparison) else None,
                )


def _own_logs(row: MeasuredRow) -> Floats:
    try:
        return block_contrast(row.means_of_blocks)
    except StatsError:
        return _NO_LOGS


def _logs_or_none(row: MeasuredRow, base: MeasuredRow | None) -> Floats:
    try:
        return logs_to(row, base).values
    except StatsError:
        return _NO_LOGS


def settled(data: RunData, rule: Rule) -> dict[int, frozenset[int]]:
    """Index of a cell -> the blocks of others that its rule left it out of.

    Such a block holds neither a trial of the cell nor a guest of its platform that failed, and the last one before it
    that holds either went well: a platform that was lost is missing.
    """
    if not (rule.leaves_settled or rule.leaves_early):
        return {}
    trials = data.trials
    block_numbers = np.unique(trials.block[trials.block >= 0]).tolist()
    lost_guests = {(guest.platform, guest.block) for guest in data.guests if guest.error}
    settled_by_cell: dict[int, frozenset[int]] = {}
    for index, cell in enumerate(data.run.cells):
        of_cell = (trials.cell == index) & ~trials.is_warmup
        tried, good = (
            set(trials.block[mask].tolist()) for mask in (of_cell, of_cell & trials.is_ok)
        )
        settled_blocks, went_well = set[int](), False
        for block in block_numbers:
            if block in tried or (cell.platform, block) in lost_guests:
                went_well = block in good
            elif went_well:
                settled_blocks.add(block)
        settled_by_cell[index] = frozenset(settled_blocks)
    return settled_by_cell


def without(means: BlockMeans, settled_blocks: frozenset[int]) -> BlockMeans:
    """Return the means without those of blocks that the other side of a contrast was left out of."""
    if not settled_blocks:
        return means
    is_kept = ~np.isin(means.blocks, list(settled_blocks))
    return BlockMeans(means.blocks[is_kept], means.means[is_kept])
