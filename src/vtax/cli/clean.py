"""`vtax clean`: undo what a killed vtax left."""

from __future__ import annotations

from collections.abc import Sequence

import click

from vtax.cli.orphans import close_orphans
from vtax.cli.output import as_typed, json_option, need_root, notify, print_json
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import clean
from vtax.host.lock import measuring_lock


@click.command("clean")
@click.option("--forget", is_flag=True, help="Give up what cannot be removed, such as on a machine that is gone.")
@json_option
def command(forget: bool, as_json: bool) -> None:
    """Remove what a killed run left behind; runs that are alive are not touched."""
    need_root("cleaning up")
    home = Home.from_environment()
    cleaned = clean(home.journal, notify, forget=forget)
    stay, given_up = ((), cleaned.problems) if forget else (cleaned.problems, ())
    killed = _killed_runs(home)
    if as_json:
        print_json({"removed": cleaned.removed, "problems": stay, "given_up": given_up, "killed": killed})
    else:
        for line in cleaned.removed:
            click.echo(f"removed {line}")
        for line in given_up:
            click.echo(f"gave up {line}")
        for name in killed:
            click.echo(as_typed(f"run {name} was killed; go on with: sudo vtax resume {name}"))
        if not cleaned.removed and not cleaned.problems and not killed:
            click.echo("nothing was left behind")
    if stay:
        raise leaked_resources(stay)


def leaked_resources(problems: Sequence[str]) -> VtaxError:
    """What to raise when these could not be removed."""
    return VtaxError(
        "what a killed vtax left behind cannot be removed",
        where="\n         ".join(problems),
        hint="sudo vtax clean, when that is mended; sudo vtax clean --forget gives it up",
    )


def _killed_runs(home: Home) -> list[str]:
    """Names of the runs that were found killed; none while something measures, since that may be the one running."""
    try:
        with measuring_lock("vtax clean"):
            return close_orphans(home)
    except BadInput:
        return []
