"""The result in a terminal: one table per benchmark metric, a row per platform, the verdict as a word in colour.

Nothing is shown that the HTML report and the JSON do not show too; all three come from one `Analysis`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vtax.errors import with_cure
from vtax.report import numbers
from vtax.report.analysis import Analysis, Row, Section
from vtax.report.answers import answers, is_measured
from vtax.report.document import as_json
from vtax.report.grid import Grid
from vtax.report.host import host_line, run_line
from vtax.report.method import notes_under
from vtax.report.remarks import Remark
from vtax.report.whole import Whole, whole
from vtax.stats.intervals import Interval
from vtax.stats.verdict import Kind
from vtax.study.units import format_count

__all__ = ["as_json", "bullets", "heading", "is_wide", "name_of", "put", "render", "result_table"]

STYLES: Mapping[Kind, str] = {
    "slower": "bold red", "faster": "bold green", "equivalent": "bold cyan", "undecided": "yellow",
}  # fmt: skip
_BAR_CELLS = 10  # are the baseline
_BAR_MOST = 12
_WIDE = 132


def render(analysis: Analysis, console: Console, *, every_metric: bool = False) -> None:
    """Print a run's result. every_metric: also those that are not primary, and every figure of a cell."""
    parts: list[RenderableType] = [_header(analysis)]
    if not is_measured(analysis):
        put([*parts, Text(), Text("nothing was measured"), Text(), *_footer(analysis, hidden=0)], console)
        return
    sections = analysis.sections if every_metric else analysis.primary
    for section in sections:
        table = result_table(section, analysis.level, analysis.baseline, wide=is_wide(console))
        parts += [Text(), heading(section), table, *_family(section, analysis)]
        if every_metric:
            parts += [Text(), _figures(section, analysis)]
    parts += [Text(), *_footer(analysis, hidden=len(analysis.sections) - len(sections))]
    put(parts, console)


def _family(section: Section, analysis: Analysis) -> Iterator[Text]:
    """What was judged together, what counts as equal, and notes."""
    if section.family:
        judged = f"{section.family} comparisons judged as one family" if section.family > 1 else "one comparison"
        yield Text(f"equivalent: within ±{numbers.plain_percent(analysis.rule.margin)}; {judged}", style="dim")
    for note in notes_under(section, analysis):
        yield Text(note, style="dim")


def put(parts: Sequence[RenderableType], console: Console) -> None:
    """Print the parts; in what is no terminal, without the spaces that pad tables to their width."""
    if console.is_terminal:
        console.print(Whole(parts))
        return
    with console.capture() as captured:
        console.print(Whole(parts))
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _header(analysis: Analysis) -> Group:
    title = Text(str(analysis.declared.get("title") or analysis.study), style="bold")
    lines = [title, Text(f"{analysis.name}: {run_line(analysis)}", style="dim")]
    if host := host_line(analysis.host):
        lines.append(Text(host, style="dim"))
    return Group(*lines)


def is_wide(console: Console) -> bool:
    """Whether a table with CV, counts and bars fits."""
    return console.width >= _WIDE


def heading(section: Section) -> Text:
    """The line above a table of a section: what, which way is better, the tool."""
    arrow = "higher is better" if section.metric.better == "higher" else "lower is better"
    heading = Text(section.title, style="bold")
    version = f"{section.benchmark} {section.tool_version}".strip()
    return heading.append(f"  {arrow}" + (f", {version}" if section.tool_version else ""), style="dim")


def result_table(section: Section, level: str, baseline: str, *, wide: bool) -> Grid:
    """A row per platform below every point. level: of the intervals. baseline: what ratios are to, or nothing."""
    scale = _scale_of(section)
    ratio = f"ratio to {baseline}" if baseline else "ratio"
    table = Grid()
    table.add_column("platform")
    table.add_column(f"mean,\n{scale.unit}", right=True)
    table.add_column(f"±{level}")
    if wide:
        for title in ("CV", "trials", "blocks"):
            table.add_column(title, right=True)
        table.add_column(ratio.replace("to ", "to\n"), right=True)
        table.add_column(f"{level}\ninterval")
        table.add_column("efficiency ◆\ninterval ░")
    else:
        table.add_column(f"{ratio}\n[{level} interval]")
    table.add_column("verdict")
    cells_of = _wide_cells if wide else _narrow_cells
    _add_rows(table, section, lambda row: cells_of(row, section, scale))
    return table


def _add_rows(table: Grid, section: Section, cells_of: Callable[[Row], Sequence[str | Text] | None]) -> None:
    """A row for each for which there is something, below the name of its point where there are several."""
    several = any(point.levels for point in section.points)
    for point in section.points:
        if several:
            table.add_heading(Text(point.name, style="italic"))
        for row in point.rows:
            if (cells := cells_of(row)) is not None:
                table.add_row(name_of(row), *cells, indent=several)


def _scale_of(section: Section) -> numbers.Scale:
    means = [row.summary.mean for point in section.points for row in point.rows if row.summary]
    return numbers.scale_for(section.metric.unit, means)


def _figures(section: Section, analysis: Analysis) -> Grid:
    """What the table above leaves out of its cells; all in the mean's unit."""
    scale = _scale_of(section)
    table = Grid()
    table.add_column("platform")
    for title in ("SD", "least", "median", "most"):
        table.add_column(f"{title},\n{scale.unit}", right=True)
    table.add_column("median's interval,\nand what it covers")
    table.add_column(f"{analysis.level} interval of the\nmean by bootstrap")

    def cells(row: Row) -> Sequence[str] | None:
        if row.summary is None:
            return None
        shown = (row.summary.sd, row.summary.minimum, row.summary.median, row.summary.maximum)
        intervals = [text.replace(", ", whole(", ")) for text in numbers.full_intervals(row.summary, scale)]
        return [*(scale.number(each) for each in shown), *intervals]

    _add_rows(table, section, cells)
    return table


def name_of(row: Row) -> Text:
    """A platform with its marks."""
    name = Text(row.platform.name)
    return name.append(f" ({', '.join(row.platform.marks)})", style="yellow") if row.platform.marks else name


def _wide_cells(row: Row, section: Section, scale: numbers.Scale) -> list[str | Text]:
    if row.summary is None:
        return [*[""] * 8, _verdict(row)]
    mean, half = _mean(row, scale)
    counts = (str(row.summary.n), str(row.blocks.size))
    shown: list[str | Text] = [mean, half, numbers.percent(row.summary.cv), *counts]
    if row.platform.is_baseline:
        return [*shown, "1", Text("baseline", style="dim"), Text("█" * _BAR_CELLS, style="blue"), _verdict(row)]
    if row.ratio is None:
        return [*shown, "", "", "", _verdict(row)]
    return [
        *shown,
        Text(numbers.ratio(row.ratio.estimate), style="bold"),
        Text(whole(numbers.interval(row.ratio.low, row.ratio.high)), style="dim"),
        efficiency_bar(row.ratio.efficiency(section.better)),
        _verdict(row),
    ]


def _narrow_cells(row: Row, section: Section, scale: numbers.Scale) -> list[str | Text]:
    if row.summary is None:
        return ["", "", "", _verdict(row)]
    shown: list[str | Text] = [*_mean(row, scale)]
    if row.platform.is_baseline:
        return [*shown, Text("1 baseline", style="dim"), _verdict(row)]
    if row.ratio is None:
        return [*shown, "", _verdict(row)]
    ratio = Text(numbers.ratio(row.ratio.estimate), style="bold")
    ratio.append(" " + whole(numbers.interval(row.ratio.low, row.ratio.high)), style="not bold dim")
    return [*shown, ratio, _verdict(row)]


def _mean(row: Row, scale: numbers.Scale) -> tuple[str, Text]:
    assert row.summary is not None
    half = (row.summary.high - row.summary.low) / 2
    mean, spread = numbers.mean_and_half_width(row.summary.mean, half, scale)
    return mean, Text(spread, style="dim")


def _verdict(row: Row) -> Text:
    parts = []
    if row.verdict is not None:
        sign, style = numbers.SIGNS[row.verdict.kind], STYLES[row.verdict.kind]
        parts.append(Text(whole(f"{sign} {row.verdict.kind}"), style=style))
        if needed := row.verdict.blocks_needed:
            parts.append(Text(f"about {format_count(needed, 'more block')}", style=style))
    elif row.trouble:
        parts.append(Text(row.trouble, style="red"))
    if row.target_missed:
        parts.append(Text("target not reached", style="yellow"))
    if row.failed:
        parts.append(Text(f"{row.failed} failed", style="red"))
    return Text(", ").join(parts)


def efficiency_bar(efficiency: Interval) -> Text:
    """Efficiency to scale, ten cells are the baseline: filled below the interval, ◆ the estimate, ░ the interval.

    What lies beyond twelve cells ends in an arrow.
    """
    low, estimate, high = (
        min(value * _BAR_CELLS, _BAR_MOST + 1.0) for value in (efficiency.low, efficiency.estimate, efficiency.high)
    )
    place = min(max(math.ceil(estimate), 1), _BAR_MOST + 1) - 1
    cells = "".join("█" if n + 0.5 <= low else "░" if n + 0.5 <= high else " " for n in range(_BAR_MOST))
    cells += "»" if high > _BAR_MOST else " "
    mark = "»" if place == _BAR_MOST else "◆"
    return Text((cells[:place] + mark + cells[place + 1 :]).rstrip(), style="blue")


def _footer(analysis: Analysis, *, hidden: int) -> Iterator[RenderableType]:
    untested = [p for p in analysis.platforms if not p.available]
    found = [a for a in answers(analysis) if a.platform not in {p.name for p in untested}]
    if found and is_measured(analysis):
        yield bullets("In short", [_about(a.platform, a.marks, a.text) for a in found])
    if untested:
        reasons = [with_cure(p.reason, p.cure) for p in untested]
        yield bullets("Not tested", [_about(f"{p.name}:", (), r) for p, r in zip(untested, reasons, strict=True)])
    if analysis.shortfalls:
        yield bullets("Declared and not reached", [Text(text, style="yellow") for text in analysis.shortfalls])
    shown = [remark for remark in analysis.remarks if remark.is_primary or not hidden]
    if not is_measured(analysis):  # then each row lacks its figure, which is no news
        shown = [remark for remark in shown if remark.code != "statistics"]
    if shown:
        yield bullets("Warnings", [_remark(remark) for remark in shown])
    if hidden:
        left = len(analysis.remarks) - len(shown)
        more = format_count(hidden, "more metric")
        if left:
            more += f", with {format_count(left, 'more warning')}"
        yield Text(f"{more}: vtax show {analysis.name} --all", style="dim")


def _about(platform: str, marks: tuple[str, ...], text: str) -> Text:
    return Text.assemble((platform, "bold"), f" ({', '.join(marks)}) " if marks else " ", text)


def bullets(title: str, lines: list[Text]) -> RenderableType:
    """A titled list."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row("·", line)
    return Group(Text(title, style="bold"), Padding(grid, (0, 0, 1, 1)))


def _remark(remark: Remark) -> Text:
    count = f" ({remark.times} times)" if remark.times > 1 else ""
    where = f"  {remark.where}" if remark.where else ""
    return Text(f"{remark.code}: ", style="yellow").append(remark.text + count, style="default").append(where, "dim")
