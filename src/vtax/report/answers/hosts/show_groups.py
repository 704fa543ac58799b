"""Groups of hosts that are alike in CPU and kernel: what each shows, and whether they differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis, Section
from vtax.report.answers.hosts.compute import GroupRatio, HostGroup, group_ratios, groups_of
from vtax.report.document import msg
from vtax.report.parts import shared


def groups_apart(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the ratios of every group of alike hosts, where there are several groups."""
    groups = groups_of(analysis.sessions)
    if not groups:
        return
    interval = msg("{level} interval", level=analysis.level)
    columns = (
        shared.PLATFORM,
        doc.Column("cpu_model", msg("CPU"), wraps=True),
        doc.Column("kernel", msg("kernel")),
        doc.Column("hosts", msg("hosts"), is_number=True),
        doc.Column("percent", shared.percent_title(analysis.baseline, interval), is_number=True),
        doc.Column("relative", msg("percent of the\nfirst group"), is_number=True),
        doc.Column("p_value", msg("p that they\nare alike"), is_number=True),
    )
    for section in analysis.primary:
        found = group_ratios(section, groups, analysis.rule.confidence)
        if not found:
            continue
        label = msg("{title}: groups of hosts", title=shared.title_of(section))
        rows = tuple(
            doc.Group(
                tuple(
                    doc.TableRow(
                        (
                            shared.platform_of(row.platform),
                            *_group_cells(groups[each.group], each, section),
                        )
                    )
                    for _, row, of_row in of_point
                    for each in of_row
                ),
                shared.levels(of_point[0][0]),
            )
            for of_point in (list(each) for _, each in groupby(found, key=lambda each: each[0].key))
        )
        table = doc.Table(columns, rows, key=f"groups {section.name}", label=label, style="result")
        yield doc.Titled(label, (table,))


def _group_cells(group: HostGroup, found: GroupRatio, section: Section) -> list[doc.Inline]:
    ratio, relative = found.ratio, found.relative
    return [
        group.cpu_model,
        group.kernel,
        doc.Count(group.hosts),
        shared.relative_of(ratio, section) if ratio else doc.Nothing(),
        shared.relative_of(relative, section) if relative else doc.Nothing(),
        doc.PValue(found.p_value) if found.p_value is not None else doc.Nothing(),
    ]


def plain_groups(analysis: Analysis) -> list[dict[str, Any]]:
    """List for each platform and primary metric the ratios in every group; nothing where all hosts are alike."""
    groups = groups_of(analysis.sessions)
    return [
        {
            **shared.named(section),
            "levels": dict(point.levels),
            "platform": row.platform.name,
            "group": each.group + 1,
            "ratio": each.ratio,
            "relative": each.relative,
            "p_value": each.p_value,
        }
        for section in (analysis.primary if groups else ())
        for point, row, of_row in group_ratios(section, groups, analysis.rule.confidence)
        for each in of_row
    ]
