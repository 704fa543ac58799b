"""`vtax list`: lists the runs in the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from vtax.cli.output import json_option, print_json, print_table, resume_hint, with_program_path
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.store.records import RunSummary
from vtax.store.store import Store
from vtax.study.units import format_duration


@click.command("list")
@json_option
def command(as_json: bool) -> None:
    """List the runs in the store, newest last."""
    try:
        store = Store.existing(Home.from_environment().store_url)
        runs = store.runs()
    except BadInput:  # there is no store yet
        runs = []
    how = {run.name: text for run in runs if (text := resume_hint(store, run.name, run.status))}
    if as_json:
        print_json([_plain(run, how.get(run.name, "")) for run in runs])
        return
    if not runs:
        click.echo(with_program_path("no runs yet; start one with: sudo vtax run tour"))
        return
    columns: dict[str, Callable[[RunSummary], str]] = {
        "run": lambda run: run.name,
        "study": lambda run: run.study,
        "status": lambda run: run.status,
        "trials": lambda run: str(run.trials),
        "failed": lambda run: str(run.failed),
        "started": lambda run: time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at)),
        "duration": lambda run: format_duration(run.duration_s) if run.duration_s is not None else "",
    }
    if any(run.sessions > 1 for run in runs):
        columns["sessions"] = lambda run: str(run.sessions)
    if any(run.origin for run in runs):
        columns["origin"] = lambda run: run.origin
    if all(run.name.startswith(f"{run.study}-") for run in runs):
        del columns["study"]
    print_table(list(columns), [[text_of(run) for text_of in columns.values()] for run in runs])
    for run in runs:
        if run.name in how:
            because = (run.stopped_because or run.status).splitlines()[0]
            click.echo(f"{run.name} was not finished: {because}; {how[run.name]}")


def _plain(run: RunSummary, how: str) -> dict[str, Any]:
    """A run for programs: its times as ISO 8601, and for one release more as Unix times."""
    from vtax.report.views.plain import moment

    times = {"started": moment(run.started_at), "ended": moment(run.ended_at)}
    return {**asdict(run), **times, "resume_hint": how}
