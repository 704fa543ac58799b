"""`vtax run`: a study, from plan to result table."""

from __future__ import annotations

import time
from typing import Any

import click

from vtax import __version__
from vtax.cli.measure import measure, prepare_host
from vtax.cli.output import built_image, need_root
from vtax.cli.progress import clock
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.network import registry as topologies
from vtax.runner.execute import begin
from vtax.runner.plan import Plan, make_plan
from vtax.store.store import Store
from vtax.study.load import load
from vtax.study.model import Study


@click.command("run")
@click.argument("study")
@click.option("--platform", "-p", "platforms", multiple=True, help="Only this one and the baseline (repeatable).")
@click.option("--blocks", type=click.IntRange(min=1), help="Exactly this many blocks.")
@click.option("--budget", metavar="TIME", help="No block starts that would end after this time, e.g. 2h.")
@click.option("--seed", type=int, help="Seed of the order; recorded either way.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and stop.")
@click.option("--tune", is_flag=True, help="Set the host's knobs for the run (see vtax doctor) and put them back.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a target was not reached or a trial failed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    study: str,
    platforms: tuple[str, ...],
    blocks: int | None,
    budget: str | None,
    seed: int | None,
    only_plan: bool,
    tune: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Carry out STUDY: the name of a shipped one (see vtax studies) or a TOML file."""
    loaded = load(study, _overrides(load(study).study, platforms, blocks, budget))
    need_root("measuring")
    home = Home.from_environment().ensure()
    with measuring_lock(f"vtax run {loaded.study.name}") as rename:
        prepare_host(home)
        plan = make_plan(loaded, image=built_image(home, packages_for(loaded.study)), seed=seed)
        _refuse_named_but_unavailable(plan, platforms)
        announce(plan)
        if only_plan:
            return
        store = Store.open(home.store_url)
        run = begin(store, plan, vtax_version=__version__)
        rename(run.name)
        measure(plan, run, home, store, as_json=as_json, strict=strict, tune=tune)


def packages_for(study: Study) -> tuple[str, ...]:
    """What the image must hold beyond the usual for the topologies of a study."""
    named = dict.fromkeys(table.topology for table in study.benchmark if table.topology)
    known = topologies.topologies()  # an unknown one is refused by the plan, which knows where it stands
    return tuple(package for name in named if name in known for package in known[name].packages)


def announce(plan: Plan) -> None:
    """What is about to happen, on stderr: platforms, points, order, how long."""
    design = plan.study.design
    available = [p.platform.name for p in plan.platforms if p.probe.available]
    rules = {
        "fixed": f"{design.blocks} block" + "s" * (design.blocks != 1),
        "precision": f"{design.min_blocks}-{design.max_blocks} blocks until every interval is within "
        f"±{design.precision:.1%}",
        "verdict": f"{design.min_blocks}-{design.max_blocks} blocks until every contrast has its verdict",
        "budget": "as many blocks as the time allows",
    }
    started = time.strftime("%H:%M")
    click.echo(f"{plan.study.title or plan.study.name}", err=True)
    click.echo(
        f"points: {len(plan.points)}, platforms: {', '.join(available)}; {rules[design.stop]}, "
        f"{design.order} order, seed {plan.seed}; about {clock(plan.expected_block_s())} a block from {started}",
        err=True,
    )
    if design.budget is not None:
        bought = int(design.budget / plan.expected_block_s())
        click.echo(f"the budget of {clock(design.budget)} buys about {bought} blocks", err=True)
    for planned in plan.platforms:
        if not planned.probe.available:
            click.echo(f"not tested: {planned.platform.name}: {planned.probe.reason}", err=True)


def _overrides(study: Study, platforms: tuple[str, ...], blocks: int | None, budget: str | None) -> dict[str, Any]:
    """What the options put over the study's file; the baseline stays, since everything is compared with it."""
    overrides: dict[str, Any] = {}
    if platforms:
        overrides["platforms"] = list(dict.fromkeys([study.baseline, *platforms]))
    if blocks is not None:
        overrides["design"] = {"stop": "fixed", "blocks": blocks}
    if budget is not None:
        overrides.setdefault("design", {})["budget"] = budget
    return overrides


def _refuse_named_but_unavailable(plan: Plan, named: tuple[str, ...]) -> None:
    """A platform asked for by name must run; one that only stands in the study is reported as not tested."""
    for planned in plan.platforms:
        if planned.platform.name in named and not planned.probe.available:
            raise BadInput(
                f"{planned.platform.name} does not run here: {planned.probe.reason}", cure=planned.probe.cure
            )
