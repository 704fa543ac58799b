"""`vtax import`: adds the run of a bundle to the store."""

from __future__ import annotations

from pathlib import Path

import click

from vtax.cli.output import json_option, print_json, say
from vtax.described import values_of
from vtax.host.home import Home
from vtax.units import format_count


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def command(file: Path, as_json: bool) -> None:
    """Add the run in FILE, which vtax export wrote, to the store.

    Importing the same run again changes nothing. A run whose name is already used gets another
    name.
    """
    from vtax.cli.row_progress import row_progress
    from vtax.counters.host import machine_id
    from vtax.store.bundle import Bundle
    from vtax.store.importing import import_bundle
    from vtax.store.store import Store

    bundle = Bundle(file)
    with Store.open(Home.from_environment().store_url) as store:
        found = import_bundle(
            store.engine, bundle, machine_id(), row_progress(f"importing {file.name}")
        )
    if as_json:
        print_json({"schema": "vtax.import/1", **values_of(found)})
        return
    if not found.is_new:
        say(f"{found.name} is this run already; nothing was imported")
        return
    host = "another host" if found.is_other_host else "this host"
    trials = format_count(found.trials, "trial")
    say(f"{found.name} was imported: study {found.study}, {trials}, of {host}")
    if found.was_called != found.name:
        say(f"the bundle calls it {found.was_called}")
    say(f"see it with: vtax show {found.name}")
