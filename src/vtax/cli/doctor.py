"""`vtax doctor`: checks which platforms run here and what disturbs measurements on this host."""

from __future__ import annotations

from collections.abc import Mapping

import click

from vtax.cli.language import translate
from vtax.cli.output import json_option, missing_image, print_json, print_table, say
from vtax.cli.probing import probing_lock
from vtax.doctor.examine import Examination, examine
from vtax.grouping import by_key
from vtax.host.home import Home
from vtax.image.build import checked
from vtax.platforms.base import Probe

_STYLES = {"ok": "", "none": "", "warn": "yellow", "bad": "bold red"}


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Check within 30 s (300 s on an emulated CPU) which platforms run and what disturbs measurements, with hints."""
    with probing_lock("vtax doctor") as why_not:
        examination = examine(checked(Home.from_environment()), not_probed=why_not)
    hint = missing_image(Home.from_environment())
    if as_json:
        print_json({**examination.as_json(), "image": {"hint": hint}})
        return
    _print_platforms(examination)
    _print_ladders(examination)
    if hint:
        say(f"{hint}\n")
    _print_findings(examination)


def _print_platforms(examination: Examination) -> None:
    """Print the platforms; those with equal results stand together."""
    if examination.not_probed:
        say(f"platforms were not probed: {examination.not_probed}\n")
        return
    groups: dict[tuple[str, str, str], list[str]] = {}
    hints: dict[str, list[str]] = {}
    for name, probe in examination.platforms.items():
        if probe is None:
            continue
        notes = [*probe.marks, probe.reason] if probe.available else [probe.reason]
        note = "; ".join(map(translate, filter(None, notes)))
        groups.setdefault((_availability(probe), note, probe.version), []).append(name)
        if not probe.available:
            hints.setdefault(probe.hint, []).append(name)
    rows = []
    for (word, note, version), (first, *others) in groups.items():
        rows.append((first, word, note, version))
        short_note = translate("as {name}", name=first) if note else ""
        rows += [(name, word, short_note, version) for name in others]
    print_table(("platform", "available", "note", "version"), rows)
    _print_hints({", ".join(names): hint for hint, names in hints.items()})


def _print_ladders(examination: Examination) -> None:
    """Print how many rungs of each ladder run here, and why the others do not."""
    rows = []
    for name, rungs in examination.ladders.items():
        reasons = by_key(
            (translate(probe.reason), rung) for rung, probe in rungs.items() if not probe.available
        )
        missing = sum(map(len, reasons.values()))
        notes = [f"{', '.join(others)}: {reason}" for reason, others in reasons.items()]
        if not notes:
            first, *upper_probes = rungs.values()
            shared_marks = set(first.marks).intersection(*(probe.marks for probe in upper_probes))
            notes = [translate(mark) for mark in sorted(shared_marks)]
        count = f"{len(rungs) - missing} / {len(rungs)}"
        rows.append((name, count, "; ".join(notes)))
    if rows:
        print_table(("ladder", "rungs that run here", "note"), rows)


def _availability(probe: Probe) -> str:
    if probe.available:
        return translate("yes")
    return translate("no") if probe.is_made else translate("unknown")


def _print_findings(examination: Examination) -> None:
    from rich.text import Text

    rows, hints = [], {}
    for finding in examination.findings:
        severity, name = translate(finding.severity), translate(finding.name)
        why = translate(finding.why) if finding.severity in ("warn", "bad") else ""
        cell = Text(severity, style=_STYLES[finding.severity])
        rows.append((cell, name, finding.observed, why))
        if finding.tunable:
            name += f" {translate('(vtax run --tune-host sets it)')}"
        hints[name] = finding.hint
    print_table(("severity", "check", "observed", "why it matters"), rows)
    if examination.not_observed:
        names = ", ".join(map(translate, examination.not_observed))
        say(f"{translate('not observable on this host')}: {names}\n")
    _print_hints(hints)


def _print_hints(hints: Mapping[str, str]) -> None:
    """Print hints below their table, on whole lines, so that commands can be copied."""
    for what, hint in hints.items():
        if hint:
            say(f"{what}:\n    {hint}")
    say()
