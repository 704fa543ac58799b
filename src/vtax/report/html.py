"""One HTML file that holds everything about a run and needs nothing else to be read, ten years from now too.

Figures are drawn twice from one specification: as SVG, which prints and needs no JavaScript, and interactively by
Vega, whose code is inside the file. This module turns an analysis into what the template shows; it decides nothing.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vtax.report import charts, numbers
from vtax.report.analysis import Analysis, Point, Row, Section
from vtax.report.answers import answers, bounds, is_measured, percent_of
from vtax.report.audit import audit
from vtax.report.host import fact_rows, host_line, run_line, text_of
from vtax.report.method import method, notes_under
from vtax.report.numbers import plain_percent
from vtax.report.ranking import rank_point
from vtax.report.reproduce import commands, study_toml
from vtax.study.units import about_size, format_count


@dataclass(frozen=True)
class Figure:
    """A figure in both forms. name: unique in the page. caption: what it shows."""

    name: str
    caption: str
    svg: Markup
    spec: Markup


@dataclass(frozen=True)
class Line:
    """A row of a result table, every number as text. kind: of the verdict, empty for none."""

    platform: str
    marks: tuple[str, ...]
    is_baseline: bool
    notes: tuple[str, ...]
    mean: str = ""
    half: str = ""
    sd: str = ""
    cv: str = ""
    median: str = ""
    median_interval: str = ""
    median_level: str = ""
    mean_bootstrap: str = ""
    trials: str = ""
    blocks: str = ""
    ratio: str = ""
    interval: str = ""
    bootstrap: str = ""
    kind: str = ""
    sign: str = ""
    more: str = ""


@dataclass(frozen=True)
class Table:
    """A result table with its figures. groups: (point name, lines). ranks: (point name, who may be the best)."""

    anchor: str
    title: str
    label: str
    tool: str
    direction: str
    unit: str
    notes: tuple[str, ...]
    groups: tuple[tuple[str, tuple[Line, ...]], ...]
    figures: tuple[Figure, ...]
    ranks: tuple[tuple[str, str], ...]
    is_primary: bool

    @property
    def median_level(self) -> str:
        """What every interval of a median covers; empty where they do not cover the same."""
        levels = {line.median_level for _, lines in self.groups for line in lines if line.median_level}
        return levels.pop() if len(levels) == 1 else ""

    @property
    def has_bootstrap(self) -> bool:
        """Whether any line has a bootstrap interval of its ratio."""
        return any(line.bootstrap for _, lines in self.groups for line in lines)

    @property
    def has_mean_bootstrap(self) -> bool:
        """Whether any line has a bootstrap interval of its mean."""
        return any(line.mean_bootstrap for _, lines in self.groups for line in lines)


def html(analysis: Analysis) -> str:
    """The report of a run as one self-contained HTML document."""
    environment = Environment(
        loader=PackageLoader("vtax.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    measured = is_measured(analysis)
    tables = [_table(section, analysis, index) for index, section in enumerate(analysis.sections)] if measured else []
    audited = audit(analysis)
    return environment.get_template("report.html.j2").render(
        analysis=analysis,
        title=analysis.declared.get("title") or analysis.study,
        question=analysis.declared.get("question", ""),
        run_line=run_line(analysis),
        host_line=host_line(analysis.host),
        answers=[
            a for a in answers(analysis) if measured and a.platform not in {p.name for p in _untested(analysis)}
        ],
        untested=_untested(analysis),
        overview=list(_overview(analysis)) if measured else [],
        compared=[p for p in analysis.platforms if p.available and not p.is_baseline],
        tables=tables,
        guests=list(_guests(analysis)),
        audit=audited,
        host_facts=fact_rows(analysis.host),
        method=list(method(analysis)),
        size=about_size,
        commands=commands(analysis),
        toml=study_toml(analysis.declared),
        colours=charts.colours(analysis),
        javascript=Markup(charts.javascript()) if any(t.figures for t in tables) else "",
        made_at=time.strftime("%Y-%m-%d %H:%M"),
    )


def _untested(analysis: Analysis) -> list[Any]:
    return [p for p in analysis.platforms if not p.available]


def _table(section: Section, analysis: Analysis, index: int) -> Table:
    scale = charts.scale_of(section)
    figures = []
    if section.metric.is_primary:
        dots = "quartiles and range of the blocks" if charts.too_many_dots(section) else "a dot for every block"
        figures.append(
            _figure(
                f"f{index}m", f"Mean with its {analysis.level} interval, and {dots}.", charts.means(section, analysis)
            )
        )
        ratio_spec = charts.ratios(section, analysis)
        if ratio_spec is not None:
            caption = (
                f"Ratio to {analysis.baseline} with its {analysis.level} interval, and {dots}; in the grey band "
                f"(±{plain_percent(analysis.rule.margin)}) a ratio counts as equivalent."
            )
            figures.append(_figure(f"f{index}r", caption, ratio_spec))
    return Table(
        anchor=f"result-{index}",
        title=section.metric.title or section.metric.name,
        label=section.label,
        tool=f"{section.benchmark} {section.tool_version}".strip(),
        direction=f"{section.better} is better",
        unit=scale.unit,
        notes=tuple(notes_under(section, analysis)),
        groups=tuple((p.name, tuple(_line(row, scale) for row in p.rows)) for p in section.points),
        figures=tuple(figures),
        ranks=tuple(_ranks(section)) if section.metric.is_primary else (),
        is_primary=section.metric.is_primary,
    )


def _ranks(section: Section) -> Iterator[tuple[str, str]]:
    for point in section.points:
        found = rank_point(section, point)
        if found.ranking is not None:
            yield point.name, found.words


def _figure(name: str, caption: str, spec: charts.Spec) -> Figure:
    if charts.marks_what_lies_outside(spec):
        caption += " An arrow (◀ ▶) marks what lies outside the axis."
    return Figure(name, caption, Markup(charts.static_svg(spec, name)), Markup(charts.spec_text(spec)))


def _line(row: Row, scale: numbers.Scale) -> Line:
    shown: dict[str, str] = {}
    if row.summary is not None:
        s = row.summary
        mean, half = numbers.mean_and_half_width(s.mean, (s.high - s.low) / 2, scale)
        _, bootstrap = numbers.full_intervals(s, scale)
        median_interval, median_level = numbers.median_interval(s, scale)
        shown |= {"mean": mean, "half": half, "sd": scale.number(s.sd, 3), "cv": numbers.percent(s.cv),
                  "trials": str(s.n), "blocks": str(row.blocks.size), "median": scale.number(s.median),
                  "median_interval": median_interval, "median_level": median_level, "mean_bootstrap": bootstrap,
                  }  # fmt: skip
    if row.platform.is_baseline:
        shown |= {"ratio": "1", "interval": "baseline"}
    elif row.ratio is not None:
        r = row.ratio
        shown |= {"ratio": numbers.ratio(r.estimate), "interval": numbers.interval(r.low, r.high)}
        if r.bootstrap_low is not None and r.bootstrap_high is not None:
            shown["bootstrap"] = numbers.interval(r.bootstrap_low, r.bootstrap_high)
    if row.verdict is not None:
        kind, needed = row.verdict.kind, row.verdict.blocks_needed
        shown |= {"kind": kind, "sign": numbers.SIGNS[kind]}
        shown["more"] = f"about {format_count(needed, 'more block')}" if needed else ""
    notes = [row.trouble] if row.trouble else []
    if row.failed:
        notes.append(format_count(row.failed, "failed trial"))
    if row.target_missed:
        notes.append("declared target not reached")
    return Line(row.platform.name, row.platform.marks, row.platform.is_baseline, tuple(notes), **shown)


def _overview(analysis: Analysis) -> Iterator[dict[str, Any]]:
    """One row per primary metric and point: the efficiency of each platform with its interval."""
    for index, section in enumerate(analysis.sections):
        if not section.metric.is_primary:
            continue
        for point in section.points:
            cells = {row.platform.name: _overview_cell(row, section) for row in point.rows}
            yield {"anchor": f"result-{index}", "label": section.label, "cells": cells,
                   "metric": section.metric.title or section.metric.name, "point": point.name,
                   "base": _base_text(section, point)}  # fmt: skip


def _overview_cell(row: Row, section: Section) -> dict[str, str]:
    if row.ratio is None or row.verdict is None:
        return {"kind": "none", "text": "–", "interval": "", "sign": "", "title": row.trouble}
    found, lost = row.ratio.efficiency(section.better), row.ratio.overhead(section.better)
    if not math.isfinite(found.high):
        interval, title = "no interval", f"{row.verdict}: overhead {percent_of(lost.estimate)} from one block"
    else:
        interval = bounds(found.low, found.high)
        title = f"{row.verdict}: overhead {percent_of(lost.estimate)} {bounds(lost.low, lost.high)}"
    return {"kind": row.verdict.kind, "text": percent_of(found.estimate), "interval": interval,
            "sign": numbers.SIGNS[row.verdict.kind], "title": title}  # fmt: skip


def _base_text(section: Section, point: Point) -> str:
    """The baseline's mean with its half-width and unit: `616 ±199 events/s`."""
    base = next((row.summary for row in point.rows if row.platform.is_baseline and row.summary), None)
    scale = charts.scale_of(section)
    if base is None:
        return "–"
    mean, half = numbers.mean_and_half_width(base.mean, (base.high - base.low) / 2, scale)
    return f"{mean} {half} {scale.unit}".replace("  ", " ")


def _guests(analysis: Analysis) -> Iterator[dict[str, Any]]:
    for platform in (p for p in analysis.platforms if p.available):
        ready = analysis.ready_s(platform.name)
        mine = [guest for guest in analysis.guests if guest.platform == platform.name]
        identity = dict(platform.identity)
        options = identity.get("options") or {}
        yield {
            "platform": platform,
            "driver": identity.get("driver", ""),
            "options": ", ".join(f"{key}={text_of(key, value)}" for key, value in options.items()),
            "started": len(mine),
            "ready": f"{numbers.number(statistics.median(ready), 3)} s" if ready else "–",
            "notes": list(dict.fromkeys(note for guest in mine for note in guest.notes)),
        }
