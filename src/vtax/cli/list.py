"""`vtax list`: lists the runs in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import click

from vtax.cli.arguments import listed, moment_of
from vtax.cli.completion import conditions_on_runs
from vtax.cli.language import translate
from vtax.cli.output import (
    existing_store,
    json_option,
    print_json,
    print_table,
    resume_hint,
    say,
)
from vtax.described import Means, values_of
from vtax.errors import BadInput, NotFound
from vtax.foreign_text import one_line
from vtax.report.renderers.language import Language, of_reader
from vtax.store.records import RunSummary
from vtax.units import format_duration


@click.command("list")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    callback=listed,
    metavar="KEY=VALUE,...",
    help="List only runs with this study, platform, status, origin, tag, note (text in a note) or host "
    "(the beginning of its machine id), or since=YYYY-MM-DD (repeatable; values of one key are "
    "alternatives).",
    shell_complete=conditions_on_runs,
)
@json_option
def command(conditions: tuple[str, ...], as_json: bool) -> None:
    """List the runs in the store, newest last."""
    is_wanted = _filter_of(conditions)
    try:
        store = existing_store()
        all_runs = store.runs()
    except NotFound:  # there is no store yet
        all_runs = []
    runs = [run for run in all_runs if is_wanted(run)]
    hints = {run.name: resume_hint(store, run.name, run.status) for run in runs}
    if as_json:
        listed_runs = [ListedRun(**vars(run), resume_hint=hints[run.name]) for run in runs]
        print_json(list(map(values_of, listed_runs)))
        return
    if all_runs and not runs:
        say(f"no run with {', '.join(conditions)}")
        return
    if not runs:
        say("no runs yet; start one with: sudo vtax run tour")
        return
    _print_runs(runs)
    for run in runs:
        if hints[run.name]:
            because = (run.stopped_because or run.status).splitlines()[0]
            say(f"{run.name} was not finished: {because}; {hints[run.name]}")


def _print_runs(runs: Sequence[RunSummary]) -> None:
    language = of_reader()
    columns: dict[str, Callable[[RunSummary], str]] = {
        translate("run"): lambda run: run.name,
        translate("study"): lambda run: run.study,
        translate("status"): lambda run: language.translated(run.status),
        translate("trials"): lambda run: str(run.trials),
        translate("failed"): lambda run: str(run.failed),
        translate("started"): lambda run: language.moment(run.started_at),
        translate("duration"): lambda run: _duration(run.duration_s, language),
    }
    if any(run.sessions > 1 for run in runs):
        columns[translate("sessions")] = lambda run: str(run.sessions)
    if any(run.origin for run in runs):
        columns[translate("origin")] = lambda run: language.translated(run.origin)
    if any(run.tags for run in runs):
        columns[translate("tags")] = lambda run: ", ".join(run.tags)
    if any(run.notes for run in runs):
        columns[translate("notes")] = lambda run: one_line("; ".join(run.notes), _NOTE_CHARS)
    if all(run.name.startswith(f"{run.study}-") for run in runs):
        del columns[translate("study")]
    rows = []
    for run in runs:
        rows.append([text_of(run) for text_of in columns.values()])
    print_table(list(columns), rows)


def _duration(seconds: float | None, language: Language) -> str:
    return "" if seconds is None else language.number(format_duration(seconds))


_TEXTS: dict[str, Callable[[RunSummary], tuple[str, ...]]] = {
    "study": lambda run: (run.study,),
    "platform": lambda run: run.platforms,
    "status": lambda run: (run.status,),
    "origin": lambda run: (run.origin or "measured here",),
    "tag": lambda run: run.tags,
    "note": lambda run: run.notes,
    "host": lambda run: run.hosts,
}
"""Key of --where -> the values that a run has of it."""
_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "note": lambda note, text: text.casefold() in note.casefold(),
    "host": str.startswith,
}
"""Key of --where -> whether a value of a run is the one that is wanted; of the others they are equal."""
_NOTE_CHARS = 40


def _filter_of(conditions: Sequence[str]) -> Callable[[RunSummary], bool]:
    """Return what says whether a run meets the conditions as typed. Raises BadInput for one that is none."""
    values: dict[str, list[str]] = {}
    since_s = float("-inf")
    keys = (*_TEXTS, "since")
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals and key in keys:
            raise BadInput(
                f"--where {condition} has no value", hint=f"write --where {condition}=VALUE"
            )
        if not equals or key not in keys:
            raise BadInput(
                f"--where {condition!r} is no condition on a run",
                hint=f"write KEY=VALUE with one of the keys {', '.join(keys)}",
            )
        if key == "since":
            since_s = max(since_s, moment_of(value, "--where since"))
        else:
            values.setdefault(key, []).append(value)

    def is_wanted(run: RunSummary) -> bool:
        return run.started_at >= since_s and all(
            _has(run, key, texts) for key, texts in values.items()
        )

    return is_wanted


def _has(run: RunSummary, key: str, texts: Sequence[str]) -> bool:
    """Return whether a run has one of the wanted values."""
    matches = _MATCHES.get(key, str.__eq__)
    return any(matches(value, text) for value, text in product(_TEXTS[key](run), texts))


@dataclass(frozen=True)
class ListedRun(RunSummary):
    """A run in the list for programs."""

    resume_hint: Annotated[str, Means("how to resume it; empty when it cannot be resumed")] = ""
