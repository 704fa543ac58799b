"""A figure of the publication as a chart: which place is drawn where, and what its axes and sides are called."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM, number_of
from vtax.report import document as doc
from vtax.report.analysis.values import Analysis, Estimate
from vtax.report.answers.figures.compute import Drawing, Plotted, platforms_of_paper
from vtax.report.document import joined, listed, msg, plural, scale_for, term
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.report.parts.published import changes_of, cited
from vtax.study.figures import NAMED_AXES, QUANTITY, TEST, Quantity

_PERCENT = doc.Scale("%", 0.01)
_ROW = "row"  # of a table: a benchmark with a metric
_OTHER_SIGN = "†"
"""Beside a point of which trials measured something else than the study asks for."""
_LARGEST_CV = msg("largest coefficient of variation")


def title_of(drawing: Drawing) -> doc.Inline:
    """`Figure 5.1: TCP throughput, test by test`; parts of one figure, such as figure-3-cpu, have its number."""
    kind, _, part = drawing.figure.id.partition("-")
    number = part.partition("-")[0]
    title = doc.Translated(drawing.figure.title, {"pt": drawing.figure.title_pt})
    if kind == "figure":
        return msg("Figure {number}: {title}", number=number, title=title)
    if kind == "table":
        return msg("Table {number}: {title}", number=number, title=title)
    return title


def left_of(drawing: Drawing, analysis: Analysis, quantity: Quantity) -> doc.Inline:
    """Return what the left side shows: the statistic of the publication."""
    if quantity == "efficiency":
        return msg("percent from the means of all tests, as the publication computes it")
    if drawing.figure.is_of_largest_cv:
        return msg("largest coefficient of variation of all tests, as the publication computes it")
    if drawing.figure.x == TEST:
        return msg("every test, as the publication draws it")
    if drawing.figure.statistic == "sd":
        return msg("mean of all tests ± standard deviation, as the publication computes it")
    if drawing.figure.statistic == "t_interval":
        return msg(
            "mean of all tests, {level} t-interval, as the publication computes it",
            level=analysis.level,
        )
    return msg("mean of all tests, as the publication computes it")


def right_of(drawing: Drawing, analysis: Analysis, quantity: Quantity) -> doc.Inline:
    """Return what the right side shows: the statistic of this run."""
    is_over_sessions = len(analysis.sessions) > 1 and not any(
        place.host for place in drawing.places
    )
    level = analysis.level
    if drawing.figure.x == TEST and is_over_sessions:
        return msg("every test, and the mean with its {level} interval from sessions", level=level)
    if drawing.figure.x == TEST:
        return msg("every test, and the mean with its {level} interval from blocks", level=level)
    if drawing.figure.is_of_largest_cv:
        if is_over_sessions:
            return msg("largest half-width of a mean's {level} interval from sessions", level=level)
        return msg("largest half-width of a mean's {level} interval from blocks", level=level)
    if quantity == "efficiency" and is_over_sessions:
        return msg("percent within blocks, {level} interval from sessions", level=level)
    if quantity == "efficiency":
        return msg("percent within blocks, {level} interval from blocks", level=level)
    if is_over_sessions:
        return msg("mean, {level} interval from sessions", level=level)
    return msg("mean, {level} interval from blocks", level=level)


def chart_of(drawing: Drawing, analysis: Analysis, *, is_alone: bool = True) -> doc.Chart:
    """Return the chart of a figure that has a value. is_alone: with the publication and what was changed of the study
    below it, which a document says once."""
    return _Builder(drawing, analysis, is_alone=is_alone).chart()


def mapped_notes(mapped: Mapping[str, str]) -> list[doc.Inline]:
    """Return what stands for a platform or host of the publication, a sentence each."""
    return [
        msg("{here} stands for {there}, by request.", here=here, there=there)
        for there, here in mapped.items()
    ]


class _Builder:
    """Axes, panels and values of one figure."""

    def __init__(self, drawing: Drawing, analysis: Analysis, *, is_alone: bool) -> None:
        self.drawing, self.analysis, self.figure = drawing, analysis, drawing.figure
        self.is_alone = is_alone
        self.order = [platform.name for platform in analysis.platforms]
        if drawing.figure.kind == "table":  # as it is printed
            first_platforms = [
                next((p.platform for p in drawing.places if p.there == name), name)
                for name in platforms_of_paper(analysis)
            ]
            self.order = [
                *first_platforms,
                *(name for name in self.order if name not in first_platforms),
            ]
        self.colours = analysis.colours
        self.titles = {
            (section.label, section.metric.name): shared.metric_of(section)
            for section in analysis.sections
        }

    def chart(self) -> doc.Chart:
        """Return the chart; of a table its rows are benchmarks with their metrics, or platforms."""
        figure, places = self.figure, self.drawing.single or self.drawing.places
        row_axis, x_axis = figure.y, figure.x
        if figure.kind == "table":
            row_axis = _ROW if figure.x == PLATFORM else PLATFORM
            if figure.x == METRIC and len(figure.benchmarks) > 1:
                x_axis = _ROW
        panels = self._keys(places, figure.panel)
        rows = self._keys(places, row_axis)
        series = self._keys(places, figure.series)
        at_x: dict[str, float] = {}
        for number, key in enumerate(self._keys(places, x_axis)):
            at_x[key] = _number(key) if figure.kind == "lines" else float(number)
        drawn, values = [], []
        for number, panel in enumerate(panels):
            panel_places = [place for place in places if self._key(place, figure.panel) == panel]
            drawn.append(self._panel(panel, self._scale(panel_places), panel_places))
            for place in panel_places:
                if not (place.tests or place.here or place.printed):
                    continue
                value = doc.ChartValue(
                    panel=number,
                    x=at_x[self._key(place, x_axis)],
                    series=series.index(self._key(place, figure.series)),
                    y=rows.index(self._key(place, row_axis)),
                    left=_bounded(place.tests.drawn) if place.tests else None,
                    right=_right(place),
                    printed=_bounded(place.printed) if place.printed else None,
                )
                values.append(value)
        legend = []
        for number, key in enumerate(series):
            label = self._label(key, figure.series, places)
            legend.append(doc.ChartSeries(label, self._colour(key, number)))
        x_labels = []
        if figure.x != TEST:
            x_labels = [(x, self._marked(key, x_axis, places)) for key, x in at_x.items()]
        is_printed = any(value.printed for value in values)
        return doc.Chart(
            kind=figure.kind,
            key=figure.id,
            title=title_of(self.drawing),
            notes=tuple(self._notes()),
            panels=tuple(drawn),
            series=tuple(legend),
            values=tuple(values),
            x_title=self._axis_title(figure.x),
            x_labels=tuple(x_labels),
            y_title=self._axis_title(row_axis) if row_axis else "",
            y_labels=tuple(self._label(key, row_axis, places) for key in rows),
            printed=msg("◇ printed by the publication") if is_printed else "",
            bands=tuple(self._bands(panels, series)),
            log=tuple(figure.log),
            is_share=figure.is_of_largest_cv,
            has_one_side=self._shows_the_same_twice(),
        )

    def _bands(self, panels: Sequence[str], series: Sequence[str]) -> list[doc.ChartValue]:
        """Make the bands of a figure over tests: the mean of each series with its interval from blocks."""
        if not self.drawing.single:
            return []
        return [
            doc.ChartValue(
                panels.index(self._key(place, self.figure.panel)),
                0.0,
                series.index(self._key(place, self.figure.series)),
                right=_bounded(place.here),
            )
            for place in self.drawing.places
            if place.here
        ]

    def _key(self, place: Plotted, axis: str | None) -> str:
        """Return where a place is on an axis, as text."""
        keys = {
            PLATFORM: place.platform,
            TEST: str(place.test),
            HOST: str(place.host),
            QUANTITY: place.quantity,
            _ROW: f"{place.levels.get(BENCHMARK)}\n{place.levels.get(METRIC)}",
        }
        if axis is None:
            return ""
        return keys[axis] if axis in keys else place.levels.get(axis, "")

    def _keys(self, places: Sequence[Plotted], axis: str | None) -> list[str]:
        """Return all keys of an axis: platforms as in the run, metrics as in the figure, numbers ascending."""
        keys = list(dict.fromkeys(self._key(place, axis) for place in places))
        if axis == PLATFORM:
            return sorted(
                keys,
                key=lambda name: self.order.index(name) if name in self.order else len(self.order),
            )
        if axis == _ROW:
            rows = [
                f"{label}\n{metric}"
                for label in self.figure.benchmarks
                for metric in self.figure.metrics
            ]
            return [row for row in rows if row in keys]
        if axis in (METRIC, BENCHMARK, QUANTITY):
            order: Sequence[str] = {
                METRIC: self.figure.metrics,
                BENCHMARK: self.figure.benchmarks,
                QUANTITY: self.figure.quantities,
            }[axis]
            return [name for name in order if name in keys]
        numbers = {key: number_of(key) for key in keys}
        if all(number is not None for number in numbers.values()):
            return sorted(keys, key=_number)
        return keys

    def _label(self, key: str, axis: str | None, places: Sequence[Plotted]) -> doc.Inline:
        """Return what a key is called beside its axis."""
        if axis == PLATFORM:
            published_name = next((place.there for place in places if place.platform == key), key)
            name = self.analysis.platform_of(key)
            return (
                msg("{here} for {there}", here=name, there=published_name)
                if published_name != key
                else name
            )
        if axis == HOST:
            return msg("host {number}", number=key) if key != "0" and self.drawing.hosts > 1 else ""
        if axis == METRIC:
            return next((title for (_, metric), title in self.titles.items() if metric == key), key)
        if axis == QUANTITY:
            return {"efficiency": self._percent(), "largest_cv": _LARGEST_CV}.get(key, "")
        if axis == _ROW:
            label, metric = key.split("\n")
            is_alone = (
                sum(row_key.startswith(f"{label}\n") for row_key in self._keys(places, _ROW)) == 1
            )
            return label if is_alone else joined([label, metric], " ")
        return shared.level_label(axis, key) if axis else key

    def _marked(self, key: str, axis: str, places: Sequence[Plotted]) -> doc.Inline:
        """Return the label of a key of the horizontal axis, with a sign where values are of another quantity."""
        label = self._label(key, axis, places)
        key_places = [place for place in places if self._key(place, axis) == key]
        if any(place.is_other_quantity for place in key_places):
            return joined([label, _OTHER_SIGN], " ")
        return label

    def _axis_title(self, axis: str) -> doc.Inline:
        if axis == TEST:
            return msg("test number")
        return "" if axis in (*NAMED_AXES, _ROW) else shared.factor_words(axis)

    def _panel(self, key: str, scale: doc.Scale, places: Sequence[Plotted]) -> doc.ChartPanel:
        """Return a panel with the title of its values. places: its own."""
        first, *other_titles = map(self._value_title, places)
        value: doc.Inline = first if all(title == first for title in other_titles) else ""
        axis = (
            msg("{metric} ({unit})", metric=value, unit=unit_of(scale.unit))
            if value != ""
            else unit_of(scale.unit)
        )
        title = self._label(key, self.figure.panel, places) if self.figure.panel else ""
        if self.figure.panel and self.figure.panel not in (
            PLATFORM,
            METRIC,
            BENCHMARK,
            QUANTITY,
            HOST,
        ):
            title = msg("{name}: {value}", name=shared.factor_words(self.figure.panel), value=title)
        if self.figure.kind == "heatmap":
            title = axis if self.figure.panel == QUANTITY else joined([title, axis], ", ")
        quantity = places[0].quantity
        middle = 1.0 if self.figure.kind == "heatmap" and quantity == "efficiency" else None
        left, right = (
            left_of(self.drawing, self.analysis, quantity),
            right_of(self.drawing, self.analysis, quantity),
        )
        if middle is not None:
            left, right = (msg("{side}; white at 100 %", side=side) for side in (left, right))
        return doc.ChartPanel(title, axis, left, right, scale, middle)

    def _value_title(self, place: Plotted) -> doc.Inline:
        if place.quantity == "value":
            return self.titles.get(
                (place.levels[BENCHMARK], place.levels[METRIC]), place.levels[METRIC]
            )
        if place.quantity == "efficiency":
            return self._percent()
        return _LARGEST_CV

    def _percent(self) -> doc.Inline:
        return msg("percent of {baseline}", baseline=self.analysis.baseline)

    def _scale(self, places: Sequence[Plotted]) -> doc.Scale:
        """Return the scale of places: of all values of their metrics in the run, so that these have one unit."""
        if any(place.quantity == "largest_cv" for place in places):
            return doc.UNSCALED
        if any(place.quantity == "efficiency" for place in places):
            return _PERCENT
        unit = next((place.unit for place in places if place.unit), "")
        metrics = {(place.levels.get(BENCHMARK), place.levels.get(METRIC)) for place in places}
        values = [place.printed.value for place in places if place.printed]
        for section in self.analysis.sections:
            if (section.label, section.metric.name) in metrics:
                values += [row.summary.mean for row in section.rows if row.summary is not None]
        return scale_for(unit, values)

    def _colour(self, key: str, number: int) -> int:
        """Return the colour of platforms as in all of the report, of other series by their order."""
        return self.colours.get(key, 0) if self.figure.series == PLATFORM else number + 1

    def _shows_the_same_twice(self) -> bool:
        """Return whether the right side has all that the left one has: every test, or the same means and bounds."""
        if self.figure.x == TEST:
            return True
        is_of_values = self.figure.quantities == ("value",)
        return (
            is_of_values and self._has_same_means() and all(map(_is_in_right, self.drawing.places))
        )

    def _has_same_means(self) -> bool:
        """Return whether there is one test in a block, so that the mean of all tests is that of the blocks."""
        pairs = [
            (p.tests, p.here, p.blocks)
            for p in self.drawing.places
            if p.quantity == "value" and p.tests
        ]
        return (
            bool(pairs)
            and self.figure.x != TEST
            and all(
                mean is not None and tests.n == blocks and math.isclose(tests.mean, mean.value)
                for tests, mean, blocks in pairs
            )
        )

    def _notes(self) -> list[doc.Inline]:
        """Sentences below the chart: the run, what is marked, what is absent, what the study chose."""
        analysis, figure = self.analysis, self.figure
        notes: list[doc.Inline] = [
            *mapped_notes(self.drawing.mapped),
            plural(
                "{run}: {count} block.",
                "{run}: {count} blocks.",
                analysis.blocks,
                run=analysis.name,
            ),
            *(changes_of(analysis, figure.benchmarks) if self.is_alone else ()),
        ]
        for factor, levels in figure.left_out.items():
            level_list = levels if isinstance(levels, list) else [levels]
            names = listed([self._label(str(level), factor, ()) for level in level_list])
            notes.append(
                msg(
                    "Left out by --scale: {factor} {levels}.",
                    factor=self._axis_title(factor),
                    levels=names,
                )
            )
        drawn_platforms = {
            place.platform for place in self.drawing.places if place.here or place.tests
        }
        marked_platforms = [
            shared.platform_of(platform)
            for platform in analysis.platforms
            if platform.marks and platform.name in drawn_platforms
        ]
        if marked_platforms:
            notes.append(
                msg(
                    "Rates of {platforms} are not those of hardware.",
                    platforms=listed(marked_platforms),
                )
            )
        if any(place.is_other_quantity for place in self.drawing.places):
            notes.append(
                msg(
                    "{sign}: trials measured something else than the study asks for, such as messages that no wire "
                    "carries; see the warnings of the run.",
                    sign=_OTHER_SIGN,
                )
            )
        if self.drawing.absent:
            notes.append(
                msg(
                    "Without a value in this run: {platforms}.",
                    platforms=", ".join(self.drawing.absent),
                )
            )
        if self._has_same_means():
            text = msg(
                "Every block has one test here, so that the means of both sides are the same."
            )
            if self._shows_the_same_twice():
                text = msg(
                    "Every block has one test here: the mean of all tests, as the publication computes it, is this one."
                )
            notes.append(text)
        if HOST in figure.axes or figure.host:
            hosts = plural("{count} host", "{count} hosts", self.drawing.hosts)
            notes.append(
                msg(
                    "An environment of the publication is a host of the run, which has {hosts}.",
                    hosts=hosts,
                )
            )
        of_paper = platforms_of_paper(analysis)
        unpublished_platforms = sorted(
            drawn_platforms - {self.drawing.mapped.get(name, name) for name in of_paper}
        )
        if unpublished_platforms and of_paper:
            notes.append(
                msg(
                    "Not in the publication: {platforms}.",
                    platforms=", ".join(unpublished_platforms),
                )
            )
        notes += cited(analysis) if self.is_alone else ()
        if figure.note:
            notes.append(term(figure.note))
        return notes


def _number(key: str) -> float:
    return number_of(key) or 0.0


def _is_in_right(place: Plotted) -> bool:
    """Return whether the right side has the bounds that the left side shows of a place."""
    if place.tests is None or place.here is None or place.tests.drawn.low is None:
        return True
    left, right = _bounded(place.tests.drawn), _bounded(place.here)
    return all(
        a is not None and b is not None and math.isclose(a, b)
        for a, b in zip(left, right, strict=True)
    )


def _right(place: Plotted) -> doc.Bounded | None:
    """Return what the right side shows of a place: a single test is the same there."""
    if place.here is None:
        return _bounded(place.tests.drawn) if place.test and place.tests else None
    return _bounded(place.here)


def _bounded(estimate: Estimate) -> doc.Bounded:
    return estimate.value, estimate.low, estimate.high
