"""The typical ratio beside the ratio of averages: a small table below a result, and a paragraph of its method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.document import msg, styled
from vtax.report.parts import shared


def parts_of(section: Section, analysis: Analysis) -> Iterator[doc.Part]:
    """Ratios of averages beside those of typical trials, where any row has both, and which differ clearly."""
    if not any(row.typical for row in section.rows):
        return
    named: dict[str, doc.Inline] = {"baseline": analysis.baseline, "level": analysis.level}
    columns = (
        shared.PLATFORM,
        doc.Column(
            "percent",
            msg("percent of {baseline}\naverages [{level} interval]", **named),
            is_number=True,
        ),
        doc.Column(
            "typical",
            msg("percent of {baseline}\ntypical trials [{level} interval]", **named),
            is_number=True,
        ),
        doc.Column("pauses", msg("may pause")),
    )

    def cells(row: Row) -> Sequence[doc.Inline] | None:
        if row.ratio is None or row.typical is None:
            return None
        found = row.typical
        pausing = {"treatment": row.platform.name, "baseline": analysis.baseline, "": ""}[
            found.pauses
        ]
        share = found.efficiency(section.share_better)
        shown = shared.relative_of(row.ratio, section)
        return [
            shown,
            replace(shown, estimate=share.estimate, low=share.low, high=share.high),
            styled(pausing, "caution"),
        ]

    label = msg("typical trials of {name}", name=section.name)
    yield doc.Table(
        columns,
        shared.groups(section.points, cells, analysis.colours),
        key=f"{section.name} typical",
        label=label,
    )
    yield doc.Paragraph(
        msg(
            "typical trials: the median of each block's trials, the trimmed mean of the blocks; pauses do not move "
            "it, and no verdict uses it"
        ),
        "muted",
    )


def method_of(analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what the typical ratio is, where a run has any."""
    if any(row.typical for *_, row in every_row(analysis.sections)):
        yield msg(
            "The ratio of typical trials beside it is that of the medians of the blocks' trials, averaged after the "
            "lowest and the highest fifth of the blocks are cut off (trimmed mean, Yuen 1974). Where the two differ "
            "by more than chance and the margin, a warning names the side that may pause, and the p-value."
        )
