"""The result of a run as plain JSON values: what `vtax show --json` prints and `vtax report --format json` writes."""

from __future__ import annotations

import math
from typing import Any

from vtax.report.analysis import Analysis, Point, Row, Section
from vtax.report.answers import answers
from vtax.report.method import order_of
from vtax.stats.checks import Better

SCHEMA = "vtax.analysis/1"


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The whole analysis; a number that is not finite is null. Units are those of the metrics, unscaled."""
    plain = {
        "schema": SCHEMA,
        "run": analysis.name,
        "study": analysis.study,
        "declared": analysis.declared,
        "status": analysis.status,
        "stopped_because": analysis.stopped_because,
        "seed": analysis.seed,
        "vtax_version": analysis.vtax_version,
        "image_key": analysis.image_key,
        "host": analysis.host,
        "started_at": analysis.started_at,
        "ended_at": analysis.ended_at,
        "took_s": analysis.took_s,
        "order": [{"block": block + 1, "platforms": platforms} for block, platforms in order_of(analysis)],
        "baseline": analysis.baseline,
        "blocks": analysis.blocks,
        "trials": analysis.trials,
        "failed": analysis.failed,
        "confidence": analysis.rule.confidence,
        "margin": analysis.rule.margin,
        "platforms": [
            {**vars(p), "ready_s": analysis.ready_s(p.name)} for p in analysis.platforms
        ],
        "answers": [vars(answer) for answer in answers(analysis)],
        "results": [_section(section) for section in analysis.sections],
        "warnings": [vars(remark) for remark in analysis.remarks],
        "shortfalls": analysis.shortfalls,
    }  # fmt: skip
    result: dict[str, Any] = finite(plain)
    return result


def _section(section: Section) -> dict[str, Any]:
    return {
        "label": section.label,
        "benchmark": section.benchmark,
        "tool_version": section.tool_version,
        "metric": section.metric.name,
        "title": section.metric.title,
        "unit": section.metric.unit,
        "better": section.metric.better,
        "primary": section.metric.is_primary,
        "family": section.family,
        "points": [_point(point, section.better) for point in section.points],
    }


def _point(point: Point, better: Better) -> dict[str, Any]:
    cell = point.rows[0].cell
    return {
        "point": point.key,
        "levels": point.levels,
        "topology": cell.topology,
        "parameters": cell.parameters,
        "link": cell.link,
        "rows": [_row(row, better) for row in point.rows],
    }


def _row(row: Row, better: Better) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "platform": row.platform.name,
        "cell": row.cell.key,
        "marks": row.platform.marks,
        "failed": row.failed,
        "summary": None if row.summary is None else vars(row.summary),
        "blocks": row.blocks.tolist(),
        "block_means": row.block_means.tolist(),
        "ratio": None,
        "verdict": None,
        "target_missed": row.target_missed,
        "warnings": row.warnings,
    }
    if row.ratio is not None and row.verdict is not None:
        efficiency, overhead = row.ratio.efficiency(better), row.ratio.overhead(better)
        plain["ratio"] = vars(row.ratio)
        plain["efficiency"] = {name: getattr(efficiency, name) for name in ("estimate", "low", "high")}
        plain["overhead"] = {name: getattr(overhead, name) for name in ("estimate", "low", "high")}
        plain["verdict"] = {**vars(row.verdict), "text": str(row.verdict)}
    return plain


def finite(value: Any) -> Any:
    """A value of plain types with null for every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
