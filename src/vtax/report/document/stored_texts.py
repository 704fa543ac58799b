"""Texts that vtax stored with a run in English: why it ended or what was not tested, marks, titles of metrics, and
what a shipped study says of itself.

A run keeps them as they were said, also a run of an older version. A renderer looks for the template that such a text
was made from in the catalogue of its language (context `stored`) and shows what it does not find as it is. Most are
found where they are made, by `.ci/stored_sentences.py`; those that are put together from parts stand here whole.
"""

from __future__ import annotations

STORED = "stored"
"""The context of these texts in a catalogue."""

_TARGETS = ("a verdict", "an interval within ±{precision}\N{NO-BREAK SPACE}%")
_OF_TARGETS = (
    "all {total} contrasts have {target} after {blocks} blocks",
    "the contrast has {target} after {blocks} blocks",
    "{missed} of {total} contrasts misses {target} after {blocks} blocks",
    "{missed} of {total} contrasts miss {target} after {blocks} blocks",
    "the contrast misses {target} after {blocks} blocks",
    "{missed} of {total} contrasts misses {target} after {blocks} blocks, the most allowed",
    "{missed} of {total} contrasts miss {target} after {blocks} blocks, the most allowed",
    "the contrast misses {target} after {blocks} blocks, the most allowed",
)
REASONS = (
    *(text.replace("{target}", target) for text in _OF_TARGETS for target in _TARGETS),
    "time is left",
    "there is nothing to compare",
    "{blocks} of {total} block is made",
    "{blocks} of {total} block are made",
    "{blocks} of {total} blocks is made",
    "{blocks} of {total} blocks are made",
    "{blocks} of at least {minimum} blocks is made",
    "{blocks} of at least {minimum} blocks are made",
    "{refused} of {total} contrasts cannot be judged, since a value is zero or negative",
    "the contrast cannot be judged, since a value is zero or negative",
    "{withheld} of {total} contrasts is equivalent by a wrong clock alone and left out",
    "{withheld} of {total} contrasts are equivalent by a wrong clock alone and left out",
    "the contrast is equivalent by a wrong clock alone and left out",
    "the time budget of {budget} ends before another block would, after {blocks} block",
    "the time budget of {budget} ends before another block would, after {blocks} blocks",
)
"""Why a run ended: what stats.stopping says."""
LOST = (
    "--scale {name} leaves out levels that it compares: {levels}",
    "--scale {name} divides levels that it compares: {levels}",
    "--scale {name} leaves out levels that it compares: {levels}; divides levels that it compares: {others}",
    "--scale {name} leaves out levels that it compares",
    "--scale {name} measures {levels}",
    "--scale {name} measures {kept} of {total} levels of {factor}",
    "--scale {name} measures {kept} of {total} levels of {factor}, {more} of {among} levels of {second}",
    "--scale {name} measures {kept} of {total} levels of {factor}, {more} of {among} levels of {second}, "
    "{most} of {whole} levels of {third}",
)
"""What a scale took of a claim, see study.variants; the fourth of runs until November 2026."""
MARKS = ("emulated", "nested", "remote")
TEXTS = (*REASONS, *LOST, *MARKS)
