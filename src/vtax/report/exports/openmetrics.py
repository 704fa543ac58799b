"""OpenMetrics text 1.0: the result of a run as gauges, for Prometheus and what reads its format.

Values are in the unit that the label `unit` names. Labels: run, study, platform, benchmark, metric, unit, better and
one a factor, `factor_NAME`. Bounds of intervals are samples of their own, with the label `bound`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.exports import check_is_measured

_FAMILIES = {
    "vtax_mean": "Mean of the trials.",
    "vtax_mean_bound": "Bounds of the interval of the mean.",
    "vtax_ratio": "Ratio to the baseline.",
    "vtax_ratio_bound": "Bounds of the interval of the ratio.",
}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def text(analysis: Analysis) -> str:
    """Every metric of a run. Raises BadInput when it has no value."""
    check_is_measured(analysis)
    samples: dict[str, list[str]] = {family: [] for family in _FAMILIES}
    for section, point, row in every_row(analysis.sections):
        labels = _labels(analysis, section, point, row)
        for family, further_labels, value in _values(row):
            if math.isfinite(value):
                samples[family].append(
                    f"{family}{{{_written({**labels, **further_labels})}}} {value!r}"
                )
    lines = [
        line
        for family, meaning in _FAMILIES.items()
        for line in (f"# TYPE {family} gauge", f"# HELP {family} {meaning}", *samples[family])
    ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(analysis: Analysis, section: Section, point: ResultPoint, row: Row) -> dict[str, str]:
    metric = section.metric
    return {
        "run": analysis.name,
        "study": analysis.study,
        "platform": row.platform.name,
        "benchmark": section.label,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        **{
            f"factor_{_NO_NAME.sub('_', factor)}": str(level)
            for factor, level in point.levels.items()
        },
    }


def _values(row: Row) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """(family, further labels, value) of a row."""
    if row.summary is not None:
        yield "vtax_mean", {}, row.summary.mean
        yield "vtax_mean_bound", {"bound": "low"}, row.summary.low
        yield "vtax_mean_bound", {"bound": "high"}, row.summary.high
    if row.ratio is not None:
        yield "vtax_ratio", {}, row.ratio.estimate
        yield "vtax_ratio_bound", {"bound": "low"}, row.ratio.low
        yield "vtax_ratio_bound", {"bound": "high"}, row.ratio.high


def _written(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
