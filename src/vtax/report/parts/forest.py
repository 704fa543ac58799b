"""One figure of all comparisons: the percent of the baseline of every platform, metric and point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.document import (
    Figure,
    FigureGroup,
    FigureRow,
    Inline,
    Paragraph,
    Part,
    Share,
    msg,
    plural,
)
from vtax.report.document import Section as Titled
from vtax.report.parts import figures, shared

_MOST_ROWS = 160  # of the figure; the table of percents is shorter than more


def forest(analysis: Analysis, names: Mapping[str, int]) -> Iterator[Part]:
    """Yield a section with the figure, where there are comparisons of several metrics or points."""
    count = sum(row.ratio is not None for *_, row in every_row(analysis.primary))
    groups = tuple(_groups(analysis, names))
    if len(groups) < 2:
        return
    title = msg("Every comparison")
    if len(groups) + count > _MOST_ROWS:
        text = plural(
            "A figure of {count} comparison is too long to be read: the figures of each metric show them.",
            "A figure of {count} comparisons is too long to be read: the figures of each metric show them.", count,
        )  # fmt: skip
        yield Titled(title, (Paragraph(text, "muted"),), key="forest")
        return
    yield Titled(title, (_figure(analysis, groups),), key="forest")


def _figure(analysis: Analysis, groups: tuple[FigureGroup, ...]) -> Figure:
    to_baseline: dict[str, Inline] = {"baseline": analysis.platform_of(analysis.baseline), "level": analysis.level}
    return Figure(
        "ratios",
        msg("Every comparison: percent of {baseline}, {level} interval", **to_baseline),
        msg("percent of {baseline}", baseline=to_baseline["baseline"]),
        msg(
            "Every platform on every metric with its {level} interval, on a logarithmic axis where they are far "
            "apart; above 100 % is faster than {baseline}, and in the grey band (±{margin}) it is equivalent",
            margin=Share(analysis.rule.margin, "declared"), **to_baseline,
        ),
        groups,
        msg("percent"),
        msg("percent, {level} interval", level=analysis.level),
        margin=analysis.rule.margin,
        key="forest",
    )  # fmt: skip


def _groups(analysis: Analysis, names: Mapping[str, int]) -> Iterator[FigureGroup]:
    """Yield the comparisons of every point, below the name of the metric."""
    for section in analysis.primary:
        found = []
        for point in section.points:
            if rows := tuple(_row(row, section, names) for row in point.rows if row.ratio is not None):
                found.append(FigureGroup(point.name, rows))
        yield from figures.below(shared.title_of(section), found)


def _row(row: Row, section: Section, names: Mapping[str, int]) -> tuple[Inline, FigureRow]:
    return shared.platform_of(row.platform), figures.compared(row, section, names)
