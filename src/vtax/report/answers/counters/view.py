"""CPU time of the ends, and traffic and drops of every interface on the path, of network benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.counters.compute import Counted, counted_cells
from vtax.report.document import factors, joined, msg
from vtax.report.views.base import Options, View, register_view


def document(source: Source, options: Options) -> doc.Document:
    """Two tables for every combination of levels: CPU time, then interfaces; in a report those that drop packets."""
    if not source.counters:  # what was in force takes longer to read
        return document_of([], source.analysis)
    cells = counted_cells(source.data, source.counters, source.effective)
    return document_of(cells, source.analysis, is_report=options.depth == "report")


def document_of(
    cells: Sequence[Counted], analysis: Analysis, *, is_report: bool = False
) -> doc.Document:
    """Return the document of counted cells. is_report: without interfaces that dropped nothing."""
    if not cells:
        return doc.empty_document(VIEW.title, msg("This run has no network benchmark."), [])
    parts: list[doc.Part] = []
    groups: list[tuple[doc.Inline, list[Counted]]] = []
    for label, levels in dict.fromkeys((cell.label, tuple(cell.levels.items())) for cell in cells):
        group = [
            cell for cell in cells if (cell.label, tuple(cell.levels.items())) == (label, levels)
        ]
        title = joined([label, factors(dict(levels))], " · ")
        groups.append((title, group))
    if is_report:
        table = _cpu_table(groups, analysis)
        parts.append(doc.Titled(msg("CPU time"), (table,), subtitle=msg("mean per trial")))
    for title, group in groups:
        tables = [] if is_report else [_cpu_table([("", group)], analysis)]
        dropping = [cell for cell in group if any(hop.drops for hop in cell.hops)]
        if hopping := dropping if is_report else group:
            tables.append(_hop_table(hopping, analysis))
        if tables:
            parts.append(doc.Titled(title, tuple(tables), subtitle=msg("mean per trial")))
    return doc.Document(VIEW.title, tuple(parts), data=cells)


def _cpu_table(
    groups: Sequence[tuple[doc.Inline, Sequence[Counted]]], analysis: Analysis
) -> doc.Table:
    """Return the cells of each group below its title."""
    cells = [cell for _, group in groups for cell in group]
    roles = list(dict.fromkeys(role for cell in cells for role in cell.ends_cpu_s))
    has_switch = any(cell.switch_cpu_s is not None for cell in cells)
    titles: dict[str, doc.Inline] = {
        "layer": msg("layer\nCPU time (s)"),
        "guest": msg("guest\nCPU time (s)"),
        **{role: msg("{role}\nCPU time (s)", role=role) for role in roles},
        **({"switch": msg("switch\nCPU time (s)")} if has_switch else {}),
        "gigabytes": msg("transferred\n(GB)"),
        "cpu_s_per_gigabyte": msg("CPU\ns/GB"),
        "retransmits": msg("retransmits"),
        "drops": msg("drops"),
    }
    columns = (
        doc.Column("platform", msg("platform")),
        *doc.number_columns(titles),
    )
    table_rows = []
    for title, group in groups:
        rows = []
        for cell in group:
            seconds = [
                cell.layer_cpu_s,
                cell.guest_cpu_s,
                *(cell.ends_cpu_s.get(role) for role in roles),
            ]
            seconds += [cell.switch_cpu_s] if has_switch else []
            retransmits = sum(cell.retransmits.values()) if cell.retransmits else None
            numbers = [cell.under_test_bytes / 1e9, cell.cpu_per_gigabyte, retransmits, cell.drops]
            platform = analysis.platform_of(cell.platform)
            rows.append(
                doc.TableRow((platform, *(_number(value) for value in (*seconds, *numbers))))
            )
        table_rows.append(doc.Group(tuple(rows), title))
    return doc.Table(columns, tuple(table_rows), key=f"{cells[0].label} CPU", label=msg("CPU time"))


def _hop_table(cells: Sequence[Counted], analysis: Analysis) -> doc.Table:
    titles = {
        "rx_packets": msg("RX packets"),
        "rx_megabytes": msg("RX (MB)"),
        "tx_packets": msg("TX packets"),
        "tx_megabytes": msg("TX (MB)"),
        "drops": msg("drops"),
        "packet_bytes": msg("bytes\na packet"),
    }
    columns = (doc.Column("interface", msg("interface")), *doc.number_columns(titles))
    groups = []
    for cell in cells:
        rows = []
        for hop in cell.hops:
            numbers = (
                hop.rx_packets,
                hop.rx_bytes / 1e6,
                hop.tx_packets,
                hop.tx_bytes / 1e6,
                hop.drops,
                hop.packet_bytes,
            )
            rows.append(doc.TableRow((hop.name, *map(_number, numbers))))
        groups.append(doc.Group(tuple(rows), analysis.platform_of(cell.platform)))
    return doc.Table(columns, tuple(groups), key=f"{cells[0].label} hops", label=msg("interfaces"))


def _number(value: float | None) -> doc.Inline:
    return doc.Nothing() if value is None else doc.Number(value, 3)


VIEW = register_view(
    View(
        "counters",
        msg("Counters"),
        msg("CPU time, traffic and drops of the network benchmarks."),
        document,
        26,
    )
)
