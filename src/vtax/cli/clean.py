"""`vtax clean`: removes resources that a killed vtax process leaked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from vtax.cli.orphans import close_orphans
from vtax.cli.output import json_option, need_root, notify, print_json, say
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Cleaned, clean
from vtax.host.left import remove_left
from vtax.host.lock import measuring_lock
from vtax.host.trust import refuse_foreign

T = TypeVar("T")


@click.command("clean")
@click.option(
    "--forget",
    is_flag=True,
    help="Forget resources that cannot be removed, such as those on an unreachable machine.",
)
@json_option
def command(forget: bool, as_json: bool) -> None:
    """Remove what killed vtax processes left on this host: processes, containers, namespaces, mounts, cgroups and
    files of guests. Settings of the host are set back.

    Runs and guest images stay (vtax remove, vtax image remove), and so does what running processes use.

    A resource that cannot be removed does not keep others from being removed, and the exit status
    is 1. Files of guests that cannot be removed are moved to VTAX_HOME/left, tried again each time,
    and listed with the command that removes them.
    """
    from vtax.page.directory import remove_abandoned

    need_root("cleaning up")
    home = Home.existing()
    refuse_foreign(home.root)
    steps = _Steps()
    removed_paths, remaining = steps.value(lambda: remove_left(home.left)) or ((), ())
    outcome = steps.value(lambda: clean(home.journal, notify, forget=forget)) or Cleaned()
    killed_runs = steps.value(lambda: _killed_runs(home)) or []
    pages = steps.value(remove_abandoned) or []
    lines = [f"files {path}" for path in removed_paths]
    lines += outcome.removed
    lines += [f"results of a killed vtax serve in {path}" for path in pages]
    remaining = [*remaining, *outcome.left]
    stay, forgotten_problems = ((), outcome.problems) if forget else (outcome.problems, ())
    if as_json:
        print_json(
            {
                "removed": lines,
                "problems": stay,
                "left": remaining,
                "forgotten": forgotten_problems,
                "killed": killed_runs,
            }
        )
    else:
        for line in lines:
            say(f"removed {line}")
        for line in remaining:
            say(f"left {line}")
        for line in forgotten_problems:
            say(f"forgot {line}")
        for name in killed_runs:
            say(f"run {name} was killed; resume with: sudo vtax resume {name}")
        if not (lines or remaining or outcome.problems or killed_runs or steps.errors):
            say("no leaked resources")
    steps.raise_one()
    if stay:
        raise leaked_resources(stay)
    if remaining and not forget:
        raise VtaxError(
            "files of guests cannot be removed",
            where=str(home.left),
            hint="they disturb no run; remove them by the commands above, or fix the cause and run vtax clean",
        )


class _Steps:
    """The steps of `vtax clean`, one after the other, whatever became of those before."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def value(self, step: Callable[[], T]) -> T | None:
        """Return what a step returns; None where it fails, which is kept."""
        try:
            return step()
        except Exception as error:
            self.errors.append(error)
            return None

    def raise_one(self) -> None:
        """Raise one of the errors, if any, a bug of vtax before others; the others are said."""
        is_bug = [not isinstance(error, VtaxError | OSError) for error in self.errors]
        if self.errors:
            first = self.errors.pop(is_bug.index(True) if any(is_bug) else 0)
            for error in self.errors:
                notify(" ".join(str(error).split()))
            raise first


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
