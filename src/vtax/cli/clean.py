"""`vtax clean`: removes resources that a killed vtax process leaked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from vtax.cli.orphans import close_orphans
from vtax.cli.output import json_option, need_root, notify, print_json, say
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import clean
from vtax.host.lock import measuring_lock


@click.command("clean")
@click.option(
    "--forget",
    is_flag=True,
    help="Forget resources that cannot be removed, such as those on an unreachable machine.",
)
@json_option
def command(forget: bool, as_json: bool) -> None:
    """Remove leaked resources after a crash. Resources of running processes are not touched."""
    from vtax.page.directory import remove_abandoned

    need_root("cleaning up")
    home = Home.from_environment()
    cleaned = clean(home.journal, notify, forget=forget)
    stay, forgotten = ((), cleaned.problems) if forget else (cleaned.problems, ())
    killed = _killed_runs(home)
    pages = [f"results of a killed vtax serve in {path}" for path in remove_abandoned()]
    cleaned = replace(cleaned, removed=(*cleaned.removed, *pages))
    if as_json:
        print_json(
            {"removed": cleaned.removed, "problems": stay, "forgotten": forgotten, "killed": killed}
        )
    else:
        for line in cleaned.removed:
            say(f"removed {line}")
        for line in forgotten:
            say(f"forgot {line}")
        for name in killed:
            say(f"run {name} was killed; resume with: sudo vtax resume {name}")
        if not cleaned.removed and not cleaned.problems and not killed:
            say("no leaked resources")
    if stay:
        raise leaked_resources(stay)


def leaked_resources(problems: Sequence[str]) -> VtaxError:
    """Return the error for leaked resources that could not be removed."""
    return VtaxError(
        "leaked resources of a killed vtax process cannot be removed",
        where="\n         ".join(problems),
        hint="fix the cause and run sudo vtax clean; sudo vtax clean --forget forgets them",
    )


def _killed_runs(home: Home) -> list[str]:
    """Return names of killed runs; none while the measuring lock is held, since its holder may be the running one."""
    try:
        with measuring_lock("vtax clean"):
            return close_orphans(home)
    except BadInput:
        return []
