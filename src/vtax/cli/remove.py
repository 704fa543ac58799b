"""`vtax remove`: deletes runs from the store."""

from __future__ import annotations

import os

import click

from vtax.cli.completion import run_names
from vtax.cli.language import translate
from vtax.cli.output import confirmed, existing_store, notify, print_table
from vtax.errors import BadInput, VtaxError
from vtax.store.database import sqlite_file
from vtax.store.store import Store


@click.command("remove")
@click.argument("run_names", metavar="RUN...", nargs=-1, required=True, shell_complete=run_names)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def command(run_names: tuple[str, ...], yes: bool) -> None:
    """Delete each RUN from the store: its plan, trials, outputs, notes and tags.

    Files that vtax report, figures and export wrote are kept, and so are guest images (vtax image remove) and what a
    crash left on the host (vtax clean).
    """
    store = existing_store()
    names = {store.run_name(name) for name in run_names}
    runs = [run for run in store.runs() if run.name in names]
    running_names = [run.name for run in runs if run.status == "running"]
    if running_names:
        raise BadInput(
            f"{', '.join(running_names)} is still running",
            hint="stop it with Ctrl-C; if it was killed, wait until no other run measures on this host",
        )
    _refuse_unless_writable(store)
    rows = []
    for run in runs:
        origin = run.origin or translate("measured here")
        rows.append((run.name, run.study, run.status, str(run.trials), origin))
    print_table(("run", "study", "status", "trials", "origin"), rows)
    what = "this run" if len(runs) == 1 else f"these {len(runs)} runs"
    no_answer = BadInput(
        f"no answer whether to delete {what}; nothing was removed",
        hint="vtax remove --yes skips the confirmation",
    )
    if not yes and not confirmed(f"delete {what}", no_answer):
        raise VtaxError("nothing was removed")
    store.remove_runs(*(run.name for run in runs))
    for run in runs:
        notify(f"{run.name} removed")


def _refuse_unless_writable(store: Store) -> None:
    """Raise BadInput before the confirmation when the store is read-only."""
    file = sqlite_file(store.engine.url)
    if file is not None and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        raise BadInput(
            "removing runs needs a writable store", where=str(file), hint="run it again with sudo"
        )
