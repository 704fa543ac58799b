"""`vtax import`: adds the runs of bundles to the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.output import json_option, print_json, say
from vtax.described import values_of
from vtax.host.home import Home
from vtax.units import format_count

if TYPE_CHECKING:
    from vtax.store.importing import Imported

_SCHEMA = "vtax.import/1"


@click.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@json_option
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """Add the run in each FILE, which vtax export wrote, to the store.

    Importing the same run again changes nothing. A run whose name is already used gets another
    name. The first FILE that cannot be imported ends the command.
    """
    from vtax.cli.row_progress import row_progress
    from vtax.counters.host import machine_id
    from vtax.store.bundle import Bundle
    from vtax.store.importing import import_bundle
    from vtax.store.store import Store

    runs = []
    bundles = [Bundle(file) for file in files]
    with Store.open(Home.from_environment().store_url) as store:
        for file, bundle in zip(files, bundles, strict=True):
            progress = row_progress(f"importing {file.name}")
            run = import_bundle(store.engine, bundle, machine_id(), progress)
            runs.append(run)
            if not as_json:
                _say(run)
    if as_json and len(runs) == 1:
        print_json({"schema": _SCHEMA, **values_of(runs[0])})
    elif as_json:
        print_json({"schema": _SCHEMA, "runs": [values_of(run) for run in runs]})


def _say(run: Imported) -> None:
    """Print what became of one bundle."""
    if not run.is_new:
        say(f"{run.name} is this run already; nothing was imported")
        return
    host = "another host" if run.is_other_host else "this host"
    trials = format_count(run.trials, "trial")
    say(f"{run.name} was imported: study {run.study}, {trials}, of {host}")
    if run.was_called != run.name:
        say(f"the bundle calls it {run.was_called}")
    say(f"see it with: vtax show {run.name}")
