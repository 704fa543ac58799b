"""Figures over the factors of numbers of a study that declares no figures: lines over one, heatmaps over two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vtax.report.analysis import Analysis, Section
from vtax.report.analysis.sweeps import Sweep, sweeps
from vtax.report.document import Factor, Inline, Paragraph, Part, joined, levels_of, msg, plural
from vtax.report.document import Section as Titled
from vtax.report.parts import figure_charts, shared


class Sweeps:
    """All sweeps of a report, by the metric that they are of."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.found, self.left_out = sweeps(analysis)

    def of(self, section: Section) -> Iterator[Part]:
        """Yield the figures of a metric."""
        for number, each in enumerate(self.found):
            if each.section is section:
                title = _title(each, self.analysis.baseline)
                chart = figure_charts.chart_of(each.drawing, self.analysis)
                chart = replace(chart, key=f"sweep-{number}", title=title, has_one_side=True)
                yield Titled(title, (chart,), key=f"sweep {number}")

    def rest(self) -> Iterator[Part]:
        """Yield how many are left out, and the command that draws one."""
        if self.left_out:
            yield Paragraph(
                plural(
                    "{count} more figure over factors is left out, so that this report stays small; {command} "
                    "draws one.",
                    "{count} more figures over factors are left out, so that this report stays small; {command} "
                    "draws one.",
                    self.left_out, command=f"vtax show {self.analysis.name} --cols FACTOR --figure FILE",
                ), "muted",
            )  # fmt: skip


def _title(sweep: Sweep, baseline: str) -> Inline:
    """`netperf · throughput over message size, MTU=1500`."""
    figure = sweep.drawing.figure
    names = {"metric": shared.title_of(sweep.section), "x": figure_charts.words_of(figure.x)}
    y = figure_charts.words_of(figure.y or "")
    title = {
        "lines": msg("{metric} over {x}", **names),
        "values": msg("{metric} over {x} and {y}", y=y, **names),
        "efficiency": msg("{metric}: percent of {baseline} over {x} and {y}", y=y, baseline=baseline, **names),
    }[sweep.kind]
    return joined([title, Factor(levels_of(sweep.where)) if sweep.where else ""])
