"""From a stored run to its result: summaries, ratios to the baseline, verdicts, and every warning about them.

This is the one place where the store meets the statistics. Every view of a run shows the `Analysis` made here, so no
two outputs can differ, and none can lose a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from vtax.benchmarks.base import is_rate, is_time, is_timed
from vtax.levels import Levels
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.drift import Series, drift_warnings
from vtax.report.analysis.facts import facts_of
from vtax.report.analysis.filters import EVERYTHING, Filter, narrowed
from vtax.report.analysis.sessions import measured_sessions, units_of_blocks
from vtax.report.analysis.settled import settled, without
from vtax.report.analysis.tails import pooled, tail_of
from vtax.report.analysis.targets import Aim, Targets, failures, judged, missed_targets
from vtax.report.analysis.timeouts import timeouts_of
from vtax.report.analysis.values import (
    Analysis,
    Floats,
    Ints,
    ResultPoint,
    Row,
    Section,
    every_row,
    place_of,
)
from vtax.report.analysis.warnings import warnings_of
from vtax.stats.checks import StatsError
from vtax.stats.contrasts import ContrastSide, paired_contrast
from vtax.stats.describe import describe_blocks
from vtax.stats.judge import Comparison, Contrast
from vtax.stats.judge import analyse as judge
from vtax.stats.means import Average, average_with
from vtax.stats.ratio import BlockMeans, block_contrast
from vtax.stats.resolution import Figures, resolutions_of
from vtax.stats.sessions import Unit, half_width_over_sessions
from vtax.stats.stopping import Rule, rule_of
from vtax.store.query import RunData, load
from vtax.store.records import CLOCK_RATE, HOST_CACHE, OTHER_QUANTITY, CellRecord, MetricRecord
from vtax.store.store import LAST, Store

_NONE: NDArray[Any] = np.zeros(0)
_NO_LOGS: Floats = np.full(1, np.nan)
_NOT_YET = Note("not-measured-yet")


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
    because = data.run.stopped_because if data.run.status == "finished" else ""
    rule = rule_of(data.run.declared.get("design", {}), because)
    rows = _with_resolutions(data, _rows(data, rule), rule.margin)
    of = units_of_blocks(data)
    rows = {key: _coarsened(row) for key, row in _over_sessions(rows, of).items()}
    sections = tuple(_judged(section, rule, of) for section in _sections(data, rows))
    blocks = int(np.unique(data.trials.block[data.trials.block >= 0]).size)
    aims = tuple(_aims(data, sections))
    targets = judged(rule, aims, blocks)
    return Judged(
        rule, tuple(marked(section, targets.missed) for section in sections), blocks, aims, targets
    )


def shown(data: RunData, found: Judged, only: Filter = EVERYTHING) -> Analysis:
    """Return the result of a run from its figures: all of it, or what a filter shows. data: the whole run's."""
    run, rule, measured = data.run, found.rule, ~data.trials.is_warmup
    part = narrowed(data, only.shows) if only else data
    sections = tuple(_sections_shown(found.sections, only)) if only else found.sections
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
        baseline=next((p.name for p in run.platforms if p.is_baseline), ""),
        blocks=found.blocks,
        trials=int(measured.sum()),
        failed=int((measured & ~data.trials.is_ok).sum()),
        platforms=tuple(
            platform for platform in run.platforms if only.shows_platform(platform.name)
        ),
        sections=sections,
        guests=part.guests,
        failures=part.failures,
        cells=tuple(filter(only.shows, run.cells)),
        untested=tuple(filter(only.shows, run.untested)),
        warnings=(
            *warnings_of(part, rows),
            *drift_warnings(
                _series(found.sections), rule.confidence, places, sessions=len(sessions)
            ),
        ),
        missed_targets=(*failures(part), *missed),
        filter=only,
        sessions=sessions,
    )


def _sections_shown(sections: Sequence[Section], only: Filter) -> Iterator[Section]:
    for section in sections:
        rows = {
            point.key: tuple(row for row in point.rows if only.shows(row.cell))
            for point in section.points
        }
        points = tuple(
            replace(point, rows=rows[point.key]) for point in section.points if rows[point.key]
        )
        if points:
            yield replace(section, points=points)


def _placed(sections: tuple[Section, ...]) -> list[tuple[doc.WarnedPlace, Row, bool]]:
    return [
        (place_of(s, p, r), r, s.metric.is_primary)
        for s in sections
        for p in s.points
        for r in p.rows
    ]


def _series(sections: tuple[Section, ...]) -> list[Series]:
    return [
        (place_of(section, point, row), row.blocks, row.block_means)
        for section, point, row in every_row(sections)
        if section.metric.is_primary and row.summary is not None
    ]


def _rows(data: RunData, rule: Rule) -> dict[tuple[int, int], Row]:
    """(cell index, metric index) -> row without ratio; one entry for every metric a cell's benchmark has."""
    run, trials, measured = data.run, data.trials, data.measurements
    used = (trials.is_ok & ~trials.is_warmup)[measured.trial]
    trial, metric, value = measured.trial[used], measured.metric[used], measured.value[used]
    group = trials.cell[trial] * len(run.metrics) + metric
    order = np.argsort(group, kind="stable")
    trial, value, group = trial[order], value[order], group[order]
    failed = np.bincount(trials.cell[~trials.is_ok & ~trials.is_warmup], minlength=len(run.cells))
    ended = timeouts_of(data, rule)
    attempted = set(trials.cell[~trials.is_ok | ~trials.is_warmup].tolist())
    platforms = {platform.name: platform for platform in run.platforms}
    metrics_of: dict[str, list[int]] = {}
    for index, record in enumerate(run.metrics):
        metrics_of.setdefault(record.benchmark, []).append(index)
    wrong, held = (
        {w.cell for w in data.warnings if w.code == code} for code in (CLOCK_RATE, HOST_CACHE)
    )
    other = {w.cell for w in data.warnings if w.code in OTHER_QUANTITY}
    left, rows = settled(data, rule), {}
    for cell_index, cell in enumerate(run.cells):
        for metric_index in metrics_of.get(cell.benchmark, []):
            number = cell_index * len(run.metrics) + metric_index
            span = slice(*np.searchsorted(group, [number, number + 1]))
            judged = run.metrics[metric_index]
            is_fixed_work = _averaged(judged, cell) == "harmonic"
            row = _row(
                Row(
                    cell,
                    platforms[cell.platform],
                    None,
                    _NONE,
                    _NONE,
                    int(failed[cell_index]),
                    reason="" if cell_index in attempted else _NOT_YET,
                    better="lower" if judged.better == "lower" else "higher",
                    clock_is_wrong=cell_index in wrong and is_timed(judged.name, judged.unit),
                    is_other_quantity=cell_index in other,
                    is_held_below=cell_index in held,
                    settled=left.get(cell_index, frozenset()),
                    timeouts=ended.get(cell_index) if is_fixed_work else None,
                ),
                trials.block[trial[span]],
                value[span],
                run.metrics[metric_index],
                rule.confidence,
                trials.position[trial[span]],
            )
            tail = tail_of(judged.benchmark, judged.name) if data.histograms else None
            if tail is not None:
                row = pooled(
                    row, tail, trials.block[trial[span]], trials.id[trial[span]], data.histograms
                )
            rows[cell_index, metric_index] = row
    return rows


def _row(
    row: Row, blocks: Ints, values: Floats, metric: MetricRecord, confidence: float, positions: Ints
) -> Row:
    if not values.size:
        return replace(row, reason=row.reason or Note("no-trial-went-well"))
    average = _averaged(metric, row.cell)
    try:
        summary, labels, means, medians, counts = describe_blocks(
            values, confidence, blocks=blocks, average=average
        )
    except StatsError as error:
        return replace(row, reason=error.note)
    return replace(
        row,
        summary=summary,
        blocks=labels,
        block_means=means,
        block_medians=medians,
        fewest_trials=int(counts.min()),
        trial_blocks=blocks,
        trial_values=values,
        trial_positions=positions,
    )


def _with_resolutions(
    data: RunData, rows: Mapping[tuple[int, int], Row], margin: float
) -> dict[tuple[int, int], Row]:
    """Return the rows with how finely their figures are known, by those of all cells of their point."""
    trial_at = dict(zip(data.trials.position.tolist(), data.trials.id.tolist(), strict=True))
    points: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for key, row in rows.items():
        points.setdefault((row.cell.point, key[1]), []).append(key)
    found = dict(rows)
    for (_, metric_index), keys in points.items():
        metric = data.run.metrics[metric_index]
        cells = {
            rows[key].cell.key: _figures(data, rows[key], metric.name, trial_at) for key in keys
        }
        resolutions = resolutions_of(
            cells, margin, is_time=is_time(metric.unit), is_rate=is_rate(metric.unit)
        )
        for key in keys:
            found[key] = replace(rows[key], resolution=resolutions[rows[key].cell.key])
    return found


def _figures(data: RunData, row: Row, metric: str, trial_at: Mapping[int, int]) -> Figures:
    """Return the figures of a row, trial by trial. trial_at: position in the run -> id."""
    steps = [
        data.resolutions.get(trial_at[position], {}).get(metric, (0.0,))[0]
        for position in row.trial_positions.tolist()
    ]
    return Figures(row.trial_values, np.array(steps))


def _coarsened(row: Row) -> Row:
    """Return the row with an interval of its mean that reaches at least a step to each side."""
    summary, share = row.summary, row.resolution.share
    if summary is None or share == 0:
        return row
    step = abs(summary.mean) * share
    low, high = min(summary.low, summary.mean - step), max(summary.high, summary.mean + step)
    return replace(row, summary=replace(summary, low=low, high=high))


def _over_sessions(
    rows: Mapping[tuple[int, int], Row], session_of: Mapping[int, Unit]
) -> dict[tuple[int, int], Row]:
    """Return the rows with intervals of their means over sessions, where there are several."""
    found = dict(rows)
    if len(set(session_of.values())) == 1:
        return found
    for key, row in rows.items():
        if (s := row.summary) is not None:
            labels = np.array([session_of[block] for block in row.blocks.tolist()])
            if (
                half := half_width_over_sessions(row.block_means, labels, s.confidence)
            ) is not None:
                found[key] = replace(row, summary=replace(s, low=s.mean - half, high=s.mean + half))
    return found


def _averaged(metric: MetricRecord, cell: CellRecord) -> Average:
    """How a cell's trials are averaged: harmonically where each is a rate over fixed work."""
    found: Average = "arithmetic"
    for known in get_args(Average):
        found = known if metric.average == known else found
    return average_with(found, metric.fixed_work, cell.parameters)


def _sections(data: RunData, rows: Mapping[tuple[int, int], Row]) -> list[Section]:
    order = {platform.name: index for index, platform in enumerate(data.run.platforms)}
    grouped: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for (cell_index, metric_index), row in rows.items():
        cell = data.run.cells[cell_index]
        grouped.setdefault((cell.label, metric_index), {}).setdefault(cell.point, []).append(row)
    measured = {
        (label, point)
        for (label, _), points in grouped.items()
        for point, found in points.items()
        if any(row.summary for row in found)
    }
    sections = []
    for (label, metric_index), points in grouped.items():
        points = {  # noqa: PLW2901
            point: found
            for point, found in points.items()
            if any(row.summary for row in found)
            or (data.run.metrics[metric_index].is_primary and (label, point) not in measured)
        }
        if not points:
            continue  # a metric this benchmark did not give with these parameters
        first = next(row for found in points.values() for row in found).cell
        sections.append(
            Section(
                label,
                first.benchmark,
                first.tool_version,
                data.run.metrics[metric_index],
                tuple(
                    ResultPoint(
                        key,
                        Levels(of[0].cell.levels),
                        tuple(sorted(of, key=lambda row: order[row.platform.name])),
                    )
                    for key, of in points.items()
                ),
                0,
                first.tool,
            )
        )
    labels = list(dict.fromkeys(section.label for section in sections))
    return sorted(sections, key=lambda s: (labels.index(s.label), not s.metric.is_primary))


def _judged(section: Section, rule: Rule, session_of: Mapping[int, Unit]) -> Section:
    """Return the section with ratios and verdicts: one family, judged in one call (see stats.judge)."""
    contrasts: dict[str, Contrast] = {}
    reason: dict[str, str] = {}
    for point in section.points:
        base = point.baseline
        for row in point.rows:
            if row is base or row.summary is None:
                continue
            name = row.cell.key
            try:
                contrasts[name] = row_contrast(row, base, section, session_of)
            except StatsError as error:
                reason[name] = error.note
    found = judge(rule, contrasts)

    def judged(row: Row) -> Row:
        answer = found.get(row.cell.key)
        if answer is None:
            return replace(row, reason=reason.get(row.cell.key, row.reason))
        if isinstance(answer, StatsError):
            return replace(row, reason=answer.note)
        return replace(row, ratio=answer.ratio, verdict=answer.verdict, typical=answer.typical)

    points = tuple(
        ResultPoint(p.key, p.levels, tuple(judged(row) for row in p.rows)) for p in section.points
    )
    return replace(section, points=points, family=len(contrasts))


def row_contrast(
    row: Row, base: Row | None, section: Section, session_of: Mapping[int, Unit]
) -> Contrast:
    """One log-ratio per block of a row to another. session_of: block -> its host and session. Raises StatsError."""
    if base is None or base.summary is None:
        raise StatsError(Note("no-baseline-here"))
    if withheld := next((each.reason for each in (row, base) if each.is_withheld), None):
        raise StatsError(withheld)
    return paired_contrast(
        _side(row, base.settled), _side(base, row.settled), section.better, session_of
    )


def _side(row: Row, left: frozenset[int]) -> ContrastSide:
    """One side of a contrast. left: blocks that the other side was left out of."""
    means = without(row.means_of_blocks, left)
    medians = without(BlockMeans(row.blocks, row.block_medians), left)
    return ContrastSide(
        means,
        medians,
        row.fewest_trials,
        row.failed,
        tried(row),
        row.clock_is_wrong,
        row.resolution,
    )


def tried(row: Row) -> int:
    """How many trials a row has, those that failed too."""
    return row.failed + (row.summary.n if row.summary else 0)


def logs_to(row: Row, base: Row | None) -> Floats:
    """Return the log-ratios of a row to its baseline within blocks. Raises StatsError without any."""
    if base is None or base.summary is None:
        raise StatsError(Note("no-baseline-here"))
    return block_contrast(row.means_of_blocks, base.means_of_blocks)


def _aims(data: RunData, sections: tuple[Section, ...]) -> Iterator[Aim]:
    """Yield what the run's rule judges, in the families of the result."""
    is_alone = len({cell.platform for cell in data.run.cells}) == 1
    for section, point, row in every_row(sections):
        if section.metric.is_primary and (is_alone or row is not point.baseline):
            logs = _own_logs(row) if is_alone else _logs_or_none(row, point.baseline)
            answer = None
            if row.ratio is not None and row.verdict is not None:
                answer = Comparison(row.ratio, row.verdict)
            yield Aim(
                _aim_name(section, row), section.name, place_of(section, point, row), logs, answer
            )


def _aim_name(section: Section, row: Row) -> str:
    return f"{section.name} {row.cell.key}"


def _own_logs(row: Row) -> Floats:
    try:
        return block_contrast(row.means_of_blocks)
    except StatsError:
        return _NO_LOGS


def _logs_or_none(row: Row, base: Row | None) -> Floats:
    try:
        return logs_to(row, base)
    except StatsError:
        return _NO_LOGS


def marked(section: Section, missed: frozenset[str]) -> Section:
    """Return the section with every row that misses the declared target marked, and no other row."""

    def one(row: Row) -> Row:
        return replace(
            row, target_missed=section.metric.is_primary and _aim_name(section, row) in missed
        )

    return replace(
        section,
        points=tuple(replace(point, rows=tuple(map(one, point.rows))) for point in section.points),
    )
