"""`vtax run`: a study, from plan to result table."""

from __future__ import annotations

import os
from typing import Any

import click

from vtax import __version__
from vtax.cli.completion import platform_names, study_names
from vtax.cli.measure import conclude, measure, prepare_host
from vtax.cli.output import built_image, need_root, print_json
from vtax.cli.plan import announce
from vtax.cli.plan import as_json as plan_as_json
from vtax.cli.probing import free_to_probe
from vtax.cli.trust import agreed, trust_option
from vtax.errors import BadInput, placed, with_hint
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.image import Image
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.platforms.base import Probe
from vtax.report.views import registry as views
from vtax.runner.check import further_problems
from vtax.runner.execute import begin
from vtax.runner.plan import Plan, host_programs, make_plan
from vtax.store.store import Store
from vtax.study.limits import INTEGERS, MAX_BLOCKS
from vtax.study.load import LoadedStudy, examine, find, load, refused
from vtax.study.model import Study
from vtax.study.units import duration_s, format_duration

_TIMES = "give a time such as 90s, 45min or 2h"


@click.command("run")
@click.argument("study", shell_complete=study_names)
@click.option(
    "--platform",
    "-p",
    "platforms",
    multiple=True,
    shell_complete=platform_names,
    help="Only this one and the baseline (repeatable).",
)
@click.option("--blocks", type=click.IntRange(1, MAX_BLOCKS), help="Exactly this many blocks.")
@click.option("--budget", metavar="TIME", help="As many blocks as fit into this time, e.g. 2h.")
@click.option(
    "--seed", type=click.IntRange(INTEGERS[0], INTEGERS[-1]), help="Seed of the order; recorded either way."
)
@click.option("--dry-run", "--plan", "only_plan", is_flag=True, help="Print the plan and stop; needs no root.")
@trust_option
@click.option("--tune", is_flag=True, help="Set the host's tunables for the run (see vtax doctor) and put them back.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a target was not reached or a trial failed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the plan, as JSON.")
def command(
    study: str,
    platforms: tuple[str, ...],
    blocks: int | None,
    budget: str | None,
    seed: int | None,
    only_plan: bool,
    trust: bool,
    tune: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Carry out STUDY: the name of a shipped one (see vtax studies) or a TOML file."""
    _refuse_no_time(budget)
    problems, declared = examine(study)
    if problems or declared is None:
        raise refused([*problems, *further_problems(declared)], str(find(study)))
    _refuse_unknown(platforms, declared.study)
    loaded = load(study, _overrides(declared.study, platforms, blocks, budget))
    if only_plan:
        _print_plan(loaded, platforms, seed, as_json=as_json)
        return
    need_root("measuring")
    home = Home.from_environment().ensure()
    named = host_programs(loaded.study, loaded.source)
    programs = agreed(home, named, loaded.source, digest=loaded.digest, trust=trust)
    with measuring_lock(f"vtax run {loaded.study.name}") as rename:
        prepare_host(home)
        image = built_image(home, packages_for(loaded.study))
        plan = make_plan(loaded, image=image, seed=seed, agreed=programs)
        _refuse_named_but_unavailable(plan, platforms)
        refuse_too_little_time(plan)
        announce(plan)
        store = Store.open(home.store_url)
        run = begin(store, plan, vtax_version=__version__, views=views.foreign())
        rename(run.name)
        measure(plan, run, home, tune=tune)
    conclude(run.name, store, as_json=as_json, strict=strict)


def _print_plan(loaded: LoadedStudy, named: tuple[str, ...], seed: int | None, *, as_json: bool) -> None:
    """What would be done. Platforms are probed only by root, and only while nothing measures."""
    home, image = Home.from_environment(), None
    with free_to_probe("vtax run --plan") as busy:
        why_not = "that needs root" if os.geteuid() != 0 else busy
        try:
            image = built_image(home, packages_for(loaded.study))
        except BadInput as error:
            why_not = "; ".join(filter(None, [why_not, with_hint(error.what, error.hint)]))
        unprobed = {name: Probe(True, "not probed") for name in loaded.study.platforms} if why_not else None
        plan = make_plan(loaded, image=image or Image("none", home.images), seed=seed, probes=unprobed, dry=True)
    _refuse_named_but_unavailable(plan, named)
    refuse_too_little_time(plan)
    if as_json:
        print_json({**plan_as_json(plan), "not_probed": why_not})
        return
    announce(plan, click.echo)
    if plan.programs:
        click.echo("a dry run starts none of that; without it vtax asks once for this file, or takes --trust")
    if why_not:
        click.echo(f"whether these platforms run here was not probed: {why_not}")


def packages_for(study: Study) -> tuple[str, ...]:
    """What the image must hold beyond the usual for the topologies of a study."""
    return topologies.packages_of(table.topology for table in study.benchmark if table.topology)


def _overrides(study: Study, platforms: tuple[str, ...], blocks: int | None, budget: str | None) -> dict[str, Any]:
    """What the options put over the study's file; the baseline stays, since everything is compared with it."""
    overrides: dict[str, Any] = {}
    if platforms:
        overrides["platforms"] = list(dict.fromkeys([study.baseline, *platforms]))
    if blocks is not None:
        overrides["design"] = {"stop": "fixed", "blocks": blocks}
    if budget is not None:
        stop = {"stop": "budget"} if study.design.stop == "fixed" and blocks is None else {}
        overrides["design"] = {**overrides.get("design", {}), **stop, "budget": budget}
    return overrides


def _refuse_no_time(budget: str | None) -> None:
    """Raise BadInput, naming the option, unless --budget is a time or absent."""
    try:
        is_time = budget is None or duration_s(budget) > 0
    except ValueError as error:
        raise BadInput(str(error), where="--budget", hint=_TIMES) from error
    if not is_time:
        raise BadInput(f"the budget is {budget}; it must be a time above 0 s", where="--budget", hint=_TIMES)


def _refuse_unknown(named: tuple[str, ...], study: Study) -> None:
    """Raise BadInput, naming the option, for a platform that neither the study nor a driver has."""
    own = [table.name for table in study.platform]
    with placed("--platform"):
        for name in named:
            if name not in own:
                registry.get(name, own)


def _refuse_named_but_unavailable(plan: Plan, named: tuple[str, ...]) -> None:
    """A platform asked for by name must run; one that only stands in the study is reported as not tested."""
    for planned in plan.platforms:
        if planned.platform.name in named and not planned.probe.available:
            raise BadInput(
                f"{planned.platform.name} does not run here: {planned.probe.reason}", hint=planned.probe.hint
            )
    for each in plan.untested:
        if each.platform.name in named:
            raise each.error


def refuse_too_little_time(plan: Plan) -> None:
    """A budget in which not one block ends buys nothing. Raises BadInput."""
    budget, block_s = plan.study.design.budget, plan.expected_block_s()
    if budget is not None and budget < block_s:
        raise BadInput(
            f"the budget of {format_duration(budget)} does not hold one block, "
            f"which takes about {format_duration(block_s)}",
            where="[design], key budget, or --budget",
            hint="a larger --budget, or fewer platforms or levels",
        )
