"""Words that runs store and the catalogue has entries for: marks of platforms, counters, units."""

from __future__ import annotations

from vtax.report.document.text import Inline, term

MARKS = ("emulated", "emulated host", "nested", "remote", "not confined")
NOT_COUNTED = (
    "energy",
    "VM exits",
    "CPU time of Xen's domains",
    "run-queue wait of all tasks",
    "pressure",
)
"""Counters that a host may lack, beside the events of perf, which keep their names."""
UNITS = (
    "events/s",
    "transactions/s",
    "requests/s",
    "queries/s",
    "rows/s",
    "seeks/s",
    "files/s",
    "bytes",
    "segments",
    "packets",
    "flows",
    "requests",
    "pages",
)
"""Units of metrics and counters that are words; the others are symbols, the same in every language."""
TERMS = (*MARKS, *NOT_COUNTED, *UNITS)


def unit_of(unit: str) -> Inline:
    """Return a unit in the reader's language: a word, or a symbol as it is."""
    return term(unit) if unit in UNITS else unit
