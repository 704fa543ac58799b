"""`vtax host`: what a controller of many hosts asks one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from vtax.campaign import detached, host_runs
from vtax.campaign.host_removal import remove_pack
from vtax.campaign.host_runs import HostRun, Request, RequestedRun
from vtax.campaign.next_boot import no_next_boot, set_next_boot
from vtax.campaign.prepare import Refused
from vtax.campaign.prepare import prepare as prepare_host
from vtax.cli.completion import study_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, need_root, print_json, print_table, say
from vtax.cli.shared_options import trust_option, tune_host_option
from vtax.described import values_of
from vtax.doctor.readiness import readiness
from vtax.errors import BadInput, Busy, VtaxError
from vtax.host.home import Home
from vtax.study.limits import INTEGERS, MAX_BLOCKS
from vtax.study.load import load_smaller
from vtax.units import about_size

_ERRORS = {error.exit_status: error for error in (VtaxError, BadInput, Busy)}
_ENDED_WELL = ("done", "paused")


@click.group("host")
def command() -> None:
    """Prepare this host and measure on it, for a controller of many hosts."""


@command.command("check", short_help="Check whether this host can measure now.")
@json_option
def check(as_json: bool) -> None:
    """Check whether this host can measure now: its identity, space, lock, images, resident agents, disturbances.

    It changes nothing and starts no guest. Without root, the identity is only that of the
    machine-id.
    """
    host_state = readiness(Home.from_environment())
    if as_json:
        print_json({"schema": "vtax.host-check/1", **values_of(host_state)})
        return
    rows = [
        (translate("identity of the host"), host_state.identity),
        (translate("version of vtax"), host_state.vtax_version),
        (translate("free space"), f"{about_size(host_state.free_bytes)} in {host_state.home}"),
        (translate("run that measures"), host_state.measures),
        (
            translate("images that are here"),
            ", ".join(f"{image.key} {image.digest[:12]}" for image in host_state.images),
        ),
        (translate("resident agents"), ", ".join(agent.name for agent in host_state.agents)),
        (translate("what disturbs"), ", ".join(host_state.disturbances)),
    ]
    print_table(("check", "observed"), rows)
    if host_state.is_ready:
        say("this host can measure now")
    else:
        obstacles = [
            f"{obstacle.code} {obstacle.detail}".strip() for obstacle in host_state.obstacles
        ]
        say(f"this host cannot measure now: {', '.join(obstacles)}")


@command.command("prepare", short_help="Prepare this host from a pack.")
@click.argument("pack", type=click.Path(path_type=Path))
@click.option("--digest", default="", metavar="SHA256", help="Refuse a pack with another digest.")
@json_option
def prepare(pack: Path, digest: str, as_json: bool) -> None:
    """Install vtax, the study and the image of PACK, which vtax pack wrote, into VTAX_HOME, without a network.

    Whatever exists already stays unchanged. Programs of a pack run as root: compare its digest. To
    prepare a host without vtax, run: sudo python3 PACK
    """
    need_root("preparing a host")
    try:
        prepared = prepare_host(pack, Home.from_environment().ensure().root, digest)
    except Refused as error:
        raise _ERRORS[error.status](error.what, where=str(pack), hint=error.hint) from error
    if as_json:
        print_json({"schema": "vtax.host-prepare/1", **values_of(prepared)})
    elif prepared.is_new:
        say(f"this host is prepared: {prepared.vtax} host run ID {prepared.study}")
    else:
        say(f"this host was prepared already: {prepared.vtax} host run ID {prepared.study}")


@command.command("run", short_help="Measure a study in the background.")
@click.argument("id_", metavar="ID")
@click.argument("study", shell_complete=study_names)
@click.option(
    "--scale",
    metavar="NAME",
    default="",
    help="Run a smaller form that STUDY declares, such as quick.",
)
@click.option("--blocks", type=click.IntRange(1, MAX_BLOCKS), help="Run exactly this many blocks.")
@click.option(
    "--seed",
    type=click.IntRange(INTEGERS[0], INTEGERS[-1]),
    help="Set the seed of the random order (recorded in any case).",
)
@click.option(
    "--next-session", is_flag=True, help="Start the next session of a run that is paused."
)
@click.option("--foreground", is_flag=True, help="Measure in this process, and return at the end.")
@trust_option
@tune_host_option
@json_option
def run(
    id_: str,
    study: str,
    scale: str,
    blocks: int | None,
    seed: int | None,
    next_session: bool,
    foreground: bool,
    trust: bool,
    tune_host: bool,
    as_json: bool,
) -> None:
    """Measure STUDY in the background, even after a logout, and write its bundle.

    One ID measures once: another request prints the state, and resumes a run that was interrupted.
    """
    need_root("measuring")
    home = Home.from_environment().ensure()
    loaded_study = load_smaller(study, scale, blocks or 0)
    source = str(Path(loaded_study.source).absolute())
    request = Request(
        source,
        loaded_study.digest,
        scale,
        blocks or 0,
        seed,
        trust,
        tune_host,
        next_session,
        bool(loaded_study.study.boot),
    )
    host_run = detached.start(RequestedRun.of(home, id_), request, in_foreground=foreground)
    if as_json:
        print_json({"schema": "vtax.host-run/1", **values_of(host_run)})
    else:
        _print_runs([host_run])
    if foreground and host_run.state not in _ENDED_WELL:
        error = Busy if host_run.state == "busy" else VtaxError
        raise error(f"{host_run.id} is not done: {host_run.state}", hint=host_run.reason)


@command.command("status", short_help="Print the state of runs in the background.")
@click.argument("id_", metavar="[ID]", required=False)
@json_option
def status(id_: str | None, as_json: bool) -> None:
    """Print the state of the run ID, or of all that vtax host run started: block, trials, reason, bundle.

    An ID that was never requested is an error; with --json, the answer for controllers, its state is absent.
    """
    home = Home.from_environment() if as_json else Home.existing()
    if id_ and not as_json:
        RequestedRun.of(home, id_).request()
    ids = [id_] if id_ else host_runs.ids(home)
    runs = [host_runs.state_of(RequestedRun.of(home, run_id)) for run_id in ids]
    if as_json:
        print_json({"schema": "vtax.host-status/1", "runs": runs})
    else:
        _print_runs(runs)


@command.command("boot", short_help="Set the boot entry that a run needs next.")
@click.argument("id_", metavar="[ID]", required=False)
@json_option
def boot(id_: str | None, as_json: bool) -> None:
    """Set the boot entry that the run ID needs, for only the next boot of this host, without
    rebooting.

    Nothing is set if the current boot of the host will do, or without an ID. Refused while a run
    measures (75).
    """
    need_root("setting the next boot")
    home = Home.existing()
    outcome = set_next_boot(RequestedRun.of(home, id_)) if id_ else no_next_boot()
    if as_json:
        print_json({"schema": "vtax.host-boot/1", **values_of(outcome)})
    elif outcome.next_boot:
        say(f"the next boot is {outcome.next_boot}: {outcome.entry}")
    elif not id_:
        say("no entry is set for the next boot")
    else:
        say(f"this boot of the host will do: {outcome.boot}")


@command.command("stop", short_help="Stop a run in the background.")
@click.argument("id_", metavar="ID")
@json_option
def stop(id_: str, as_json: bool) -> None:
    """Stop the run ID cleanly: its measurements are kept, and its bundle is written; vtax host run
    resumes it."""
    need_root("stopping a run")
    host_run = detached.stop(RequestedRun.of(Home.existing(), id_))
    if as_json:
        print_json({"schema": "vtax.host-run/1", **values_of(host_run)})
    else:
        _print_runs([host_run])


@command.command("remove", short_help="Remove a pack, its image, and consents.")
@click.argument("pack")
@click.argument("image")
@json_option
def remove(pack: str, image: str, as_json: bool) -> None:
    """Remove PACK (12 digits of its digest), consents to its study, and the image with the key IMAGE.

    The image stays while another pack is installed. Runs stay, too. Refused while a run measures
    (75).
    """
    need_root("removing a pack")
    removal = remove_pack(Home.existing(), pack, image)
    if as_json:
        print_json({"schema": "vtax.host-remove/1", **values_of(removal)})
        return
    for what in removal.removed:
        say(f"removed {what}")
    say(f"freed: {about_size(removal.freed_bytes)}")


@command.command("work", hidden=True)
@click.argument("id_", metavar="ID")
def work(id_: str) -> None:
    """Carry out what vtax host run requested, in the process that it started."""
    detached.carry_out(RequestedRun.of(Home.existing(), id_))


def _print_runs(runs: Sequence[HostRun]) -> None:
    columns = ("id", "state", "run", "block", "trials", "failed", "reason", "bundle")
    rows = []
    for run in runs:
        row = (
            run.id,
            translate(run.state),
            run.run,
            _position(run),
            str(run.done_trials),
            str(run.failed_trials),
            run.reason,
            run.bundle,
        )
        rows.append(row)
    print_table(columns, rows)


def _position(run: HostRun) -> str:
    if run.block is None:
        return ""
    return str(run.block) if run.blocks is None else f"{run.block}/{run.blocks}"
