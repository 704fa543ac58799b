"""A study over its runs: what changed, a chart of every metric over time, and every value in a table."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.described import values_of
from vtax.report import document as doc
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.history.compute import (
    LEVEL,
    History,
    HistoryChange,
    Measured,
    Plot,
    Series,
)
from vtax.report.document import factors, first_of, joined, levels_of, msg, plural, scale_for
from vtax.report.parts import shared
from vtax.stats.change_points import FEWEST

_PERCENT = doc.Scale("%", 0.01)
_MAX_NAMED = 8  # differences beside a change point


def document_of(history: History) -> doc.Document:
    """Return the change points first, then a chapter for every metric and point."""
    parts: list[doc.Part] = [
        doc.Titled(
            msg("Summary"),
            (doc.Bullets(tuple(_summary(history))), *_notes(history)),
            key="answer",
            role="summary",
        )
    ]
    for number, plot in enumerate(history.plots):
        notes: list[doc.Part] = []
        if plot.differences:
            text = msg(
                "Apart from the newest runs of this metric, which measure something else: {differences}.",
                differences=joined(plot.differences, "; "),
            )
            notes = [doc.Paragraph(text, "caution")]
        parts.append(
            doc.Titled(
                _title(plot),
                (*notes, *_figure(plot, history, number), _table(plot, history), *_changes(plot)),
                subtitle=shared.subtitle_of(plot.section),
            )
        )
    parts += shared.warnings_part(_warnings(history))
    lead = plural(
        "{count} finished run, in the order of time; intervals of {level} are of each run alone",
        "{count} finished runs, in the order of time; intervals of {level} are of each run alone",
        len(history.runs),
        level=doc.Share(history.confidence, "declared"),
    )
    reason_empty = "" if history.plots else msg("No run measured this.")
    title = msg("History of {study}", study=history.study)
    return doc.Document(
        title,
        tuple(parts),
        (lead,),
        data={"schema": "vtax.history/1", **values_of(history)},
        nothing=reason_empty,
    )


def _summary(history: History) -> Iterator[doc.Inline]:
    changes = list(_every_change(history))
    for plot, series, change in changes:
        sentence = msg(
            "{platform}, {name}: {change}",
            platform=shared.platform_of(series.platform),
            name=_title(plot),
            change=_change(plot, series, change),
        )
        cause = msg("nothing that vtax records differs between the runs beside it")
        if change.differences:
            cause = msg("between the runs beside it: {differences}", differences=_few(change))
        yield joined([sentence, cause, *change.warnings], "; ")
    if not history.tested:
        if len(history.runs) == 1:
            yield msg(
                "One run: a chart begins with the second, and a change point needs {fewest} runs.",
                fewest=doc.Count(FEWEST),
            )
        else:
            yield msg(
                "No series has {fewest} runs, from which a change point can be found.",
                fewest=doc.Count(FEWEST),
            )
    elif not changes:
        yield msg(
            "No change point in {count} series of at least {fewest} runs.",
            count=doc.Count(history.tested),
            fewest=doc.Count(FEWEST),
        )


def _warnings(history: History) -> tuple[doc.Warning, ...]:
    warnings = []
    for plot, series, change in _every_change(history):
        levels = levels_of(plot.levels)
        place = doc.WarnedPlace(series.platform.name, plot.section.name, levels)
        warnings += [noted(text, place) for text in change.warnings]
    return merged(warnings)


def _every_change(history: History) -> Iterator[tuple[Plot, Series, HistoryChange]]:
    for plot in history.plots:
        for series in plot.series:
            for change in series.changes:
                yield plot, series, change


def _notes(history: History) -> Iterator[doc.Part]:
    if history.tested:
        yield doc.Paragraph(
            msg(
                "Change points: E-divisive, permutation test; where nothing changed, the probability of one in any "
                "series is {level} (Holm). The data choose the place of a change point, so its size has no interval.",
                level=doc.Share(LEVEL, "declared"),
            ),
            "muted",
        )
    if history.unfinished:
        yield doc.Paragraph(
            plural(
                "{count} run is not finished and left out: {names}.",
                "{count} runs are not finished and left out: {names}.",
                len(history.unfinished),
                names=", ".join(history.unfinished),
            ),
            "muted",
        )
    if history.merged:
        yield doc.Paragraph(
            msg(
                "Merged from runs that are shown, and left out: {names}.",
                names=", ".join(history.merged),
            ),
            "muted",
        )
    if len({run.host for run in history.runs}) > 1:
        yield doc.Paragraph(
            msg("The runs are of several hosts: a change may be that of the host."), "caution"
        )


def _title(plot: Plot) -> doc.Inline:
    return joined([shared.title_of(plot.section), factors(plot.levels)], ", ")


def _change(plot: Plot, series: Series, change: HistoryChange) -> doc.Inline:
    """Return `changed with tour-9 from 98.1 % to 93.4 % (-4.8 %, p = 0.001)`."""
    scale = _scale(plot)
    sides = {"before": _value(change.before, scale), "after": _value(change.after, scale)}
    run = series.measured[change.index].run.name
    p_value = doc.PValue(change.p_value, is_named=True)
    if change.before > 0 and change.after > 0:
        shift = doc.Share(change.after / change.before - 1, "change")
        return msg(
            "changed with {run} from {before} to {after} ({change}, {p})",
            run=run,
            change=shift,
            p=p_value,
            **sides,
        )
    return msg("changed with {run} from {before} to {after} ({p})", run=run, p=p_value, **sides)


def _few(change: HistoryChange) -> doc.Inline:
    return joined(first_of(change.differences, _MAX_NAMED), "; ")


def _changes(plot: Plot) -> Iterator[doc.Part]:
    """Yield all that differs at change points of which the summary names only some."""
    for series in plot.series:
        for change in series.changes:
            if len(change.differences) > _MAX_NAMED:
                before, after = (series.measured[change.index + step].run.name for step in (-1, 0))
                title = msg("All differences of {after} from {before}", before=before, after=after)
                yield doc.Titled(title, (doc.Bullets(change.differences),), is_folded=True)


def _scale(plot: Plot) -> doc.Scale:
    """Return the unit of all values of a plot; of ratios none."""
    if plot.quantity == "efficiency":
        return _PERCENT
    return scale_for(
        plot.section.metric.unit,
        [value.value for series in plot.series for value in series.measured],
    )


def _value(value: float, scale: doc.Scale) -> doc.Inline:
    return doc.Relative(value) if scale is _PERCENT else doc.Quantity(value, scale, has_unit=True)


def _axis(plot: Plot) -> doc.Inline:
    if plot.quantity == "efficiency":
        return msg("percent of {baseline}", baseline=plot.baseline)
    unit = _scale(plot).unit
    return msg("mean ({unit})", unit=unit) if unit else msg("mean")


def _figure(plot: Plot, history: History, number: int) -> Iterator[doc.Part]:
    """Yield the chart, or why there is none; of a history of one run the summary says why."""
    if len({value.run.name for series in plot.series for value in series.measured}) > 1:
        yield _chart(plot, history, number)
    elif len(history.runs) > 1:
        yield doc.Paragraph(msg("One run measured this: a chart begins with the second."), "muted")


def _chart(plot: Plot, history: History, number: int) -> doc.Chart:
    level = doc.Share(history.confidence, "declared")
    panel = doc.ChartPanel(
        "", _axis(plot), "", msg("values of runs, {level} intervals", level=level), _scale(plot)
    )
    values = [
        doc.ChartValue(
            0, value.run.started_at, position, right=(value.value, value.low, value.high)
        )
        for position, series in enumerate(plot.series)
        for value in series.measured
    ]
    return doc.Chart(
        kind="history",
        key=f"history-{number}",
        title=_title(plot),
        notes=tuple(_chart_notes(plot)),
        panels=(panel,),
        series=tuple(
            doc.ChartSeries(shared.platform_of(series.platform), series.colour)
            for series in plot.series
        ),
        values=tuple(values),
        x_title=msg("start of the run, local time"),
        events=tuple(_events(plot)),
    )


def _chart_notes(plot: Plot) -> Iterator[doc.Inline]:
    if any(series.changes for series in plot.series):
        yield msg("A dashed line marks a change point, between the runs beside it.")
    yield msg("The axis does not begin at zero.")


def _events(plot: Plot) -> Iterator[doc.ChartEvent]:
    """Yield one for each place, which may be that of several platforms."""
    places: dict[float, list[doc.Inline]] = {}
    for series in plot.series:
        for change in series.changes:
            before, after = (
                series.measured[change.index + step].run.started_at for step in (-1, 0)
            )
            places.setdefault((before + after) / 2, []).append(shared.platform_of(series.platform))
    for place, names in sorted(places.items()):
        yield doc.ChartEvent(place, joined(names))


def _table(plot: Plot, history: History) -> doc.Table:
    """Return a group for every platform, a row for every run."""
    scale = _scale(plot)
    interval = msg("{level} interval", level=doc.Share(history.confidence, "declared"))
    has_hosts = len({run.host for run in history.runs}) > 1
    columns = [
        doc.Column("run", msg("run")),
        doc.Column("started", msg("started")),
        *([doc.Column("host", msg("host"))] if has_hosts else ()),
        doc.Column("kernel", msg("kernel"), room="wide"),
        doc.Column("vtax_version", "vtax", room="wide"),
        doc.Column("blocks", msg("blocks"), is_number=True),
        doc.Column("value", _axis(plot), is_number=True),
    ]
    if plot.quantity == "mean":
        columns.append(doc.Column("interval", interval, is_number=True, of="value"))
    columns.append(doc.Column("change", msg("change point")))
    groups = tuple(
        doc.Group(
            tuple(_rows(plot, series, scale, has_hosts=has_hosts)),
            title=shared.platform_of(series.platform),
        )
        for series in plot.series
    )
    return doc.Table(tuple(columns), groups, key="history", label=_title(plot))


def _rows(
    plot: Plot, series: Series, scale: doc.Scale, *, has_hosts: bool
) -> Iterator[doc.TableRow]:
    changes = {change.index: change for change in series.changes}
    for index, value in enumerate(series.measured):
        number: tuple[doc.Inline, ...] = (doc.Quantity(value.value, scale), _interval(value, scale))
        if plot.quantity == "efficiency":
            number = (shared.share_of(value.value, value.low, value.high),)
        change = changes.get(index)
        yield doc.TableRow(
            (
                value.run.name,
                doc.Moment(value.run.started_at),
                *([value.run.host or doc.Nothing()] if has_hosts else ()),
                value.run.kernel,
                value.run.vtax_version,
                doc.Count(value.run.blocks),
                *number,
                _step(change) if change else "",
            )
        )


def _interval(value: Measured, scale: doc.Scale) -> doc.Inline:
    if value.low is None or value.high is None:
        return doc.Nothing()
    return doc.IntervalCell(value.low, value.high, "quantity", scale)


def _step(change: HistoryChange) -> doc.Inline:
    p_value = doc.PValue(change.p_value, is_named=True)
    if change.before > 0 and change.after > 0:
        return msg(
            "{change} ({p})",
            change=doc.Share(change.after / change.before - 1, "change"),
            p=p_value,
        )
    return p_value
