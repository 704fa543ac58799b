"""Texts that vtax stored with a run in English: why it ended or what was not tested, marks, titles of metrics, and
what a shipped study says of itself; and errors, which are English where they are raised.

A run keeps them as they were said. A renderer looks for the template that such a text
was made from in the catalogue of its language (context `stored`) and shows what it does not find as it is. Most are
found where they are made, by `.ci/stored_sentences.py`; those that are put together from parts stand here whole.
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
NOT_COUNTED = ("energy", "VM exits", "CPU time of Xen's domains", "run-queue wait of all tasks", "pressure")
"""Counters that a host may lack, beside the events of perf, which keep their names."""
ERRORS = (
    "there is no such page",
    "the runs, the studies and the contrast are linked above",
    "there is no page {number}",
    "pages are counted from 1",
    "there is no page {number} of these runs",
    "the last page is {number}",
    "no run has the study {name}",
    "no run has the platform {name}",
    "no run has the status {name}",
    "no run has the tag {name}",
    "there are: {names}",
    "there is no run {name}",
    "there is no run yet",
    "start one: sudo vtax run tour",
    "did you mean {names}?",
    "the latest are {names}; see vtax list",
    "the page of runs lists those that are stored",
    "no run of a study {name} is stored",
    "the page of studies lists those with runs",
    "there is no download {name}",
    "one of {names}",
    "this page needs its token",
    "open the address that vtax serve printed, which has it",
    "the token is wrong",
    "open the address that vtax serve printed; each start has another token",
    "this address is not one of this host",
    "use the address that vtax serve printed, or name the other one with --name",
    "this page is read-only",
    "it answers GET and HEAD",
    "vtax failed to make this page",
    "the terminal of vtax serve says more",
    "the process that prepares pages was killed",
    "perhaps memory is short; load the page again",
    "{treatment} and {baseline} have nothing in common that was measured",
    "name runs with the same benchmarks and levels, or a metric that both have",
    "{treatment} and {baseline} are the same cells",
    "vary the platform, a level, or the run",
    "{treatment} and {baseline} are the same run",
    "{treatment} and {baseline} are the same runs",
    "name another run: vtax list",
    "{run} is a whole run, and {platform} a platform of one",
    "write {platform}, or two runs",
    "{run} is on both sides",
    "a run belongs to one side",
    "{side} names {run} twice",
    "name each run once",
    "{run} could not test {platform}: {reason}",
    "{run} has no platform {name}",
    "{run} has no factor {name}",
    "there is no run or platform {name}",
    "platforms: {names}; runs: vtax list",
)
"""Errors of a request to the page of `vtax serve`, and their hints; every other error is shown as it is."""
UNITS = (
    "events/s", "transactions/s", "requests/s", "queries/s", "rows/s", "seeks/s", "files/s", "bytes", "segments",
    "packets", "flows", "requests", "pages",
)  # fmt: skip
"""Units of metrics and counters that are words; the others are symbols, the same in every language."""
TEXTS = (*LOST, *MARKS, *NOT_COUNTED, *ERRORS, *UNITS)


def unit_of(unit: str) -> Inline:
    """Return a unit in the reader's language: a word, or a symbol as it is."""
    return stored(unit) if unit in UNITS else unit
