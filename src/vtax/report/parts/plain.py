"""The result of a run as plain values for programs: schema `vtax.analysis/1`. Units are the metrics', unscaled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.report.analysis.answers import answers, smallest_detectable
from vtax.report.analysis.sessions import MeasuredSession
from vtax.report.parts import first_screen
from vtax.stats.checks import Better

SCHEMA = "vtax.analysis/1"


def plain(analysis: Analysis) -> dict[str, Any]:
    """Return the whole analysis. Texts are messages still, which the JSON renderer writes in English."""
    return {
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
        "plugins": [vars(plugin) for plugin in analysis.plugins],
        "identity": analysis.identity,
        "provenance": analysis.provenance,
        "tags": analysis.annotations.tags,
        "notes": analysis.annotations.notes,
        "started": moment(analysis.started_at),
        "ended": moment(analysis.ended_at),
        "duration_s": analysis.duration_s,
        "order": [{"block": block + 1, "platforms": platforms} for block, platforms in order_of(analysis)],
        "baseline": analysis.baseline,
        "blocks": analysis.blocks,
        "sessions": plain_sessions(analysis.sessions),
        "planned_sessions": analysis.planned_sessions,
        "trials": analysis.trials,
        "failed": analysis.failed,
        "confidence": analysis.rule.confidence,
        "margin": analysis.rule.margin,
        "platforms": [{**vars(p), "ready_s": analysis.ready_s(p.name)} for p in analysis.platforms],
        "not_tested": [vars(each) for each in analysis.untested],
        **first_screen.plain(analysis),
        "answers": [vars(answer) for answer in answers(analysis)],
        "results": [_section(section) for section in analysis.sections],
        "warnings": analysis.warnings,
        "missed_targets": analysis.missed_targets,
        **({"filter": analysis.filter.plain()} if analysis.filter else {}),
    }


def plain_sessions(sessions: Sequence[MeasuredSession]) -> list[dict[str, Any]]:
    """Sessions with the blocks of each, from 1."""
    return [
        {
            "number": each.number, "boot_id": each.boot_id, "started": moment(each.started_at),
            "blocks": [block + 1 for block in each.blocks], "kernel": str(each.host.get("kernel", "")),
        }
        for each in sessions
    ]  # fmt: skip


def moment(seconds: float | None) -> str | None:
    """Return a Unix time as ISO 8601 in UTC with milliseconds; None for what is no time."""
    try:
        when = datetime.fromtimestamp(seconds, UTC) if seconds is not None else None
    except (ValueError, OverflowError, OSError):
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z") if when else None


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


def _point(point: ResultPoint, better: Better) -> dict[str, Any]:
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
    found: dict[str, Any] = {
        "platform": row.platform.name,
        "cell": row.cell.key,
        "marks": row.platform.marks,
        "failed": row.failed,
        "summary": None if row.summary is None else vars(row.summary),
        "blocks": row.blocks.tolist(),
        "block_means": row.block_means.tolist(),
        "ratio": None,
        "timeouts": None if row.timeouts is None else vars(row.timeouts),
        "typical": None if row.typical is None else vars(row.typical),
        "verdict": None,
        "target_missed": row.target_missed,
        "warnings": row.warnings,
    }
    if row.ratio is not None and row.verdict is not None:
        efficiency, overhead = row.ratio.efficiency(better), row.ratio.overhead(better)
        found["ratio"] = vars(row.ratio)
        found["efficiency"] = {name: getattr(efficiency, name) for name in ("estimate", "low", "high")}
        found["overhead"] = {name: getattr(overhead, name) for name in ("estimate", "low", "high")}
        found["detectable_overhead"] = smallest_detectable(row)
        found["verdict"] = {**vars(row.verdict), "text": str(row.verdict)}
    return found


def order_of(analysis: Analysis) -> list[tuple[int, tuple[str, ...]]]:
    """Blocks (from 0) in the order they ran, each with its platforms in the order of their guests."""
    blocks = groupby((guest for guest in analysis.guests if guest.block >= 0), key=lambda guest: guest.block)
    return [(block, tuple(dict.fromkeys(guest.platform for guest in guests))) for block, guests in blocks]
