"""Matrix of hosts and platforms: a table with a line a host, the farthest first, and a strip of dots a platform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import median
from typing import Any

from vtax.pairing import Logs, Units
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.report.analysis.values import every_row
from vtax.report.answers.hosts.compute import MeasuredHost, logs_on, units_on
from vtax.report.answers.hosts.fleet import Fleet
from vtax.report.answers.hosts.odd_hosts import OddHosts, fact_with, peers_of
from vtax.report.document import first_of, joined, msg, muted, plural, styled
from vtax.report.parts import shared
from vtax.report.parts.figures import MOST_ROWS
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio
from vtax.stats.sessions import ratio_over_sessions

_MOST_HOSTS = {"brief": 8, "report": 12}  # of a table, unless all are wanted
_MOST_FACTS = 3


@dataclass(frozen=True)
class Line:
    """A row of a run, host by host.

    ratio: of a host, by its name, to the baseline over its own sessions; of the baseline to the median of hosts like
    it. None without a block. It is computed when it is asked for first.
    middles: name of a host -> logarithm of the median of what hosts like it show; 0 of the baseline.
    distances: name of a host -> how far it lies from that median, in the usual distance of a host.
    """

    section: Section
    point: ResultPoint
    row: Row
    ratio: Callable[[str], Ratio | None]
    middles: Mapping[str, float]
    distances: Mapping[str, float]

    @property
    def is_own(self) -> bool:
        """Whether it is of the baseline's own performance."""
        return self.row.platform.is_baseline

    @property
    def base(self) -> str:
        """The platform that ratios are to."""
        return self.point.baseline.platform.name if self.point.baseline else ""


def lines_of(analysis: Analysis, fleet: Fleet) -> tuple[Line, ...]:
    """Return the baseline's own performance and every comparison with it of primary metrics, host by host."""
    lines = []
    units, level = units_on(fleet.hosts_before), analysis.rule.confidence
    hosts = {host.name: host for host in fleet.hosts_before}
    for section, point, row in every_row(analysis.primary):
        if row.summary is None or point.baseline is None:
            continue
        is_own = row is point.baseline
        try:
            logs = logs_on(row, None if is_own else point.baseline, units)
        except StatsError:
            continue
        means = logs.averaged("host", units)
        of_host = {
            fleet.hosts_before[number].name: value
            for number, value in zip(means.units.tolist(), means.values.tolist(), strict=True)
        }
        middle = _medians(of_host, fleet)
        far = {name: abs(value - middle[name]) for name, value in of_host.items()}
        usual = median(far.values()) or 1.0
        distances = {name: distance / usual for name, distance in far.items()}
        baseline_logs = middle if is_own else {}
        ratio = cache(partial(_ratio_on, hosts, logs, baseline_logs, units, level))
        if is_own:
            middle = dict.fromkeys(middle, 0.0)
        lines.append(Line(section, point, row, ratio, middle, distances))
    return tuple(lines)


def _ratio_on(
    hosts: Mapping[str, MeasuredHost],
    logs: Logs,
    baseline_logs: Mapping[str, float],
    units: Units,
    confidence: float,
    name: str,
) -> Ratio | None:
    """Return the ratio of a host over its sessions; None without a block.

    baseline_logs: name of a host -> what is taken off its logarithms.
    """
    own_logs = logs.only(hosts[name].blocks) if name in hosts else None
    if not own_logs:
        return None
    sessions = [units[block][1] for block in own_logs.units.tolist()]
    return ratio_over_sessions(own_logs.values - baseline_logs.get(name, 0.0), sessions, confidence)


def _medians(of_host: Mapping[str, float], fleet: Fleet) -> dict[str, float]:
    """Return of every host the median of the hosts that it is compared with."""
    medians = {}
    for peers in peers_of(fleet.hosts_before):
        names = [host.name for host in peers if host.name in of_host]
        if names:
            medians.update(dict.fromkeys(names, median(of_host[name] for name in names)))
    return medians


def matrices(
    lines: Sequence[Line], fleet: Fleet, analysis: Analysis, depth: str
) -> Iterator[doc.Part]:
    """Yield a table for each metric: a line a host, the farthest first, a column a platform, the baseline first.

    depth: see views.base.Options.
    """
    for section in dict.fromkeys(line.section.name for line in lines):
        of = [line for line in lines if line.section.name == section]
        hosts = _farthest_first(of, fleet)
        label = _title(of, analysis)
        limit = _MOST_HOSTS.get(depth, len(hosts))
        if len(hosts) <= limit:
            yield doc.Titled(label, (_table(of, hosts, fleet, analysis, label),))
            continue
        hidden_count = len(hosts) - limit
        parts: list[doc.Part] = [_table(of, hosts[:limit], fleet, analysis, label)]
        if depth == "report":
            other_hosts = _table(of, hosts[limit:], fleet, analysis, label, key="near")
            title = plural(
                "{count} host nearer to the others",
                "{count} hosts nearer to the others",
                hidden_count,
            )
            parts.append(doc.Titled(title, (other_hosts,), is_folded=True))
        else:
            text = plural(
                "{count} host nearer to the others is left out; vtax show {run} --hosts --all has it",
                "{count} hosts nearer to the others are left out; vtax show {run} --hosts --all has them",
                hidden_count,
                run=analysis.name,
            )
            parts.append(doc.Paragraph(text, "muted"))
        yield doc.Titled(label, tuple(parts))


def _title(lines: Sequence[Line], analysis: Analysis) -> doc.Inline:
    title = shared.title_of(lines[0].section)
    if all(line.is_own for line in lines):
        return msg("{title}: each host in percent of hosts like it", title=title)
    return msg(
        "{title}: {baseline} of each host in percent of hosts like it, others in percent of {baseline}",
        title=title,
        baseline=analysis.baseline,
    )


def _farthest_first(lines: Sequence[Line], fleet: Fleet) -> list[MeasuredHost]:
    """Return the hosts, those that lie apart first, and then by their distance from hosts like them."""
    odd = _odd_of(lines, fleet)

    def nearness(host: MeasuredHost) -> tuple[bool, float, str]:
        distance = max((line.distances.get(host.name, 0.0) for line in lines), default=0.0)
        return host.name not in odd, -distance, host.name

    return sorted(fleet.hosts_before, key=nearness)


def _odd_of(lines: Sequence[Line], fleet: Fleet) -> dict[str, list[OddHosts]]:
    """Return of every host that lies apart in these rows in which of them it does."""
    rows = {id(line.row) for line in lines}
    odd: dict[str, list[OddHosts]] = {}
    for finding in fleet.odd:
        if id(finding.row) in rows:
            for name in finding.hosts:
                odd.setdefault(name, []).append(finding)
    return odd


def _table(
    lines: Sequence[Line],
    hosts: Sequence[MeasuredHost],
    fleet: Fleet,
    analysis: Analysis,
    label: doc.Inline,
    *,
    key: str = "hosts",
) -> doc.Table:
    has_groups = len({host.group for host in fleet.hosts_before}) > 1
    names = list(dict.fromkeys(line.row.platform.name for line in lines))
    names.sort(key=lambda name: name != analysis.baseline)
    odd = _odd_of(lines, fleet)
    columns = [doc.Column("host", msg("host"))]
    if has_groups:
        columns.append(doc.Column("group", msg("group")))
    columns.append(doc.Column("sessions", msg("sessions"), is_number=True))
    columns += [doc.Column(name, analysis.platform_of(name), is_number=True) for name in names]
    if odd:
        columns.append(doc.Column("apart", msg("lies apart"), wraps=True))
    groups = []
    for point in {line.point.key: line.point for line in lines}.values():
        of_point = {line.row.platform.name: line for line in lines if line.point is point}
        rows = []
        for host in hosts:
            findings = [finding for finding in odd.get(host.name, ()) if finding.point is point]
            cells: list[doc.Inline] = [fleet.short[host.name]]
            if has_groups:
                cells.append(host.group)
            cells.append(doc.Count(len(host.sessions)))
            cells += [_cell(host, of_point.get(name), findings) for name in names]
            if odd:
                cells.append(_apart(findings))
            rows.append(doc.TableRow(tuple(cells)))
        groups.append(doc.Group(tuple(rows), shared.levels(point)))
    return doc.Table(
        tuple(columns),
        tuple(groups),
        key=f"{key} {lines[0].section.name}",
        label=label,
        style="result",
    )


def _cell(host: MeasuredHost, line: Line | None, odd: Sequence[OddHosts]) -> doc.Inline:
    ratio = line.ratio(host.name) if line else None
    if line is None or ratio is None:
        return muted(doc.Nothing())
    share = shared.relative_of(ratio, line.section)
    return styled(share, "caution") if any(finding.row is line.row for finding in odd) else share


def _apart(odd: Sequence[OddHosts]) -> doc.Inline:
    """`native: governor powersave`: on which platforms a host lies apart, and the facts that it has alone."""
    if not odd:
        return ""
    platforms = joined(dict.fromkeys(finding.platform for finding in odd))
    keys = dict.fromkeys(key for finding in odd for key in finding.keys)
    facts = first_of([fact_with(*key) for key in keys], _MOST_FACTS)
    return joined([platforms, joined(facts)], ": ")


def strips(lines: Sequence[Line], fleet: Fleet, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield a figure with a strip of dots for each platform, a dot a host, and each host that lies apart below it."""
    groups = []
    for line in sorted(lines, key=lambda line: not line.is_own):
        if len(line.distances) > 1:
            groups.append(_strip(line, fleet, analysis))
    if not groups:
        return
    strips_kept, count = [], 0
    for group in groups:
        count += 1 + len(group.rows)
        if count <= MOST_ROWS:
            strips_kept.append(group)
    parts: list[doc.Part] = [_strip_figure(tuple(strips_kept), analysis)]
    if len(strips_kept) < len(groups):
        text = plural(
            "{count} comparison is not drawn: the figure would be too long to be read.",
            "{count} comparisons are not drawn: the figure would be too long to be read.",
            len(groups) - len(strips_kept),
        )
        parts.append(doc.Paragraph(text, "muted"))
    yield doc.Titled(msg("Every host"), tuple(parts), key="every-host")


def _strip(line: Line, fleet: Fleet, analysis: Analysis) -> doc.FigureGroup:
    """Return the dots of a platform, each in percent of the median of hosts like it."""
    colour = analysis.colours[line.row.platform.name]
    shares = {}
    for name in line.distances:
        if ratio := line.ratio(name):
            shares[name] = _share_of_middle(ratio, line, name)
    values = tuple(share.estimate for share in shares.values())
    label = plural("{count} host", "{count} hosts", len(values))
    bounds = min(values), max(values)
    blocks = tuple(range(len(values)))
    rows = [doc.FigureRow(label, colour, (1.0, *bounds), blocks=blocks, values=values)]
    odd = _odd_of([line], fleet)
    for name in sorted(odd, key=lambda name: -line.distances[name]):
        share = shares[name]
        ends = (share.low, share.high) if math.isfinite(share.high) else (None, None)
        rows.append(doc.FigureRow(fleet.short[name], colour, (share.estimate, *ends), text=share))
    what: doc.Inline = shared.platform_of(line.row.platform)
    if not line.is_own:
        what = joined([what, line.base], " / ")
    title = joined([what, shared.title_of(line.section), shared.levels(line.point)])
    return doc.FigureGroup(title, tuple(rows))


def _share_of_middle(ratio: Ratio, line: Line, name: str) -> doc.Relative:
    """Return the performance of a host, or its ratio to the baseline, as a share of the median of hosts like it."""
    times = math.exp(-line.middles[name])
    low, high = ratio.low * times, ratio.high * times
    found = replace(ratio, estimate=ratio.estimate * times, low=low, high=high)
    return shared.amount_of(found.efficiency(line.section.better))


def _strip_figure(groups: tuple[doc.FigureGroup, ...], analysis: Analysis) -> doc.RowFigure:
    return doc.RowFigure(
        "ratios",
        "hosts",
        msg("Every host: a dot each, and those that lie apart by name"),
        (
            msg(
                "Percent of the median of hosts like it, of {baseline} by its own performance, of other platforms by "
                "their ratio to it; the line of all hosts is from the smallest to the largest, that of one host its "
                "{level} interval",
                baseline=analysis.baseline,
                level=analysis.level,
            ),
        ),
        msg("percent of hosts like it"),
        groups,
        msg("percent of a host"),
        msg("percent, {level} interval", level=analysis.level),
        dots="host",
    )


def plain(lines: Sequence[Line], hosts: Sequence[MeasuredHost]) -> list[dict[str, Any]]:
    """Return every host with its sessions and ratios, for programs."""
    of_hosts = []
    for host in hosts:
        ratios = []
        for line in lines:
            if ratio := line.ratio(host.name):
                ratios.append(_plain_ratio(line, ratio))
        of_hosts.append(
            {
                "host": host.name,
                "group": host.group,
                "sessions": list(host.numbers),
                "periods": [list(period) for period in host.periods],
                "ratios": ratios,
            }
        )
    return of_hosts


def _plain_ratio(line: Line, ratio: Ratio) -> dict[str, Any]:
    return {
        **shared.named(line.section),
        "levels": dict(line.point.levels),
        "platform": line.row.platform.name,
        "baseline": "" if line.is_own else line.base,
        "estimate": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "blocks": ratio.n_blocks,
        "sessions": ratio.n_sessions,
    }
