"""`vtax anatomy`: measures what the cost of a platform is made of, mechanism by mechanism."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import click

from vtax.cli.completion import platform_names
from vtax.cli.ladder import orders_of
from vtax.cli.measure import budget_s, conclude, wait_option
from vtax.cli.output import existing_store, notify, print_json
from vtax.cli.own_image import load_option, port_option, serve_option
from vtax.cli.plan import rounded_up
from vtax.cli.run import measure_study, print_plan
from vtax.cli.run_options import RunOptions
from vtax.errors import BadInput
from vtax.report.analysis.source import source_of
from vtax.report.answers.ladder.compute import ladders, largest
from vtax.report.answers.result.exported import exported_whole
from vtax.report.renderers.json import plain

_STUDY = "anatomy"
_OF_LADDER = 2 / 3  # of the time
_BUDGET_S, _BUDGET_OF_ALL_S = 600.0, 1200.0


@click.command("anatomy")
@click.argument("benchmarks", metavar="[BENCHMARK]...", nargs=-1)
@click.option(
    "--of",
    "ladder",
    required=True,
    metavar="PLATFORM",
    shell_complete=platform_names,
    help="Take this platform apart, such as podman, qemu-tcg or podman:scratch=layer; more options follow after a colon each.",
)
@click.option("--image", metavar="NAME", help="Start guests from an image of your own.")
@load_option
@serve_option
@port_option
@click.option(
    "--budget",
    metavar="TIME",
    help="Measure for this time (default: 10min, or 20min of all benchmarks): the ladder in two thirds of it, both "
    "orders in the rest.",
)
@wait_option
@click.option("--dry-run", "only_plan", is_flag=True, help="Print the plan; needs no root.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the plan, as JSON.")
def command(
    load_of: str | None, budget: str | None, as_json: bool, only_plan: bool, **options: Any
) -> None:
    """Measure what the cost of PLATFORM is made of, on BENCHMARK (default: all of the study anatomy).

    A ladder leads from native to the platform, and each rung has one mechanism more: namespaces,
    capabilities, the filter of system calls, an overlay, the runtime itself; or of a machine virtio,
    the cache, huge pages and so on. Each rung is compared with the one below in the same blocks. An
    option of the platform is a rung of its own above it.

    The two largest rungs are then measured in both orders, in a run of its own: added to the ground
    first, and left out of the platform last.

    \b
      vtax anatomy --of podman nginx
      vtax anatomy --of podman:scratch=layer nginx redis
      vtax anatomy --of docker --image shop --load 'wrk {url}'
    """
    is_chosen = load_of is not None or options["benchmarks"]
    total_s = budget_s(budget) or (_BUDGET_S if is_chosen else _BUDGET_OF_ALL_S)
    study = None if load_of is not None else _STUDY
    options["benchmarks"] = tuple(dict.fromkeys(options["benchmarks"]))
    common_options = {"study": study, "load_of": load_of, **options}
    ladder = RunOptions(
        budget=f"{total_s * _OF_LADDER:g}s",
        budget_part=_OF_LADDER,
        only_plan=only_plan,
        **common_options,
    )
    notify(
        "two thirds of the budget are for the ladder, the rest for both orders of its largest rungs"
    )
    if only_plan:
        print_plan(replace(ladder, as_json=as_json))
        return
    run = measure_study(ladder)
    store = existing_store()
    if not as_json:
        conclude(run, store, as_json=False)
    orders = ""
    labels_of = largest(ladders(source_of(store, run).analysis))
    orders_in_ladder = orders_of(common_options["ladder"], list(labels_of))
    if orders_in_ladder.is_measurable:
        names = tuple(labels_of)[: len(orders_in_ladder.mechanisms)]
        rest_s = total_s * (1 - _OF_LADDER)
        common_options |= {
            "largest": names,
            "budget": f"{rest_s:g}s",
            "budget_part": 1 - _OF_LADDER,
        }
        if load_of is None:
            labels = chain.from_iterable(labels_of[name] for name in names)
            common_options["benchmarks"] = tuple(dict.fromkeys(labels))
        orders = _measure_orders(RunOptions(**common_options))
    else:
        notify(f"nothing can be measured in both orders: {orders_in_ladder}")
        rest = rounded_up(total_s * (1 - _OF_LADDER))
        notify(
            f"the rest of the budget is left: sudo vtax resume {run} --budget {rest} adds blocks"
        )
    if as_json:
        results = [plain(exported_whole(source_of(store, name))) for name in (run, orders) if name]
        print_json({**results[0], "both_orders": results[1] if orders else None})
    elif orders:
        conclude(orders, store, as_json=False)


def _measure_orders(options: RunOptions) -> str:
    """Measure rungs in both orders; returns the name of the run, empty where it cannot be made in the rest of the time."""
    try:
        return measure_study(options)
    except BadInput as error:
        notify(f"nothing is measured in both orders: {error.what}")
        return ""
