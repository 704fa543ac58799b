"""`vtax clean`: undo what a killed vtax left."""

from __future__ import annotations

import click

from vtax.cli.output import json_option, need_root, print_json
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import clean


@click.command("clean")
@json_option
def command(as_json: bool) -> None:
    """Remove what a killed run left behind; runs that are alive are not touched."""
    need_root("cleaning up")
    cleaned = clean(Home.from_environment().journal)
    if as_json:
        print_json({"removed": cleaned.removed, "problems": cleaned.problems})
    else:
        for line in cleaned.removed:
            click.echo(f"removed {line}")
        if not cleaned.removed and not cleaned.problems:
            click.echo("nothing was left behind")
    if cleaned.problems:
        raise VtaxError("something could not be removed", where="\n         ".join(cleaned.problems))
