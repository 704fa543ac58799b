"""Matrix of hosts and platforms: a table with a line a host, and a forest of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.report.analysis.hosts import MeasuredHost, logs_on, units_on
from vtax.report.analysis.values import rows_to_baseline
from vtax.report.document import joined, msg, muted, plural
from vtax.report.parts import shared
from vtax.report.parts.figures import MOST_ROWS, share_row
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio
from vtax.stats.sessions import ratio_over_sessions


@dataclass(frozen=True)
class Line:
    """A row of a run, host by host. ratios: name of a host -> its ratio to the baseline over its own sessions."""

    section: Section
    point: ResultPoint
    row: Row
    ratios: Mapping[str, Ratio]


def lines_of(analysis: Analysis, hosts: Sequence[MeasuredHost]) -> tuple[Line, ...]:
    """Return every comparison of a primary metric with the baseline, host by host."""
    found = []
    units, level = units_on(hosts), analysis.rule.confidence
    for section, point, row, base in rows_to_baseline(analysis.primary):
        try:
            logs = logs_on(row, base, units)
        except StatsError:
            continue
        ratios = {}
        for host in hosts:
            own = logs.only(host.blocks)
            if own:
                sessions = [units[block][1] for block in own.units.tolist()]
                ratios[host.name] = ratio_over_sessions(own.values, sessions, level)
        found.append(Line(section, point, row, ratios))
    return tuple(found)


def matrices(
    lines: Sequence[Line], hosts: Sequence[MeasuredHost], analysis: Analysis, most: int | None
) -> Iterator[doc.Part]:
    """Yield a table for each metric: a line a host, a column a platform. most: lines at a point; None: all."""
    named = len({host.group for host in hosts}) > 1
    for section in dict.fromkeys(line.section.name for line in lines):
        of = [line for line in lines if line.section.name == section]
        shown = _shown(of, hosts, most)
        names = list(dict.fromkeys(line.row.platform.name for line in of))
        columns = (
            doc.Column("host", msg("host")),
            *((doc.Column("group", msg("group")),) if named else ()),
            doc.Column("sessions", msg("sessions"), is_number=True),
            *(
                doc.Column(name, shared.platform_of(_row_of(of, name).platform), is_number=True)
                for name in names
            ),
        )
        groups = tuple(
            doc.Group(
                tuple(_row(host, point, of, names, named=named) for host in shown),
                shared.levels(point),
            )
            for point in {line.point.key: line.point for line in of}.values()
        )
        label = msg(
            "{title}: percent of {baseline} on each host",
            title=shared.title_of(of[0].section),
            baseline=analysis.baseline,
        )
        parts: list[doc.Part] = [
            doc.Table(columns, groups, key=f"hosts {section}", label=label, style="result")
        ]
        if len(shown) < len(hosts):
            parts.append(doc.Paragraph(_left_out(len(hosts) - len(shown)), "muted"))
        yield doc.Titled(label, tuple(parts))


def _row_of(lines: Sequence[Line], platform: str) -> Row:
    return next(line.row for line in lines if line.row.platform.name == platform)


def _left_out(count: int) -> doc.Inline:
    return plural(
        "{count} host nearer to the others is left out; vtax show RUN --hosts --all has it",
        "{count} hosts nearer to the others are left out; vtax show RUN --hosts --all has them",
        count,
    )


def _shown(
    lines: Sequence[Line], hosts: Sequence[MeasuredHost], most: int | None
) -> list[MeasuredHost]:
    """Return the hosts farthest from the median of all, in their order."""
    if most is None or len(hosts) <= most:
        return list(hosts)
    far: dict[str, float] = {host.name: 0.0 for host in hosts}
    for line in lines:
        middle = median(ratio.mean_log for ratio in line.ratios.values())
        for name, ratio in line.ratios.items():
            far[name] = max(far[name], abs(ratio.mean_log - middle))
    kept = set(sorted(far, key=lambda name: -far[name])[:most])
    return [host for host in hosts if host.name in kept]


def _row(
    host: MeasuredHost,
    point: ResultPoint,
    lines: Sequence[Line],
    names: Sequence[str],
    *,
    named: bool,
) -> doc.TableRow:
    cells: list[doc.Inline] = [
        host.name,
        *([host.group] if named else []),
        doc.Count(len(host.sessions)),
    ]
    of_point = {line.row.platform.name: line for line in lines if line.point is point}
    for name in names:
        line = of_point.get(name)
        ratio = line.ratios.get(host.name) if line else None
        cells.append(
            shared.relative_of(ratio, line.section) if line and ratio else muted(doc.Nothing())
        )
    return doc.TableRow(tuple(cells))


def forest(
    lines: Sequence[Line], hosts: Sequence[MeasuredHost], analysis: Analysis
) -> Iterator[doc.Part]:
    """Yield a figure with an interval for each host below that of hosts like these; nothing where it is too long."""
    groups = []
    for line in lines:
        title = joined(
            [
                shared.platform_of(line.row.platform),
                shared.title_of(line.section),
                shared.levels(line.point),
            ]
        )
        ratios = [(host.name, line.ratios[host.name]) for host in hosts if host.name in line.ratios]
        if line.row.ratio is not None and ratios:
            named: list[tuple[doc.Inline, Ratio]] = [
                (msg("hosts like these"), line.row.ratio),
                *ratios,
            ]
            rows = tuple(
                share_row(name, ratio, line.row, line.section, analysis) for name, ratio in named
            )
            groups.append(doc.FigureGroup(title, rows))
    if not groups or sum(len(group.rows) + 1 for group in groups) > MOST_ROWS:
        return
    to_baseline: dict[str, doc.Inline] = {"baseline": analysis.baseline, "level": analysis.level}
    figure = doc.RowFigure(
        "ratios",
        "hosts",
        msg("Every host: percent of {baseline}, {level} interval", **to_baseline),
        (
            msg(
                "Every host over its own sessions, or blocks where it has one; above them hosts like these, over hosts; "
                "in the grey band (±{margin}) it is equivalent",
                margin=doc.Share(analysis.rule.margin, "declared"),
            ),
        ),
        msg("percent of {baseline}", baseline=analysis.baseline),
        tuple(groups),
        msg("percent"),
        msg("percent, {level} interval", level=analysis.level),
        margin=analysis.rule.margin,
    )
    yield doc.Titled(msg("Every host"), (figure,), key="forest-of-hosts")


def plain(lines: Sequence[Line], hosts: Sequence[MeasuredHost]) -> list[dict[str, Any]]:
    """Return every host with its sessions and ratios, for programs."""
    return [
        {
            "host": host.name,
            "group": host.group,
            "sessions": list(host.numbers),
            "ratios": [
                {
                    **shared.named(line.section),
                    "levels": dict(line.point.levels),
                    "platform": line.row.platform.name,
                    "estimate": ratio.estimate,
                    "low": ratio.low,
                    "high": ratio.high,
                    "blocks": ratio.n_blocks,
                    "sessions": ratio.n_sessions,
                }
                for line in lines
                if (ratio := line.ratios.get(host.name))
            ],
        }
        for host in hosts
    ]
