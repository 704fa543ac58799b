"""`vtax campaign`: one study on many hosts, by Ansible or by hand."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.campaign_change import command as change
from vtax.cli.campaign_change import notify_missing
from vtax.cli.campaign_report import command as report
from vtax.cli.completion import study_names
from vtax.cli.language import translate
from vtax.cli.output import (
    built_image,
    json_option,
    need_root,
    notify,
    print_json,
    print_table,
    say,
)
from vtax.cli.outputs import OutputDirectory
from vtax.cli.shared_options import trust_option, tune_host_option
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.host.home import Home
from vtax.study.limits import MAX_BLOCKS
from vtax.units import format_count, format_duration

if TYPE_CHECKING:
    from vtax.campaign.collecting import Loader
    from vtax.campaign.controller import Controller
    from vtax.campaign.directory import Campaign
    from vtax.campaign.host_record import CampaignHost
    from vtax.campaign.settings import Wanted

_DIRECTORY = click.argument(
    "directory", type=click.Path(path_type=Path), default=".", metavar="[DIR]"
)


@click.group("campaign")
def command() -> None:
    """Measure one study on many hosts, through Ansible, a scheduler or by hand."""


@command.command("new", short_help="Create the directory of a campaign.")
@click.argument("study", shell_complete=study_names)
@click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ansible inventory with the hosts; without one, hosts are started by hand.",
)
@click.option(
    "-o",
    "--output",
    type=OutputDirectory(),
    metavar="DIR",
    help="Directory to create. [NAME]",
)
@click.option(
    "--sessions", type=click.IntRange(1, 999), default=1, help="Sessions of each host. [1]"
)
@click.option(
    "--every", metavar="TIME", default="1d", help="Time between two sessions of a host. [1d]"
)
@click.option(
    "--scale",
    metavar="NAME",
    default="",
    help="Run a smaller form that STUDY declares, such as quick.",
)
@click.option("--blocks", type=click.IntRange(1, MAX_BLOCKS), help="Run exactly this many blocks.")
@click.option(
    "--window", metavar="HH:MM-HH:MM", default="", help="Launch only in this window of the day."
)
@trust_option
@tune_host_option
@click.option(
    "--reboot", is_flag=True, help="Consent to reboots of the hosts into each [[boot]] of STUDY."
)
def new(
    study: str, inventory: Path | None, output: Path | None, blocks: int | None, **options: Any
) -> None:
    """Create the directory of a campaign that measures STUDY, or the study of a pack that vtax pack
    wrote."""
    from vtax.campaign.directory import PACK, give_to_caller
    from vtax.campaign.inventory import read_inventory
    from vtax.campaign.making import campaign_name, fill, is_pack, new_directory, study_called
    from vtax.campaign.settings import HINT, Wanted
    from vtax.study.refusals import validated

    hosts = read_inventory(inventory) if inventory else []
    values = {
        "inventory": str(inventory.absolute()) if inventory else "",
        "blocks": blocks or 0,
        **options,
    }
    request = validated(Wanted, values, hint=HINT)
    source = Path(study)
    name = campaign_name(study_called(source))
    target = output or Path(name)
    with new_directory(target) as new_campaign:
        if is_pack(source):
            shutil.copyfile(source, new_campaign / PACK)
        else:
            _write_pack(study, request, new_campaign / PACK)
        fill(new_campaign, name, request)
        give_to_caller(new_campaign)
    if hosts:
        say(f"campaign {name} is made, hosts: {len(hosts)}; start it: vtax campaign run {target}")
    else:
        say(f"campaign {name} without an inventory: vtax campaign pack {target} -o DIR")


@command.command("go", short_help="Do whatever is missing on the hosts that answer and are free.")
@_DIRECTORY
@click.option("--retry", is_flag=True, help="Also try hosts that failed or were given up.")
def go(directory: Path, retry: bool) -> None:
    """Do whatever is missing on the hosts that answer and are free: check, collect bundles,
    prepare, launch.

    It returns while hosts measure. It is made for cron: another call resumes.
    """
    from vtax.campaign.controller import controller

    with controller(_open_campaign(directory), notify) as controls:
        controls.look()
        with _loader(controls.campaign) as loader:
            controls.collect(loader)
        if retry:
            controls.retry()
        why = controls.launch()
        controls.restore_boots()
        _print_counts(controls.hosts.values())
        unreachable = controls.unreachable()
        if unreachable:
            notify(f"these were launched and do not answer: {', '.join(unreachable)}")
        notify_missing(controls)
    if why:
        hint = "vtax campaign status names the reasons; once they are put right: vtax campaign go --retry"
        raise VtaxError(
            f"nothing more is launched: {why}", where=str(controls.campaign.root), hint=hint
        )


@command.command("run", short_help="Measure on all hosts, and print the result.")
@_DIRECTORY
@click.option("--retry", is_flag=True, help="Also try hosts that failed or were given up.")
@click.pass_context
def run(context: click.Context, directory: Path, retry: bool) -> None:
    """Do what go does until every host has ended, show how far each is, and print the report.

    It launches, follows and fetches as hosts finish; a host that is slow or does not answer delays
    no other. Ctrl-C ends only this command: hosts measure on, and another call resumes.
    """
    from vtax.campaign.controller import controller
    from vtax.campaign.following import Pace, follow
    from vtax.cli.campaign_hosts import HostLines

    pace = Pace()
    with controller(_open_campaign(directory), _ignore, rest_s=pace.rest_s) as controls:
        with _loader(controls.campaign) as loader, closing(HostLines(controls)) as lines:
            try:
                why = follow(controls, loader, pace, lines.show, retry=retry)
            except RunInterrupted as request:
                raise _interrupted(request, controls) from None
            finished_sessions = len(loader.noted())
        hosts = [*controls.hosts.values()]
        notify_missing(controls)
    if finished_sessions > 1:
        context.invoke(report, directory=directory)
    _print_counts(hosts)
    missing = [host.name for host in hosts if not host.skip and host.state != "collected"]
    if why or missing:
        what = f"nothing more is launched: {why}" if why else f"missing: {', '.join(missing)}"
        hint = "vtax campaign status names the reasons; once they are put right: vtax campaign run --retry"
        raise VtaxError(what, where=str(controls.campaign.root), hint=hint)


@command.command("status", short_help="Print the state of every host.")
@_DIRECTORY
@json_option
def status(directory: Path, as_json: bool) -> None:
    """Print what is known about every host: state, session, block, reason. It connects to no host."""
    campaign = _open_campaign(directory)
    hosts = campaign.hosts()
    if as_json:
        print_json(
            {
                "schema": "vtax.campaign-status/1",
                "name": campaign.settings.name,
                "is_aborted": campaign.is_aborted,
                "hosts": hosts,
            }
        )
        return
    columns = (
        "host",
        "state",
        "session",
        "block",
        "trials",
        "failed",
        "last answer",
        "on the host",
        "reason",
    )
    print_table(columns, [_row(host) for host in hosts])
    _print_counts(hosts)


@command.command("collect", short_help="Collect the bundles of hosts, and load each once.")
@_DIRECTORY
def collect(directory: Path) -> None:
    """Copy the bundles of sessions that ended into the directory, and load each into the store,
    once."""
    from vtax.campaign.controller import controller

    with controller(_open_campaign(directory), notify) as controls:
        controls.look()
        with _loader(controls.campaign) as loader:
            collected = controls.collect(loader)
        say(f"bundles loaded: {collected.loaded}")
        _print_counts(controls.hosts.values())
    if collected.refused:
        hint = "vtax campaign status names the reasons"
        raise VtaxError(
            f"bundles not loaded: {collected.refused}", where=str(controls.campaign.root), hint=hint
        )


@command.command("abort", short_help="Stop all runs, for good.")
@_DIRECTORY
def abort(directory: Path) -> None:
    """Stop the runs on the hosts that answer, launch nothing more, and load what was measured."""
    from vtax.campaign.controller import controller

    with controller(_open_campaign(directory), notify, aborts=True) as controls:
        controls.stop()
        with _loader(controls.campaign) as loader:
            controls.collect(loader)
        _print_counts(controls.hosts.values())
    running_hosts = sum(host.running is not None for host in controls.campaign.hosts())
    if running_hosts:
        hint = "vtax campaign abort again, once they answer and the inventory has them, without vtax_skip"
        raise VtaxError(
            f"{running_hosts} hosts may measure still", where=str(controls.campaign.root), hint=hint
        )


@command.command("clean", short_help="Remove what the campaign installed on hosts.")
@_DIRECTORY
def clean(directory: Path) -> None:
    """Remove the pack, its image, and consents to the study from every host that has ended.

    An image stays where another pack is installed. Runs and collected bundles stay everywhere.
    """
    from vtax.campaign.controller import controller

    with controller(_open_campaign(directory), notify) as controls:
        outcomes = controls.clean()
    print_table(
        ("host", "removed", "reason"),
        [(outcome.host, outcome.removed, outcome.error) for outcome in outcomes],
    )
    failed = [outcome.host for outcome in outcomes if outcome.error]
    if failed:
        raise VtaxError(f"not cleaned: {', '.join(failed)}", where=str(controls.campaign.root))


@command.command("pack", short_help="Write a directory from which any scheduler measures.")
@_DIRECTORY
@click.option(
    "-o",
    "--output",
    type=OutputDirectory(),
    required=True,
    metavar="DIR",
    help="Directory to create.",
)
def pack(directory: Path, output: Path) -> None:
    """Write a directory with the pack and run-here.sh, which measures on the host that it is started on."""
    from vtax.campaign.by_hand import SCRIPT, slurm_line, write_directory

    write_directory(_open_campaign(directory), output)
    say(f"on each host: sudo {output / SCRIPT}")
    click.echo(slurm_line(output))


@command.command("load", short_help="Load bundles that came back by hand.")
@_DIRECTORY
@click.argument("bundles", type=click.Path(path_type=Path))
def load(directory: Path, bundles: Path) -> None:
    """Load every bundle below BUNDLES into the store, once, for the campaign in DIR."""
    from vtax.campaign.by_hand import load_directory

    campaign = _open_campaign(directory)
    rows, loaded_count, refused_count = [], 0, 0
    try:
        with campaign.lock(), _loader(campaign) as loader:
            for bundle in load_directory(campaign, bundles, loader):
                rows.append((bundle.file, bundle.host, bundle.run, bundle.reason))
                loaded_count += bundle.is_new
                refused_count += bool(bundle.reason)
    finally:
        if rows:
            print_table(("bundle", "host", "run", "reason"), rows)
            say(f"bundles loaded: {loaded_count}")
    if refused_count:
        raise BadInput(f"bundles not loaded: {refused_count}", where=str(bundles))


@command.command("roles", short_help="Print SQL for roles of a PostgreSQL store.")
def roles() -> None:
    """Print SQL that creates the roles vtax_reader and vtax_writer of a PostgreSQL store, for psql.

    The owner of the tables runs it once they exist, and grants the roles to the users who log in.
    """
    from vtax.store.creating import role_statements

    for statement in role_statements():
        click.echo(statement)


def _open_campaign(directory: Path) -> Campaign:
    from vtax.campaign.making import open_campaign

    return open_campaign(directory)


def _write_pack(study: str, request: Wanted, target: Path) -> None:
    from vtax.campaign.making import check_study
    from vtax.campaign.pack import write_pack
    from vtax.campaign.wheelhouse import PYTHONS
    from vtax.cli.needed_image import recipe_for
    from vtax.host.lock import measuring_lock
    from vtax.study.load import load as load_study
    from vtax.study.load import load_smaller

    need_root("exporting an image")
    loaded_study = load_study(study)
    check_study(load_smaller(study, request.scale, request.blocks), request)
    image = built_image(Home.from_environment(), recipe_for(loaded_study), loaded_study.source)
    with measuring_lock("vtax campaign new"):
        write_pack(Path(loaded_study.source), image, target, PYTHONS, notify)


@contextmanager
def _loader(campaign: Campaign) -> Iterator[Loader]:
    from vtax.campaign.collecting import Loader
    from vtax.counters.host import machine_id
    from vtax.store.store import Store

    with Store.open(Home.from_environment().store_url) as store:
        yield Loader(campaign, store, machine_id())


def _ignore(line: str) -> None:
    """Print no line of a step: each host has its own."""


def _interrupted(request: RunInterrupted, controls: Controller) -> RunInterrupted:
    """Return a request to stop that says what goes on without this command."""
    running_hosts = sum(host.running is not None for host in controls.hosts.values())
    hint = f"vtax campaign run {controls.campaign.root} takes up again"
    if running_hosts:
        measuring = format_count(running_hosts, "host")
        hint = f"{measuring} measure on; {hint}, and vtax campaign abort stops them"
    return RunInterrupted(request.what, signal=request.signal, hint=hint)


def _print_counts(hosts: Any) -> None:
    counts = Counter(host.state for host in hosts)
    say(", ".join(f"{count} {translate(state)}" for state, count in counts.most_common()))


def _row(host: CampaignHost) -> tuple[str, ...]:
    """Return the cells of a host."""
    session = host.running or (host.sessions[-1] if host.sessions else None)
    reason, kept_text = str(host.reason), ", ".join(host.kept)
    at = "" if host.at is None else format_duration(max(0.0, time.time() - host.at))
    if session is None:
        return host.name, translate(host.state), "", "", "", "", at, kept_text, reason
    block = "/".join(
        str(position) for position in (session.block, session.blocks) if position is not None
    )
    number = str(session.number) if session.number else translate("canary")
    return (
        host.name,
        translate(host.state),
        number,
        block,
        str(session.done_trials),
        str(session.failed_trials),
        at,
        kept_text,
        reason,
    )


command.add_command(report)
command.add_command(change)
