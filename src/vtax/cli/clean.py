"""`vtax clean`: undo what a killed vtax left."""

from __future__ import annotations

import click

from vtax.cli.orphans import close_orphans
from vtax.cli.output import as_typed, json_option, need_root, print_json
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import clean
from vtax.host.lock import measuring_lock


@click.command("clean")
@json_option
def command(as_json: bool) -> None:
    """Remove what a killed run left behind; runs that are alive are not touched."""
    need_root("cleaning up")
    home = Home.from_environment()
    cleaned = clean(home.journal)
    killed = _killed_runs(home)
    if as_json:
        print_json({"removed": cleaned.removed, "problems": cleaned.problems, "killed": killed})
    else:
        for line in cleaned.removed:
            click.echo(f"removed {line}")
        for name in killed:
            click.echo(as_typed(f"run {name} was killed; go on with: sudo vtax resume {name}"))
        if not cleaned.removed and not cleaned.problems and not killed:
            click.echo("nothing was left behind")
    if cleaned.problems:
        raise VtaxError("something could not be removed", where="\n         ".join(cleaned.problems))


def _killed_runs(home: Home) -> list[str]:
    """Names of the runs that were found killed; none while something measures, since that may be the one running."""
    try:
        with measuring_lock("vtax clean"):
            return close_orphans(home)
    except BadInput:
        return []
