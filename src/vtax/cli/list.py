"""`vtax list`: the runs in the store."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from vtax.cli.output import as_typed, json_option, print_json, print_table
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.store.store import KILLED, Store
from vtax.study.units import format_duration


@click.command("list")
@json_option
def command(as_json: bool) -> None:
    """List the runs in the store, newest last."""
    try:
        runs = Store.existing(Home.from_environment().store_url).runs()
    except BadInput:  # no run has ever made a store
        runs = []
    if as_json:
        print_json([asdict(run) for run in runs])
        return
    if not runs:
        click.echo(as_typed("no runs yet; begin with: sudo vtax run tour"))
        return
    print_table(
        ("run", "study", "status", "trials", "failed", "started", "took"),
        [
            (
                run.name,
                run.study,
                "killed" if run.stopped_because == KILLED else run.status,
                str(run.trials),
                str(run.failed),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at)),
                format_duration(run.took_s) if run.took_s is not None else "",
            )
            for run in runs
        ],
    )
    for run in runs:
        if run.stopped_because == KILLED:
            click.echo(as_typed(f"{run.name} was killed; go on with: sudo vtax resume {run.name}"))
