"""`vtax reparse`: stored raw outputs read again by today's parsers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from vtax import __version__
from vtax.cli.completion import run_names
from vtax.cli.output import existing_store, json_option, notify, print_json, print_table, say
from vtax.errors import BadInput, placed
from vtax.foreign_text import one_line
from vtax.messages import Note
from vtax.runner.reparse import Change, Difference, Reparsed, reparse
from vtax.store.reparse import write
from vtax.study.load import LoadedStudy, load
from vtax.study.units import format_count, format_levels

_UNREAD_SHOWN = 10  # trials
_LONGEST = 60  # characters shown of a value


@click.command("reparse")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option(
    "--study",
    metavar="STUDY",
    type=click.Path(dir_okay=False),
    help="Read programs of one's own with the patterns of this study file.",
)
@click.option("--write", "is_writing", is_flag=True, help="Write the changed figures to the store.")
@json_option
def command(run_name: str, study: str | None, is_writing: bool, as_json: bool) -> None:
    """Read the stored outputs of RUN (default: the last one) again and print the figures that change."""
    store = existing_store()
    run = store.open_run(run_name)
    if run.status == "running":
        raise BadInput(f"{run.name} still runs", hint="wait for its end, or stop it with Ctrl-C")
    loaded = load(study) if study else None
    with placed(study or ""):
        result = reparse(store, run, loaded.study if loaded else None)
    is_writing = is_writing and bool(result.revisions)
    if is_writing:
        write(store.engine, run, result.revisions, _note(result, loaded))
    if as_json:
        print_json(_as_json(run.name, result, is_written=is_writing))
        return
    if result.changes:
        columns = ("trial", "block", "platform", "cell", "metric", "unit", "old", "new")
        print_table(columns, [_row(change) for change in result.changes])
    _print_unread(result)
    for why, count in Counter(why for _, why in result.kept).items():
        say(f"{format_count(count, 'trial')} left as stored: {why}")
    if result.differences:
        headings = ("trial", "block", "platform", "cell", "changed", "old", "new")
        print_table(headings, [_difference_row(each) for each in result.differences])
    figures = format_count(len(result.changes), "figure")
    more = f", {len(result.differences)} other differences" if result.differences else ""
    say(f"{run.name}: {format_count(result.read, 'trial')} read again, {figures} changed{more}")
    if is_writing:
        notify("written")
    elif result.revisions:
        notify("nothing was written; --write writes the new figures to the store")


def _print_unread(result: Reparsed) -> None:
    """Print why trials cannot be read any more, some of them, and each hint once."""
    errors = {change.position: change.error for change in result.changes if change.error}
    hints: dict[str, None] = {}
    for position, error in list(errors.items())[:_UNREAD_SHOWN]:
        what, _, hint = error.partition("\n  hint: ")
        say(f"trial {position} cannot be read any more: {what}")
        hints[hint] = None
    if len(errors) > _UNREAD_SHOWN:
        say(f"and {format_count(len(errors) - _UNREAD_SHOWN, 'more trial')}; --json lists all")
    for hint in filter(None, hints):
        say(f"  hint: {hint}")


def _note(result: Reparsed, loaded: LoadedStudy | None) -> Note:
    """What is kept with the run."""
    counts = {"figures": len(result.changes), "settings": len(result.differences), "trials": len(result.revisions)}
    if loaded is None:
        return Note("reparsed", version=__version__, **counts)
    return Note("reparsed-study", version=__version__, source=loaded.source, digest=loaded.digest, **counts)


def _row(change: Change) -> tuple[str, ...]:
    cell = " ".join(filter(None, (change.cell.label, format_levels(change.cell.levels))))
    old, new = ("none" if value is None else f"{value:.9g}" for value in (change.old, change.new))
    return (
        str(change.position),
        str(change.block + 1),
        change.cell.platform,
        cell,
        change.metric,
        change.unit,
        old,
        new,
    )


def _difference_row(each: Difference) -> tuple[str, ...]:
    cell = " ".join(filter(None, (each.cell.label, format_levels(each.cell.levels))))
    old, new = (_shown(value) for value in (each.old, each.new))
    changed = " ".join(filter(None, (each.what, each.name)))
    return (str(each.position), str(each.block + 1), each.cell.platform, cell, changed, old, new)


def _shown(value: Any) -> str:
    """A value on one line of bounded length; a dash for none."""
    return "-" if value is None else one_line(value if isinstance(value, str) else json.dumps(value), _LONGEST)


def _as_json(run: str, result: Reparsed, *, is_written: bool) -> dict[str, Any]:
    return {
        "schema": "vtax.reparse/1",
        "run": run,
        "trials": result.read,
        "written": is_written,
        "changes": [
            {
                "position": change.position,
                "block": change.block + 1,
                "platform": change.cell.platform,
                "label": change.cell.label,
                "levels": dict(change.cell.levels),
                "metric": change.metric,
                "unit": change.unit,
                "old": change.old,
                "new": change.new,
                "error": change.error,
            }
            for change in result.changes
        ],
        "differences": [
            {
                "position": each.position,
                "block": each.block + 1,
                "platform": each.cell.platform,
                "label": each.cell.label,
                "levels": dict(each.cell.levels),
                "what": each.what,
                "name": each.name,
                "old": each.old,
                "new": each.new,
            }
            for each in result.differences
        ],
        "kept": [{"position": position, "reason": why} for position, why in result.kept],
    }
