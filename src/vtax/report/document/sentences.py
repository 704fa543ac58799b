"""The catalogue of warnings: code -> severity and the English template of its sentence.

A renderer takes the template of a code, translates it, and puts the warning's data into it. A code that is not here,
as those of tools, guests and plug-ins, carries its sentence as `text`; so does a code with a text that has no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtax.report.document.text import Message, msg, stored
from vtax.report.document.warnings import Severity, Warning
from vtax.stats.notes import SENTENCES

TEXT = "text"
SESSION_EFFECTS = "session-effects"


@dataclass(frozen=True)
class Sentence:
    """The sentence of a code. template: names its data. units: of the data, by name."""

    severity: Severity
    template: Message
    units: Mapping[str, str] = field(default_factory=dict)


_DRIFT = {"change": "fraction", "p": "p-value", "cause": "text"}
CODES: Mapping[str, Sentence] = {
    "emulated-host": Sentence(
        "warning",
        msg("the CPU of this host is emulated: figures, including native ones, say little about physical CPUs"),
    ),
    SESSION_EFFECTS: Sentence(
        "warning",
        msg(
            "a side has one session only: differences between sessions of the host (reboots, updates, temperature, "
            "other tenants) are part of the ratio and of no interval; several sessions on both sides would show them"
        ),
    ),
    "host-busy": Sentence(
        "warning", msg("other programs kept {cpus} of the host's CPUs busy during the trial"), {"cpus": "CPUs"}
    ),
    "host-steal": Sentence(
        "warning",
        msg("steal {share}: the machine below this host kept its CPUs from it for that share"),
        {"share": "fraction of the CPU time"},
    ),
    "host-memory": Sentence(
        "warning",
        msg("programs on the host waited for memory {share} of the time"),
        {"share": "fraction of the time"},
    ),
    "host-swap": Sentence("warning", msg("the host swapped {pages} pages during the trial"), {"pages": "pages"}),
    "host-frequency": Sentence(
        "warning",
        msg("the CPU frequency changed by {change} from before the trial to after it"),
        {"change": "fraction of the frequency before"},
    ),
    "host-throttled": Sentence(
        "warning", msg("a CPU was slowed {times} times because it was hot"), {"times": "times"}
    ),
    "failed-without-message": Sentence("error", msg("the trial failed")),
    "clock": Sentence(
        "warning",
        msg("the guest's wall clock was {offset} off the host's; durations are measured on the host's clock"),
        {"offset": "s"},
    ),
    "drift": Sentence("warning", msg("the figures drift over the run by {change} ({p}): {cause}"), _DRIFT),
    "drift-of-cells": Sentence(
        "warning",
        msg("the figures of {cells} cells drift over the run by {change} ({p}): {cause}"),
        {"cells": "cells", **_DRIFT},
    ),
    "drift-of-cells-between": Sentence(
        "warning",
        msg("the figures of {cells} cells drift over the run by {low} to {high} ({p}): {cause}"),
        {"cells": "cells", "low": "fraction", "high": "fraction", "p": "p-value", "cause": "text"},
    ),
}
"""Code -> its sentence, of every code with typed data that the statistics do not have."""
_HOST = frozenset(code for code in CODES if code.startswith("host-"))  # stored as texts, in whatever words
_ERRORS = frozenset({"failed-trial", "failed-warmup", "lost-guest"})
_NOTES = frozenset({"tuned", "warmup", "trials", "resumed", "boots"})


def severity_of(code: str) -> Severity:
    """How severe a warning of a code is; one that is not known is a warning."""
    if code in CODES:
        return CODES[code].severity
    return "error" if code in _ERRORS else "note" if code in _NOTES else "warning"


def template_of(code: str, *, is_text: bool = False) -> tuple[str, str]:
    """(template, template for other counts than one): of a code; its text alone when it has no sentence.

    is_text: whether the data is a text, whatever sentence the code has.
    """
    if code in CODES and not is_text:
        return CODES[code].template.template, ""
    return SENTENCES.get(code, ("{text}", ""))


def sentence(warning: Warning) -> Message:
    """The sentence of a warning as a message of the catalogue."""
    return sentence_of(warning.code, warning.data)


def sentence_of(code: str, data: Mapping[str, object]) -> Message:
    """The sentence of a code with the data it holds."""
    from vtax.report.document.cells import Count

    if isinstance(text := data.get(TEXT), str):
        data = {**data, TEXT: stored(text)}
    one, many = template_of(code, is_text=code in _HOST and TEXT in data)
    count = data.get("count")
    is_one = isinstance(count, Count) and count.value == 1
    return Message(one, data, many, 1 if is_one or count is None else 2)  # type: ignore[arg-type]
