"""`vtax campaign change`: draws the hosts that change first, and writes down when they have."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.output import notify, say
from vtax.errors import BadInput
from vtax.study.limits import INTEGERS
from vtax.units import format_count

if TYPE_CHECKING:
    from vtax.campaign.controller import Controller


@click.command(
    "change", short_help="Choose the hosts that change first, such as to another kernel."
)
@click.argument("directory", type=click.Path(path_type=Path), default=".", metavar="[DIR]")
@click.option(
    "--what",
    metavar="WORDS",
    default="",
    help="Plan a change of this: kernel, hypervisor, microcode.",
)
@click.option(
    "--hosts",
    metavar="HOST,...",
    default="",
    help="Name the hosts that change first, instead of a random choice.",
)
@click.option(
    "--seed",
    type=click.IntRange(INTEGERS[0], INTEGERS[-1]),
    help="Use this seed for the random choice.",
)
@click.option("--now", "is_done", is_flag=True, help="Record that the first hosts have changed.")
@click.option(
    "--rest", "is_rest", is_flag=True, help="Record that the other hosts have changed too."
)
def command(
    directory: Path, what: str, hosts: str, seed: int | None, is_done: bool, is_rest: bool
) -> None:
    """Plan a change of hosts: a random half changes first, the others are its controls.

    It prints the hosts to change, one per line, for ansible-playbook --limit @FILE, and changes
    nothing on them. Sessions before --now count as before the change, later ones as after it.
    """
    from vtax.campaign.change import change_of, plan_change, record_change
    from vtax.campaign.directory import FILE, Campaign

    if sum(map(bool, (what, is_done, is_rest))) > 1:
        raise BadInput(
            "--what, --now and --rest exclude each other",
            hint="plan, change the hosts, then write it down",
        )
    if not what and (hosts or seed is not None):
        raise BadInput("a plan names what changes", where="--what", hint="such as --what kernel")
    with Campaign.locked(directory) as campaign:
        if what:
            names = [name for name in map(str.strip, hosts.split(",")) if name]
            change = plan_change(campaign, what, names, seed)
            how_chosen = f"drawn by seed {change.seed}" if change.seed is not None else "named"
            notify(
                f"hosts that change first, {how_chosen}: {len(change.first)}; once they have: vtax campaign change --now"
            )
        elif is_done or is_rest:
            moment = datetime.now().astimezone().replace(microsecond=0)
            record_change(campaign, moment, rest=is_rest)
            text = (
                "the first hosts have changed; sessions that begin from now on are after the change"
            )
            if is_rest:
                text = (
                    "the other hosts have changed too; sessions that begin from now on do not count"
                )
            say(f"{FILE}: {text}")
            return
        else:
            planned_change = change_of(campaign)
            if planned_change is None:
                raise BadInput(
                    "the campaign plans no change",
                    hint="vtax campaign change --what kernel plans one",
                )
            change = planned_change
    for name in change.first:
        say(name)


def notify_missing(controls: Controller) -> None:
    """Say what the change that a campaign plans lacks, if it plans one. Raises BadInput for a wrong table."""
    from vtax.campaign.change import change_of, missing_sessions

    change = change_of(controls.campaign)
    if change is None:
        return
    hosts = [host for host in controls.hosts.values() if not host.skip]
    missing = missing_sessions(change, hosts, controls.settings)
    what, missing_count = change.what, len(missing.hosts)
    waiting_text = f"the change of {what} waits: {missing_count} of {format_count(len(hosts), 'host')} without a session"
    if missing_count and change.when is None:
        notify(f"{waiting_text} before it")
    elif change.when is None:
        notify(
            f"the change of {what} is due: vtax campaign change lists its hosts; once they have: change --now"
        )
    elif missing_count:
        notify(f"{waiting_text} after it")
    else:
        notify(f"the change of {what} has sessions before and after it: vtax campaign report")
    if missing.spent and not (missing_count and change.when is None):
        spent_hosts = format_count(len(missing.spent), "host")
        notify(f"{spent_hosts} without a session left: raise `sessions` in campaign.toml")
