"""Texts that vtax stored with a run in English: what a scale takes from a claim, marks, counters, units.

A run keeps them as they were said. A renderer looks for the template that such a text was made from in the catalogue
of its language (context `stored`), which has titles of metrics and texts of shipped studies too, and shows what it
does not find as it is.
"""

from __future__ import annotations

from vtax.report.document.text import Inline, stored

STORED = "stored"
"""The context of these texts in a catalogue."""

LOST = (
    "--scale {name} leaves out levels that it compares: {levels}",
    "--scale {name} divides levels that it compares: {levels}",
    "--scale {name} leaves out levels that it compares: {levels}; divides levels that it compares: {others}",
    "--scale {name} measures {levels}",
    "--scale {name} measures {kept} of {total} levels of {factor}",
    "--scale {name} measures {kept} of {total} levels of {factor}, {more} of {among} levels of {second}",
    "--scale {name} measures {kept} of {total} levels of {factor}, {more} of {among} levels of {second}, "
    "{most} of {whole} levels of {third}",
)
"""Losses of a claim by a scale, see study.variants."""
MARKS = ("emulated", "emulated host", "nested", "remote")
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
TEXTS = (*LOST, *MARKS, *NOT_COUNTED, *UNITS)


def unit_of(unit: str) -> Inline:
    """Return a unit in the reader's language: a word, or a symbol as it is."""
    return stored(unit) if unit in UNITS else unit
