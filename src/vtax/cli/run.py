"""`vtax run`: runs a study and prints its result."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from vtax import __version__
from vtax.cli.arguments import listed
from vtax.cli.claims_ahead import claims_ahead
from vtax.cli.completion import (
    platform_names,
    protocols_of_study,
    scales_of_study,
    study_names,
    tags_of_runs,
)
from vtax.cli.gate import (
    ConditionCommand,
    conditions_of,
    detect_option,
    judge,
    junit_option,
    margins_of,
    strict_option,
)
from vtax.cli.host_boots import measure_boot
from vtax.cli.ladder import ladder_of, orders_of
from vtax.cli.measure import (
    budget_s,
    conclude,
    measure,
    next_session,
    prepare_host,
    result_of_stopped,
    seconds_of,
    wait_option,
    wait_s,
)
from vtax.cli.measure import wait as wait_between
from vtax.cli.needed_image import examine as examine_image
from vtax.cli.needed_image import provide, recipe_for
from vtax.cli.output import built_image, need_root, notify, print_json, say
from vtax.cli.overrides import blaming_options, changes_of
from vtax.cli.own_image import load_option, port_option, serve_option, study_of
from vtax.cli.plan import announce, confirm, phrase_of_budget, rounded_up, yes_option
from vtax.cli.plan import as_json as plan_as_json
from vtax.cli.run_options import RunOptions
from vtax.cli.shared_options import trust_option, tune_host_option
from vtax.cli.trust import consented
from vtax.cli.two_sides import two_sides
from vtax.errors import BadInput, placed
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.host.trust import refuse_foreign
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.probing import unprobed
from vtax.report.answers.reproduce.compute import study_toml
from vtax.report.views import registry as views
from vtax.runner import boots
from vtax.runner.begin import begin
from vtax.runner.check import further_problems
from vtax.runner.estimates import with_costs
from vtax.runner.machines import held_machines
from vtax.runner.plan import Plan, host_programs, in_rounds_that_pay, make_plan
from vtax.stats.terms import Conditions
from vtax.store.annotations import checked_tags
from vtax.store.store import Store
from vtax.study.ladder import ChosenLadder, ChosenOrders
from vtax.study.limits import INTEGERS, MAX_BLOCKS, MAX_SESSIONS
from vtax.study.load import Chosen, LoadedStudy, examine, find, load, refused
from vtax.study.model import Study
from vtax.study.two_sides import TwoSides
from vtax.units import format_duration


def _tags(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the tags of --tag. Raises BadInput."""
    with placed("--tag"):
        return checked_tags(listed(context, parameter, values))


@click.command("run", cls=ConditionCommand)
@click.argument("study", required=False, shell_complete=study_names)
@click.option(
    "--platforms",
    "-p",
    "platforms",
    multiple=True,
    callback=listed,
    metavar="A,B,...",
    shell_complete=platform_names,
    help="Run only these platforms: those of STUDY, or shipped ones; the baseline must be one of them.",
)
@click.option(
    "--ab",
    metavar="OLD,NEW",
    help="Compare two platforms of one driver, such as podman,podman-userns or P:OPTION=OLD,P:OPTION=NEW, instead of "
    "those of STUDY; with --check, as a gate.",
)
@click.option(
    "--scale",
    metavar="NAME",
    default="",
    shell_complete=scales_of_study,
    help="Run a smaller form that STUDY declares: quick, short or tiny of shipped ones (see vtax studies STUDY).",
)
@click.option(
    "--protocol",
    metavar="NAME",
    default="",
    shell_complete=protocols_of_study,
    help="Use an order and repetition that STUDY declares, such as those of its paper.",
)
@click.option("--vcpus", type=click.IntRange(1), help="Give every guest this many virtual CPUs.")
@click.option(
    "--memory", metavar="SIZE", help="Limit the memory of every guest to this, e.g. 2GiB."
)
@click.option(
    "--image", metavar="NAME", help="Start guests from an image of your own; see vtax image add."
)
@load_option
@serve_option
@port_option
@click.option(
    "--disk", metavar="SIZE", help="Give every virtual machine a disk of this size, e.g. 6GiB."
)
@click.option(
    "--scratch",
    multiple=True,
    callback=listed,
    metavar="PLACE,...",
    help="Let /scratch lie in a volume, a layer or memory; several are levels of a factor (repeatable).",
)
@click.option(
    "--link",
    multiple=True,
    callback=listed,
    metavar="KEY=VALUE,...",
    help="Set this on every link, e.g. delay_us=50 (repeatable).",
)
@click.option(
    "--boot",
    multiple=True,
    metavar="NAME=ENTRY[:P,...]",
    help="Measure platforms P, or those that the study names for this boot, in the boot ENTRY of this host, as a "
    "[[boot]] table does (repeatable).",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Run exactly this many blocks, or fewer if --budget ends first.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, MAX_SESSIONS),
    help="Split the blocks over this many sessions, and run the first; vtax resume --session runs the next.",
)
@click.option(
    "--pause",
    metavar="TIME",
    help="Run all sessions, with a pause of this time between them, e.g. 2h.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Run as many blocks as fit into this time, e.g. 2h, instead of a fixed number.",
)
@click.option(
    "--seed",
    type=click.IntRange(INTEGERS[0], INTEGERS[-1]),
    help="Set the seed of the random order (recorded in any case).",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    callback=_tags,
    metavar="TAG,...",
    shell_complete=tags_of_runs,
    help="Tag the run, so that vtax list --where tag=TAG finds it (repeatable).",
)
@yes_option
@click.option(
    "--dry-run",
    "only_plan",
    is_flag=True,
    help="Print the plan, or refuse, as the run would; needs no root.",
)
@click.option(
    "--toml",
    "only_toml",
    is_flag=True,
    help="Print the study as these options change it, for a pack or a campaign, and measure nothing.",
)
@trust_option
@tune_host_option
@wait_option
@click.option(
    "--check",
    callback=margins_of,
    multiple=True,
    metavar="CONDITION",
    help="Judge this run: exit with 1 if a platform is slower than the baseline, or costs more host CPU, by more "
    "than this, such as 5%.",
)
@detect_option
@strict_option
@junit_option
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the plan, as JSON.")
def command(**options: Any) -> None:
    """Run STUDY: the name of a shipped study (see vtax studies) or a TOML file.

    The plan with its estimated time is printed first. A run that may last more than an hour starts after
    confirmation, or with --yes.

    \b
      vtax run tour --budget 20min
      vtax run tour --ab podman:confinement=none,podman:confinement=default --check 5%
    """
    run_study(RunOptions(**options))


def run_study(options: RunOptions) -> None:
    """Plan a study, measure it, print its result and judge it, as the options say."""
    if options.only_plan or options.only_toml:
        return print_plan(options)
    run = measure_study(options)
    conditions = _conditions(options)
    store = Store.open(Home.from_environment().store_url)
    conclude(run, store, as_json=options.as_json)
    status = 0
    if conditions:
        status = judge(store, run, conditions, options.junit, quiet=options.as_json)
    if status:
        sys.exit(status)


def print_plan(options: RunOptions) -> None:
    """Print the plan of a study, or the study itself, or refuse it, as the options say."""
    loaded_study, required_names, _ = _load_and_check(options)
    if options.only_toml:
        click.echo(study_toml(loaded_study.study.declared()), nl=False)
    else:
        _print_plan(loaded_study, required_names, options)


def measure_study(options: RunOptions) -> str:
    """Plan a study and measure it, as the options say; returns the name of the run."""
    loaded_study, required_names, pause_s = _load_and_check(options)
    need_root("measuring")
    current_boot = boots.current_boot(loaded_study.study)
    home = Home.from_environment().ensure()
    trust = options.trust or options.is_typed
    programs = consented(
        home,
        host_programs(loaded_study),
        loaded_study.source,
        digest=loaded_study.digest,
        trust=trust,
    )
    with (
        result_of_stopped(),
        measuring_lock(
            f"vtax run {loaded_study.study.name}", wait_s=wait_s(options.wait)
        ) as rename,
    ):
        prepare_host(home)
        guest_image = provide(home, recipe_for(loaded_study))
        probes = (
            boots.probes_elsewhere(loaded_study.study, current_boot.name) if current_boot else None
        )
        plan = make_plan(
            loaded_study, image=guest_image, seed=options.seed, probes=probes, consented=programs
        )
        if options.ladder is not None:
            plan = in_rounds_that_pay(plan)
        _check_named_available(plan, required_names)
        store = Store.open(home.store_url)
        plan = _announced(plan, store, options.budget_part)
        if not (options.yes or options.budget):
            confirm(plan)
        with held_machines(plan, loaded_study.study.name) as machines:
            run = begin(
                store,
                plan,
                vtax_version=__version__,
                views=views.foreign(),
                tags=options.tags,
                machines=machines.facts,
            )
            machines.run = run
            rename(run.name)
            if current_boot is None:
                measure(plan, run, home, tune_host=options.tune_host)
            else:
                measure_boot(plan, run, home, current_boot, tune_host=options.tune_host)
    while pause_s is not None and run.status == "paused":
        wait_between(run, pause_s)
        with result_of_stopped(), measuring_lock(run.name):
            next_session(plan, run, home, tune_host=options.tune_host)
    return run.name


def _load_and_check(options: RunOptions) -> tuple[LoadedStudy, tuple[str, ...], float | None]:
    """Return the study, the platforms that must run here, and the seconds of a pause between sessions."""
    budget_s(options.budget)
    reference = study_of(options)
    conditions = _conditions(options)
    loaded_study, required_names = _load_as_chosen(reference, options)
    pause_s = _pause_s(options.pause, loaded_study.study)
    if conditions:
        _require_one_part(loaded_study.study, pause_s)
    return loaded_study, required_names, pause_s


def _load_as_chosen(reference: str, options: RunOptions) -> tuple[LoadedStudy, tuple[str, ...]]:
    """Return the study as the options choose and change it, and the platforms that must run here."""
    varied_study = _load_variant(
        reference, Chosen(options.scale, options.protocol, benchmarks=options.benchmarks)
    )
    _check_platforms(options.platforms, varied_study)
    sides = two_sides(options.ab, varied_study) if options.ab is not None else None
    rungs = _rungs(options)
    changes = changes_of(options, varied_study)
    required_names = _named_by_options(options.platforms, sides, rungs)
    choices = Chosen(options.scale, options.protocol, sides, rungs, options.benchmarks)
    with blaming_options(options, reference):
        return load(reference, changes, choices), required_names


def _rungs(options: RunOptions) -> ChosenLadder | ChosenOrders | None:
    if options.ladder is None:
        return None
    if options.largest:
        return orders_of(options.ladder, options.largest)
    return ladder_of(options.ladder)


def _named_by_options(
    platforms: tuple[str, ...],
    sides: TwoSides | None,
    ladder: ChosenLadder | ChosenOrders | None,
) -> tuple[str, ...]:
    """Return the platforms that must run here: those of --platforms, of --ab, or the ends of a ladder.

    Raises BadInput where both options are given.
    """
    if sides is not None:
        if platforms:
            raise BadInput(
                "--ab names the platforms", where="--platforms", hint="give one of the two options"
            )
        return sides.old.name, sides.new.name
    if ladder is not None:
        return ladder.ends
    return platforms


def _conditions(options: RunOptions) -> Conditions | None:
    """Return the conditions of the gate, or None without one. Raises BadInput as `conditions_of`, and for a file without a gate."""
    if options.check is None:
        if options.detect or options.strict or options.junit:
            what = "--detect, --strict and --junit are of a gate, and there is none"
            raise BadInput(what, where="vtax run", hint="add --check 5%")
        return None
    return conditions_of(options.check, options.detect, strict=options.strict)


def _require_one_part(study: Study, pause_s: float | None) -> None:
    """Raise BadInput for a run that does not end in this command, which no gate can judge."""
    if study.boot or (study.design.sessions > 1 and pause_s is None):
        what = "--check judges the run at its end, and this command ends before: the study has several sessions or boots"
        raise BadInput(
            what,
            where="--check",
            hint="add --pause, or judge it later: vtax compare RUN --fail-if 5%",
        )


def _announced(plan: Plan, store: Store, budget_part: float) -> Plan:
    """Return the plan with what stored runs of this host say of its costs, after printing it."""
    plan = with_costs(plan, store)
    check_budget_holds_block(plan, budget_part)
    announce(plan, budget_part=budget_part)
    claims = claims_ahead(plan, store)
    if claims is not None:
        notify(claims.summary())
    return plan


def _load_variant(study: str, choices: Chosen) -> Study:
    """Return a study by its scale and protocol. Raises BadInput for all of its problems at once."""
    problems, loaded_study = examine(study)
    if problems or loaded_study is None:
        raise refused([*problems, *further_problems(loaded_study)], str(find(study)))
    return load(study, chosen=choices).study if choices != Chosen() else loaded_study.study


def _print_plan(
    loaded_study: LoadedStudy, required_names: tuple[str, ...], options: RunOptions
) -> None:
    """Print the plan, or refuse what a run would refuse; no lock is taken, and no guest and no program started.

    What this host lacks is reported to root alone, as only root runs. Raises BadInput.
    """
    home, is_root = Home.from_environment(), os.geteuid() == 0
    current_boot = None
    if is_root:
        refuse_foreign(home.root)
        current_boot = boots.current_boot(loaded_study.study)
    recipe = recipe_for(loaded_study)
    needed_image = examine_image(home, recipe)
    needed_image.check_room(home)
    image = Image("none", home.images)
    with suppress(BadInput):  # it is not built yet, or only root sees it
        image = built_image(home, recipe, loaded_study.source)
    probes = unprobed(loaded_study.study.platforms)
    if is_root:
        probes = (
            boots.probes_elsewhere(loaded_study.study, current_boot.name) if current_boot else {}
        )
    plan = make_plan(loaded_study, image=image, seed=options.seed, probes=probes, dry=True)
    if options.ladder is not None:
        plan = in_rounds_that_pay(plan)
    _check_named_available(plan, required_names)
    store = None
    with suppress(BadInput):  # no store yet: nothing to choose or to estimate from
        store = Store.existing(home.store_url)
        plan = with_costs(plan, store)
    check_budget_holds_block(plan, options.budget_part)
    claims = claims_ahead(plan, store)
    why_not = "a dry run starts no guest" if is_root else "probing needs root"
    if options.as_json:
        further = {
            "needed_image": needed_image.as_json(),
            "not_probed": why_not,
            "claims": claims.as_json() if claims else None,
        }
        print_json({**plan_as_json(plan), **further})
        return
    announce(plan, say, budget_part=options.budget_part)
    if claims is not None:
        for line in claims.lines():
            say(line)
    say(str(needed_image))
    if plan.programs and not options.is_typed:
        say("a dry run starts none of these; a run prompts once for this file, or needs --trust")
    say(f"the platforms were not probed: {why_not}")
    say("cells and time include platforms that may not run here")


def _pause_s(pause: str | None, study: Study) -> float | None:
    """Return seconds of --pause. Raises BadInput for what is no duration, and for a study of one session."""
    pause_s = seconds_of(pause, "--pause")
    if pause_s is not None and study.design.sessions == 1:
        raise BadInput(
            "a pause is between sessions, and the study has one",
            where="--pause",
            hint="add --sessions",
        )
    if pause_s is not None and study.boot:
        what = "a pause is between sessions of one boot, and the study has several"
        raise BadInput(what, where="--pause", hint="omit --pause")
    return pause_s


def _check_platforms(names: tuple[str, ...], study: Study) -> None:
    """Raise BadInput for a platform of --platforms that neither the study nor a driver has.

    The baseline must be among them.
    """
    own_names = [table.name for table in study.platform]
    with placed("--platforms"):
        for name in names:
            if name not in own_names:
                registry.get(name, own_names)
    if names and study.baseline not in names:
        raise BadInput(
            f"the baseline of {study.name}, {study.baseline}, is not among {', '.join(names)}; "
            "every platform is compared with it",
            where="--platforms",
            hint=f"--platforms {','.join([study.baseline, *names])}",
        )


def _check_named_available(plan: Plan, names: tuple[str, ...]) -> None:
    """Raise BadInput when a platform of --platforms does not run here; others are reported as not tested."""
    for planned_platform in plan.platforms:
        if planned_platform.platform.name in names and not planned_platform.probe.available:
            raise BadInput(
                f"{planned_platform.platform.name} does not run here: {planned_platform.probe.reason}",
                hint=planned_platform.probe.hint,
            )


def check_budget_holds_block(plan: Plan, budget_part: float) -> None:
    """Raise BadInput when the budget is shorter than one block. budget_part: see RunOptions."""
    budget, block_s = plan.study.design.budget, plan.expected_block_s()
    sessions = plan.study.design.sessions
    if budget is not None and budget / sessions < block_s:
        per_session = f" in each of {sessions} sessions" if sessions > 1 else ""
        raise BadInput(
            f"{phrase_of_budget(budget, budget_part)} is too short for one block{per_session}, "
            f"which takes about {format_duration(block_s)}",
            where="--budget" if budget_part < 1 else "[design], key budget, or --budget",
            hint=f"--budget {rounded_up(sessions * block_s / budget_part)} holds one; or reduce platforms"
            f"{', sessions' if per_session else ''} or levels",
        )
