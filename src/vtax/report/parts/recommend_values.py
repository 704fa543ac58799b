"""A recommendation for programs, as docs/data.md describes it."""

from __future__ import annotations

import math
from typing import Any

from vtax.report.analysis.recommendation import Recommendation, Standing
from vtax.report.analysis.workload import Missing


def plain(found: Recommendation) -> dict[str, Any]:
    """Return the ranking for programs."""
    return {
        "status": found.analysis.status,
        "blocks": found.analysis.blocks,
        "baseline": found.baseline,
        "margin": found.margin,
        "confidence": found.confidence,
        "weights": {each.name: each.weight for each in found.resources},
        "shares": {each.name: each.share for each in found.resources},
        "benchmarks": {each.name: list(each.labels) for each in found.resources},
        "not_tested": [vars(each) for each in found.unmeasured],
        "unit": "session" if found.is_of_sessions else "block",
        "units": found.units,
        "standings": [_plain_standing(each) for each in found.standings],
        "reference": found.reference.name if found.reference else None,
        "unranked": [{"platform": p.name, "reason": reason} for p, reason in found.unranked],
        "contributions": [
            {"resource": c.resource, "ratio": _interval(c.ratio), "factor": c.factor} for c in found.contributions
        ],
        "switches": [vars(each) for each in found.switches],
        "link_limits_mbit_s": found.link_limits,
        "warnings": found.warnings,
    }


def _plain_standing(each: Standing) -> dict[str, Any]:
    return {
        "platform": each.platform.name,
        "marks": list(each.platform.marks),
        "place_low": each.place[0],
        "place_high": each.place[1],
        "score": _interval(each.score) if not each.missing else None,
        "score_range": [each.score.low, each.score.high] if each.missing else None,
        "resources": {name: _interval(found) for name, found in each.resources.items()},
        "probabilities": each.probabilities,
        "p_near_best": each.near_best,
        "missing": [_plain_missing(missing) for missing in each.missing],
        "needed_to_be_first": each.needed,
    }


def _plain_missing(missing: Missing) -> dict[str, Any]:
    return {
        "resource": missing.resource, "benchmarks": list(missing.labels), "is_whole": missing.whole,
        "reason": missing.reason,
    }  # fmt: skip


def _interval(found: Any) -> dict[str, Any]:
    is_known = math.isfinite(found.low) and math.isfinite(found.high)
    bounds = {"low": found.low, "high": found.high} if is_known else {"low": None, "high": None}
    return {"estimate": found.estimate, **bounds}
