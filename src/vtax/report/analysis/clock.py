"""Guests whose clock runs at another rate than the controller's: `equivalent` cannot be claimed in their time.

A tool in a guest times its work by the guest's clock. The runner measures that clock around every trial, and warns
where its rate is off by more than the study's margin, whatever the error of the measurement. Such a figure is wrong
by more than the margin, so it cannot show that two platforms differ by less.
"""

from __future__ import annotations

from dataclasses import replace

from vtax.benchmarks.base import CPU_PER_GIGABYTE
from vtax.stats.notes import Note
from vtax.stats.verdict import Verdict
from vtax.store.query import RunData
from vtax.store.records import CLOCK_RATE, MetricRecord

_TIME = frozenset({"s", "ms", "µs", "us", "ns", "ps", "min", "h"})


def cells_with_wrong_rate(data: RunData) -> frozenset[int]:
    """Cells, as indices into RunData.run.cells, of which a trial had a guest's clock of a wrong rate."""
    return frozenset(w.cell for w in data.warnings if w.code == CLOCK_RATE and w.cell is not None)


def is_timed(metric: MetricRecord) -> bool:
    """Whether a metric is a time or a rate, by its unit. CPU time per gigabyte is counted and timed by the host."""
    words = metric.unit.replace("/", " ").replace("per", " ").split()
    return metric.name != CPU_PER_GIGABYTE.name and any(word in _TIME for word in words)


def warranted(verdict: Verdict, metric: MetricRecord, *, clock_is_wrong: bool) -> Verdict:
    """The verdict; `equivalent` is withheld where a clock of either side makes the figure wrong."""
    if verdict.kind != "equivalent" or not clock_is_wrong or not is_timed(metric):
        return verdict
    warnings = (*verdict.warnings, Note("withheld-clock"))
    return replace(verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=warnings)
