"""Guests whose clock runs at another rate than the controller's: `equivalent` cannot be claimed in their time.

A tool in a guest times its work by the guest's clock. The runner measures that clock around every trial, and warns
where its rate is off by more than the study's margin, whatever the error of the measurement. Such a figure is wrong
by more than the margin, so it cannot show that two platforms differ by less.
"""

from __future__ import annotations

from vtax.store.query import RunData
from vtax.store.records import CLOCK_RATE


def cells_with_wrong_rate(data: RunData) -> frozenset[int]:
    """Cells, as indices into RunData.run.cells, of which a trial had a guest's clock of a wrong rate."""
    return frozenset(w.cell for w in data.warnings if w.code == CLOCK_RATE and w.cell is not None)
