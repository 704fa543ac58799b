"""`vtax import`: adds the run of a bundle to the store."""

from __future__ import annotations

from pathlib import Path

import click

from vtax.cli.output import in_language, json_option, print_json, with_program_path
from vtax.described import values_of
from vtax.host.home import Home
from vtax.report.document.text import msg, plural


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def command(file: Path, as_json: bool) -> None:
    """Add the run in FILE, which vtax export wrote, to the store.

    Importing the same run twice makes no second one. A run whose name is taken gets another one.
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
        click.echo(
            in_language(msg("{run} is this run already; nothing was imported", run=found.name))
        )
        return
    facts = {"run": found.name, "study": found.study}
    if found.is_other_host:
        text = plural(
            "{run} was imported: study {study}, {count} trial, of another host",
            "{run} was imported: study {study}, {count} trials, of another host",
            found.trials,
            **facts,
        )
    else:
        text = plural(
            "{run} was imported: study {study}, {count} trial, of this host",
            "{run} was imported: study {study}, {count} trials, of this host",
            found.trials,
            **facts,
        )
    click.echo(in_language(text))
    if found.was_called != found.name:
        click.echo(in_language(msg("the bundle calls it {name}", name=found.was_called)))
    click.echo(with_program_path(in_language(msg("see it with: vtax show {run}", run=found.name))))
