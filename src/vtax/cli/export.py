"""`vtax export`: writes a run as a bundle."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path

import click

from vtax.cli.completion import run_names
from vtax.cli.output import json_option, notify, print_json, print_table
from vtax.host.home import Home

SUFFIX = ".vtax.gz"


@click.command("export")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help=f"Write to this file; default: RUN{SUFFIX}."
)  # fmt: skip
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace host names, addresses, serial numbers, machine ids, user names and paths of home.",
)
@json_option
def command(run_name: str, output: Path | None, anonymize: bool, as_json: bool) -> None:
    """Write RUN (default: the last run) with its raw outputs to one file, which vtax import reads.

    The file is compressed lines of JSON: zcat RUN.vtax.gz shows it. Its last line is the SHA-256 of the others.
    """
    from vtax.cli.row_progress import row_progress
    from vtax.report.replacing import replacing
    from vtax.store.exporting import export_run
    from vtax.store.store import Store

    store = Store.existing(Home.from_environment().store_url)
    run = store.open_run(run_name)
    path = output or Path(f"{run.name}{SUFFIX}")
    users = filter(None, (os.environ.get(name) for name in ("SUDO_USER", "USER", "LOGNAME")))
    with replacing(path) as new:
        made = export_run(
            store.engine,
            run,
            new,
            anonymize=anonymize,
            host_names=[platform.node()] if anonymize else (),
            users=users,
            watch=row_progress(f"exporting {run.name}"),
        )
        size = new.stat().st_size
    if as_json:
        print_json(
            {
                "schema": "vtax.export/1", "run": run.name, "file": str(path.resolve()), "bytes": size,
                "sha256": made.sha256, "anonymized": anonymize,
                "replaced": [asdict(each) for each in made.replaced] if anonymize else None,
            }
        )  # fmt: skip
        return
    click.echo(path.resolve())
    if anonymize:
        if made.replaced:
            rows = [(each.kind, str(each.values), str(each.times)) for each in made.replaced]
            print_table(("replaced", "values", "times"), rows)
        else:
            notify("nothing was replaced")
        notify(
            "names without a place or form of their own stay, such as in titles; read the file before publishing it"
        )
