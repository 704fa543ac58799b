"""The further looks at runs as terminal tables and as JSON: noise, ranks of platforms, factors, contrasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from vtax.report import numbers
from vtax.report.analysis import Analysis, Point, Section
from vtax.report.contrast import Compared, Contrasts
from vtax.report.document import finite
from vtax.report.factors import FactorEffect
from vtax.report.grid import Grid
from vtax.report.noise import CellNoise, NoiseTable, blocks_range, drifting, hardest, warnings_of
from vtax.report.ranking import PointRanking
from vtax.report.table import bullets, heading, name_of, result_table
from vtax.stats.interaction import Interaction
from vtax.stats.verdict import p_text
from vtax.study.units import format_count, format_duration, format_percent

_MOST_PLACES = 2


def noise_parts(tables: Sequence[NoiseTable], analysis: Analysis) -> list[RenderableType]:
    """Tables of each metric: where the noise is, what drifts, what to plan; then a summary and the warnings."""
    given = tuple(tables)
    parts: list[RenderableType] = []
    for table in given:
        parts += [heading(table.section), _noise_table(table), Text()]
        if any(_has_drift(cell) for _, cells in table.points for cell in cells):
            parts += [_drift_table(table, analysis), Text()]
        if any(cell.half_width is not None for _, cells in table.points for cell in cells):
            told = f"blocks x trials in each; or: {analysis.level} range of the blocks needed, by the noise seen"
            parts += [_plan_table(table, analysis), Text(told, style="dim"), Text()]
    said = []
    if top := hardest(given):
        said.append(Text(top.words(analysis.rule.precision)))
    drifts = drifting(given, analysis.rule.alpha)
    said += [
        Text(f"{where}: drifts over the run by {_signed(cell.drift.change)} ({p_text(cell.drift_p)})")
        for where, cell in drifts
        if cell.drift
    ]
    if said:
        parts.append(bullets("In short", said))
    return [*parts, *_warnings(warnings_of(given))]


def _noise_table(table: NoiseTable) -> Grid:
    shown = Grid()
    shown.add_column("platform")
    for column in ("CV", "n", "effective", "blocks", "trials", "within"):
        shown.add_column(column, right=True)
    _add_rows(shown, table, _noise_cells)
    return shown


def _noise_cells(cell: CellNoise) -> list[str | Text]:
    summary = cell.row.summary
    if summary is None:
        return [Text("–", style="dim")]
    shares = [_share(each) for each in (cell.between_blocks, cell.between_trials, cell.within_trial)]
    effective = "–" if summary.effective_n is None else numbers.number(summary.effective_n, 3)
    return [numbers.percent(summary.cv), str(summary.n), effective, *shares]


def _tested_table(first: str, second: str, level: str) -> Grid:
    """Columns of a name, a figure, its interval and its p-value."""
    shown = Grid()
    shown.add_column(first)
    shown.add_column(second, right=True)
    shown.add_column(f"{level} interval")
    shown.add_column("p", right=True)
    return shown


def _drift_table(table: NoiseTable, analysis: Analysis) -> Grid:
    shown = _tested_table("change over the run", "drift", analysis.level)
    _add_rows(shown, table, _drift_cells)
    return shown


def _has_drift(cell: CellNoise) -> bool:
    return cell.row.summary is not None and cell.drift is not None and abs(cell.drift.low) < float("inf")


def _drift_cells(cell: CellNoise) -> list[str | Text]:
    if cell.drift is None or not _has_drift(cell):
        return [Text("–", style="dim")]
    interval = f"[{_signed(cell.drift.low)}, {_signed(cell.drift.high)}]"
    return [_signed(cell.drift.change), Text(interval, style="dim"), numbers.number(cell.drift_p, 2)]


def _plan_table(table: NoiseTable, analysis: Analysis) -> Grid:
    shown = Grid()
    shown.add_column(f"ratio to {analysis.baseline}")
    target = f"for ±{numbers.plain_percent(analysis.rule.precision)}"
    for column in ("this run", "gave", "took", target, "or", "takes"):
        shown.add_column(column, right=True)
    _add_rows(shown, table, _plan_cells)
    return shown


def _plan_cells(cell: CellNoise) -> list[str | Text] | None:
    """None for what has no ratio to plan for: the baseline."""
    if cell.row.ratio is None or cell.time_s is None:
        return None
    plan = cell.plan
    return [
        f"{cell.row.ratio.n_blocks} x {round(cell.trials, 1):g}",
        "" if cell.half_width is None else f"±{numbers.percent(cell.half_width)}",
        format_duration(cell.time_s),
        *([f"{plan.blocks} x {plan.trials:g}", blocks_range(plan), format_duration(plan.time_s)] if plan else []),
    ]


def _add_rows(shown: Grid, table: NoiseTable, cells_of: Callable[[CellNoise], Sequence[str | Text] | None]) -> None:
    """A row per cell that has something to show, below the name of its point where there are several."""
    for point, cells in table.points:
        if point:
            shown.add_heading(Text(point, style="italic"))
        for cell in cells:
            if (found := cells_of(cell)) is not None:
                shown.add_row(name_of(cell.row), *found, indent=bool(point))


def _share(value: float | None) -> str:
    return "–" if value is None else format_percent(value, ".0f")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + numbers.percent(value)


def ranking_parts(found: Sequence[PointRanking]) -> list[RenderableType]:
    """A table a metric: a row per platform, a column per rank, the chance of it in each cell; then the warnings."""
    parts: list[RenderableType] = []
    warnings: dict[str, list[str]] = {}
    for section in dict.fromkeys(each.section.title for each in found):
        mine = [each for each in found if each.section.title == section]
        ranked = any(each.ranking for each in mine)
        parts += [heading(mine[0].section), *([_ranking_table(mine)] if ranked else _unranked(mine)), Text()]
        for each in mine:
            for text in each.warnings:
                warnings.setdefault(text, []).append(_where(each.section, each.point.name))
    return [*parts, *_warnings(warnings)]


def _unranked(found: Sequence[PointRanking]) -> list[RenderableType]:
    """Why there are no ranks, each reason once."""
    return [Text(text, style="red") for text in dict.fromkeys(each.trouble for each in found)]


def _ranking_table(found: Sequence[PointRanking]) -> Grid:
    shown = Grid()
    shown.add_column("platform")
    for number in range(max(len(each.rows) for each in found)):
        shown.add_column(_ordinal(number), right=True)
    for each in found:
        if each.point.levels:
            shown.add_heading(Text(each.point.name, style="italic"))
        if each.ranking is None:
            shown.add_heading(Text(each.trouble, style="red"))
            continue
        for row, chances in zip(each.rows, each.ranking.probabilities.tolist(), strict=True):
            cells = [Text(f"{p:.2f}", style="bold" if p >= 0.5 else "") if p >= 0.005 else "·" for p in chances]
            shown.add_row(name_of(row), *cells, indent=bool(each.point.levels))
    return shown


def _ordinal(number: int) -> str:
    if number == 0:
        return "best"
    return f"{number + 1}{ {1: 'nd', 2: 'rd'}.get(number % 10, 'th') if number not in (11, 12) else 'th' }"


def factor_parts(found: Sequence[FactorEffect], analysis: Analysis) -> list[RenderableType]:
    """Of every factor its answer in words and its table; then the warnings."""
    if not found:
        return [Text("no factor of this run has more than one level, so there is nothing to compare")]
    parts: list[RenderableType] = []
    warnings: dict[str, list[str]] = {}
    for each in found:
        title = Text(f"{each.section.title} by {each.factor}", style="bold")
        parts += [title, Text(each.text or each.trouble, style="" if each.effect else "red")]
        if each.effect:
            parts += [_factor_table(each, analysis), _factor_noise(each.effect)]
        parts.append(Text())
        for text in each.warnings:
            warnings.setdefault(text, []).append(f"{each.section.name}, {each.factor}")
    return [*parts, *_warnings(warnings)]


def _factor_table(found: FactorEffect, analysis: Analysis) -> Grid:
    assert found.effect is not None
    shown = _tested_table("term", "ratio", analysis.level)
    first, platform = f"{found.factor}={found.levels[0]}", analysis.baseline
    kinds = {
        "platform": f"to {platform}, at {first}",
        "factor": f"to {first}, on {platform}",
        "interaction": f"of ratios to {platform}, to that at {first}",
    }
    for kind, relative_to in kinds.items():
        shown.add_heading(Text(relative_to, style="italic"))
        for term in (each for each in found.effect.table if each.kind == kind):
            level = f"{found.factor}={term.level}"
            name = {"platform": term.platform, "factor": level}.get(kind, f"{term.platform} at {level}")
            interval = Text(numbers.interval(term.low, term.high), style="dim")
            shown.add_row(name, numbers.ratio(term.ratio), interval, numbers.number(term.p_value, 2), indent=True)
    return shown


def _factor_noise(effect: Interaction) -> Text:
    """The standard deviations of the model's levels of noise, as shares of the mean."""
    block, guest, residual = map(numbers.percent, (effect.sd_block, effect.sd_guest, effect.sd_residual))
    return Text(f"noise (SD): of blocks {block}, of guests {guest}, residual {residual}", style="dim")


def contrast_parts(found: Contrasts, *, wide: bool) -> list[RenderableType]:
    """A table a metric with both means, their ratio and its verdict; then how it was compared, and the warnings."""
    parts: list[RenderableType] = []
    warnings: dict[str, list[str]] = {text: [] for text in found.warnings}
    for title in dict.fromkeys(each.section.title for each in found.compared):
        mine = [each for each in found.compared if each.section.title == title]
        parts += [heading(mine[0].section), _contrast_table(mine, found, wide=wide), Text()]
        for each in mine:
            for text in each.warnings:
                warnings.setdefault(text, []).append(_where(each.section, each.name))
    how = "paired by block" if found.is_paired else "two samples of blocks"
    margin = numbers.plain_percent(found.margin)
    parts.append(
        Text(f"{found.left.text} / {found.right.text}, {how}; within ±{margin} is equivalent; Holm-corrected over "
             f"{format_count(found.family, 'contrast')}", style="dim")
    )  # fmt: skip
    return [*parts, Text(), *_warnings(warnings)]


def _contrast_table(compared: Sequence[Compared], found: Contrasts, *, wide: bool) -> RenderableType:
    """Both sides as two rows of the table that `vtax show` has, the right one as what the left one is compared to."""
    points = []
    for each in compared:
        right = replace(each.right.platform, name=found.right.text, is_baseline=True)
        left = replace(each.left.platform, name=found.left.text, is_baseline=False)
        rows = (
            replace(each.right, platform=right, ratio=None, verdict=None, target_missed=False),
            replace(each.left, platform=left, ratio=each.ratio, verdict=each.verdict, trouble=each.trouble,
                    target_missed=False),
        )  # fmt: skip
        points.append(Point(each.name, each.levels, rows))
    section = replace(compared[0].section, points=tuple(points))
    return result_table(section, numbers.plain_percent(found.confidence), "", wide=wide)


def contrast_json(found: Contrasts) -> dict[str, Any]:
    """Both sides, how they were compared, and one entry per metric and common point; ratios are left / right."""
    sides = {
        name: {"text": side.text, "run": side.analysis.name, "platform": side.platform, "levels": dict(side.levels)}
        for name, side in (("left", found.left), ("right", found.right))
    }
    entries = [
        {
            **_named(each.section),
            "unit": each.section.metric.unit,
            "better": each.section.metric.better,
            "levels": dict(each.levels),
            "left_mean": each.left.summary.mean if each.left.summary else None,
            "right_mean": each.right.summary.mean if each.right.summary else None,
            "ratio": vars(each.ratio) if each.ratio else None,
            "verdict": {**vars(each.verdict), "text": str(each.verdict)} if each.verdict else None,
            "trouble": each.trouble,
            "warnings": each.warnings,
        }
        for each in found.compared
    ]
    plain: dict[str, Any] = {
        "schema": "vtax.contrast/1", **sides, "paired": found.is_paired, "margin": found.margin,
        "confidence": found.confidence, "family": found.family, "contrasts": entries, "warnings": found.warnings,
    }  # fmt: skip
    result: dict[str, Any] = finite(plain)
    return result


def _where(section: Section, point: str) -> str:
    return ", ".join(filter(None, [section.name, point]))


def _warnings(found: Mapping[str, Sequence[str]]) -> list[RenderableType]:
    lines = []
    for text, places in found.items():
        more = len(places) - _MOST_PLACES
        where = "; ".join(places[:_MOST_PLACES]) + (f"; and {more} more" if more > 0 else "")
        lines.append(Text(text).append(f"  {where}", style="dim"))
    return [bullets("Warnings", lines)] if lines else []


def noise_json(tables: Sequence[NoiseTable], analysis: Analysis) -> list[dict[str, Any]]:
    """One entry per metric and cell; shares, half-widths and changes are fractions, times seconds."""
    return [
        finite(
            {
                **_named(table.section),
                "levels": dict(cell.row.cell.levels),
                "platform": cell.row.platform.name,
                "cv": cell.row.summary.cv if cell.row.summary else None,
                "n": cell.row.summary.n if cell.row.summary else 0,
                "effective_n": cell.row.summary.effective_n if cell.row.summary else None,
                "shares": {
                    "between_blocks": cell.between_blocks,
                    "between_trials": cell.between_trials,
                    "within_trial": cell.within_trial,
                },
                "drift": {**vars(cell.drift), "p_adjusted": cell.drift_p} if cell.drift else None,
                "done": {
                    "trials": cell.trials,
                    "blocks": int(cell.row.blocks.size),
                    "half_width": cell.half_width,
                    "time_s": cell.time_s,
                },
                "target": analysis.rule.precision,
                "plan": vars(cell.plan) if cell.plan else None,
                "trouble": cell.trouble,
                "warnings": cell.warnings,
            }
        )
        for table in tables
        for _, cells in table.points
        for cell in cells
    ]


def ranking_json(found: Sequence[PointRanking]) -> list[dict[str, Any]]:
    """One entry per metric and point; probabilities: platform -> of each rank, the best first."""
    return [
        finite(
            {
                **_named(each.section),
                "levels": dict(each.point.levels),
                "order": [row.platform.name for row in each.rows] if each.ranking else None,
                "probabilities": (
                    {r.platform.name: p.tolist() for r, p in zip(each.rows, each.ranking.probabilities, strict=True)}
                    if each.ranking
                    else None
                ),
                "blocks": each.ranking.blocks if each.ranking else 0,
                "trouble": each.trouble,
                "warnings": each.warnings,
            }
        )
        for each in found
    ]


def factors_json(found: Sequence[FactorEffect]) -> list[dict[str, Any]]:
    """One entry per metric and factor: the F-test, the model's table and standard deviations."""
    entries = []
    for each in found:
        effect = None
        if each.effect:
            effect = {**vars(each.effect), "table": [vars(term) for term in each.effect.table]}
        entries.append(
            finite(
                {
                    **_named(each.section),
                    "factor": each.factor,
                    "levels": each.levels,
                    "effect": effect,
                    "p_adjusted": each.p_adjusted,
                    "text": each.text,
                    "trouble": each.trouble,
                    "warnings": each.warnings,
                }
            )
        )
    return entries


def _named(section: Section) -> dict[str, str]:
    return {"label": section.label, "benchmark": section.benchmark, "metric": section.metric.name}
