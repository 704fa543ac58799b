"""`vtax list`: the runs in the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

import click

from vtax.cli.output import as_typed, how_to_resume, json_option, print_json, print_table
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
    except BadInput:  # no run has ever made a store
        runs = []
    how = {run.name: text for run in runs if (text := how_to_resume(store, run.name, run.status))}
    if as_json:
        print_json([{**asdict(run), "how_to_resume": how.get(run.name, "")} for run in runs])
        return
    if not runs:
        click.echo(as_typed("no runs yet; begin with: sudo vtax run tour"))
        return
    columns: dict[str, Callable[[RunSummary], str]] = {
        "run": lambda run: run.name,
        "study": lambda run: run.study,
        "status": lambda run: run.status,
        "trials": lambda run: str(run.trials),
        "failed": lambda run: str(run.failed),
        "started": lambda run: time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at)),
        "took": lambda run: format_duration(run.duration_s) if run.duration_s is not None else "",
    }
    if all(run.name.startswith(f"{run.study}-") for run in runs):
        del columns["study"]
    print_table(list(columns), [[text_of(run) for text_of in columns.values()] for run in runs])
    for run in runs:
        if run.name in how:
            because = (run.stopped_because or run.status).splitlines()[0]
            click.echo(f"{run.name} was not finished: {because}; {how[run.name]}")
