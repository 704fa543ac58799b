"""Bencher Metric Format (bencher.dev): JSON with a value, a lower and an upper value of every measure.

A benchmark is a platform with a benchmark table and its levels, a measure is a metric with its unit: Bencher's own
measures `latency` and `throughput` have other units. The values are means with their intervals, and, but for the
baseline, ratios to it.
"""

from __future__ import annotations

import json
import math

from vtax.foreign_text import json_escaped
from vtax.report.analysis import Analysis, every_row
from vtax.report.exports import check_is_measured

_MAX_BENCHMARK, _MAX_MEASURE = 1024, 64  # characters that Bencher takes
_Metric = dict[str, float]


def text(analysis: Analysis) -> str:
    """Return the result of a run in Bencher's format. Raises BadInput when it has no value."""
    check_is_measured(analysis)
    found: dict[str, dict[str, _Metric]] = {}
    for section, point, row in every_row(analysis.sections):
        if row.summary is None:
            continue
        levels = (f"{factor}={level}" for factor, level in point.levels.items())
        name = "/".join((row.platform.name, section.label, *levels))[:_MAX_BENCHMARK]
        measures = found.setdefault(name, {})
        metric, s = section.metric, row.summary
        measures[measure(metric.name, metric.unit)] = _metric(s.mean, s.low, s.high)
        if (r := row.ratio) is not None:
            measures[measure(metric.name, "ratio")] = _metric(r.estimate, r.low, r.high)
    return json_escaped(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def measure(metric: str, unit: str) -> str:
    """`throughput (Mbit/s)`; of a long name the unit stays."""
    end = f" ({unit[:20]})"
    return metric[: _MAX_MEASURE - len(end)] + end


def _metric(value: float, low: float | None, high: float | None) -> _Metric:
    """Return a value with those bounds that are finite."""
    bounds = {"lower_value": low, "upper_value": high}
    return {
        "value": value,
        **{name: x for name, x in bounds.items() if x is not None and math.isfinite(x)},
    }
