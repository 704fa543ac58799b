"""JSON for github-action-benchmark: an entry a comparison, all in percent of the baseline, so bigger is better.

The action takes one direction a file (`tool: customBiggerIsBetter`), and a run has rates and times. A percentage of
the baseline is 100 times the ratio of a rate, and 100 divided by the ratio of a time.
"""

from __future__ import annotations

import json
import math

from vtax.foreign_text import json_escaped
from vtax.report.analysis import Analysis, every_row
from vtax.report.exports import check_is_measured


def text(analysis: Analysis) -> str:
    """Return the primary comparisons of a run, as a JSON list. Raises BadInput when it has no value."""
    check_is_measured(analysis)
    found = []
    for section, point, row in every_row(analysis.primary):
        if row.ratio is None:
            continue
        e = row.ratio.efficiency(section.better)
        levels = (f"{factor}={level}" for factor, level in point.levels.items())
        half = 50 * (e.high - e.low)
        found.append(
            {
                "name": "/".join((row.platform.name, section.name, *levels)),
                "unit": f"% of {analysis.baseline}",
                "value": 100 * e.estimate,
                **({"range": f"± {half:.3g}"} if math.isfinite(half) else {}),
                "extra": f"{analysis.name}: {row.verdict.kind if row.verdict else 'no verdict'}",
            }
        )
    return json_escaped(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"
