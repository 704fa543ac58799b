"""The figures of a metric as data: its means, its ratios to the baseline, and its trials in order and by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.document import (
    Figure,
    FigureGroup,
    FigureRow,
    Inline,
    Mean,
    Paragraph,
    Part,
    Share,
    Titled,
    joined,
    msg,
    plural,
)
from vtax.report.document.stored_texts import unit_of
from vtax.report.parts import shared
from vtax.report.parts import trial_figures as trials
from vtax.stats.checks import Better
from vtax.stats.ratio import log_ratios

_MOST_ROWS = 160  # of the figure; the table of percents is shorter than more
_LARGEST_LOG = 690.0  # of a ratio that is drawn: those beyond it are no numbers in JSON


def figures_of(section: Section, analysis: Analysis) -> Iterator[Part]:
    """Yield every figure of a metric for which there are values; of ratios only where there are any."""
    yield means(section, analysis)
    if any(row.ratio is not None for row in section.rows):
        yield ratios(section, analysis)
    yield from trials.figures_of(section, analysis)


def means(section: Section, analysis: Analysis) -> Figure:
    """Return every cell's mean with its interval, and one value per block."""
    scale, title = shared.scale_of(section), shared.metric_of(section)

    def row_of(row: Row, _: ResultPoint) -> FigureRow | None:
        if row.summary is None:
            return None
        s = row.summary
        low, high = (bound if np.isfinite(bound) else None for bound in (s.low, s.high))
        text = Mean(s.mean, (s.high - s.low) / 2, scale, "both")
        name, label = row.platform.name, shared.platform_of(row.platform)
        return FigureRow(
            label, analysis.colours[name], s.mean, low, high, _ints(row.blocks), _floats(row.block_means), text
        )

    return Figure(
        "values",
        msg("{title}: mean, {level} interval and every block", title=shared.title_of(section), level=analysis.level),
        joined([title, unit_of(scale.unit)]),
        msg("Mean with its {level} interval", level=analysis.level),
        _groups(section, row_of),
        msg("value"),
        msg("mean, {level} interval", level=analysis.level),
        scale,
        key=f"means {section.name}",
    )


def ratios(section: Section, analysis: Analysis) -> Figure:
    """Shares of the baseline, per block and estimated; of times the inverse ratios, so that more is faster."""

    def row_of(row: Row, point: ResultPoint) -> FigureRow | None:
        base = point.baseline
        if row.ratio is None or base is None:
            return None
        blocks, shares = _block_shares(row, base, section.better)
        return replace(compared(row, section, analysis), blocks=_ints(blocks), values=_floats(shares))

    to_baseline: dict[str, Inline] = {"baseline": analysis.baseline, "level": analysis.level}
    title = shared.title_of(section)
    return Figure(
        "ratios",
        msg("{title}: percent of {baseline}, {level} interval and every block", title=title, **to_baseline),
        msg("percent of {baseline}", baseline=analysis.baseline),
        msg(
            "Percent of {baseline} with its {level} interval; above 100 % is faster, and in the grey band "
            "(±{margin}) it is equivalent",
            margin=Share(analysis.rule.margin, "declared"), **to_baseline,
        ),
        _groups(section, row_of),
        msg("percent in this block"),
        msg("percent, {level} interval", level=analysis.level),
        margin=analysis.rule.margin,
        baseline=analysis.platform_of(analysis.baseline),
        key=f"ratios {section.name}",
    )  # fmt: skip


def compared(row: Row, section: Section, analysis: Analysis) -> FigureRow:
    """Return a comparison with the baseline and its verdict as a row of a figure, without its blocks."""
    assert row.ratio is not None
    share = shared.relative_of(row.ratio, section.better)
    low, high = (share.low, share.high) if np.isfinite(share.high) else (None, None)
    text: Inline = share
    if row.verdict is not None:
        text = joined([text, shared.verdict_of(row.verdict)], ": ")
    return FigureRow(
        shared.platform_of(row.platform), analysis.colours[row.platform.name], share.estimate, low, high, text=text
    )


def below(title: Inline, groups: Sequence[FigureGroup]) -> list[FigureGroup]:
    """Return groups below a heading; one alone has it before its own."""
    if len(groups) < 2:
        return [FigureGroup(joined([title, group.title]), group.rows) for group in groups]
    return [FigureGroup(title, ()), *groups]


def _groups(section: Section, row_of: Any) -> tuple[FigureGroup, ...]:
    return tuple(
        FigureGroup(
            shared.levels(point), tuple((shared.platform_of(row.platform), row_of(row, point)) for row in point.rows)
        )
        for point in section.points
    )


def _block_shares(row: Row, base: Row, better: Better) -> tuple[Any, Any]:
    blocks, of_row, of_base = np.intersect1d(row.blocks, base.blocks, return_indices=True)
    logs = log_ratios(row.block_means[of_row], base.block_means[of_base])
    return blocks, np.exp(np.minimum(logs if better == "higher" else -logs, _LARGEST_LOG))


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(values.tolist())


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(values.tolist())


def forest(analysis: Analysis) -> Iterator[Part]:
    """Yield a section with the figure, where there are comparisons of several metrics or points."""
    count = sum(row.ratio is not None for *_, row in every_row(analysis.primary))
    groups = tuple(_forest_groups(analysis))
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
    yield Titled(title, (_forest_figure(analysis, groups),), key="forest")


def _forest_figure(analysis: Analysis, groups: tuple[FigureGroup, ...]) -> Figure:
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


def _forest_groups(analysis: Analysis) -> Iterator[FigureGroup]:
    """Yield the comparisons of every point, below the name of the metric."""
    for section in analysis.primary:
        found = []
        for point in section.points:
            if rows := tuple(
                (shared.platform_of(row.platform), compared(row, section, analysis))
                for row in point.rows
                if row.ratio is not None
            ):
                found.append(FigureGroup(shared.levels(point), rows))
        yield from below(shared.title_of(section), found)
