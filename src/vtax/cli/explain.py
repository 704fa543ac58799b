"""`vtax explain`: what was counted that differs where platforms differ."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.arguments import run_argument
from vtax.cli.filters import FILTERS, filter_options, wanted
from vtax.cli.output import existing_store, json_option


@click.command("explain", epilog=FILTERS)
@run_argument
@click.option("--all", "every_counter", is_flag=True, help="List every counter that moved.")
@filter_options
@json_option
def command(run_name: str, every_counter: bool, as_json: bool, **options: Any) -> None:
    """Show what may explain the differences in RUN (default: the last run).

    First come recorded facts that differ on platforms that differ, and the run that tests each
    where an option of the driver can change it. Then, for every comparison that is not equivalent,
    come counters of the guest, of its virtualization layer, of the host and of the links, per unit
    of work, as ratios to the baseline with intervals. A fact or a counter that differs with a
    result need not be its cause.
    """
    from vtax.cli.show import print_views
    from vtax.report.analysis.source import source_of

    source = source_of(existing_store(), run_name, wanted=wanted(options))
    print_views(["explain"], source, as_json=as_json, every_metric=every_counter)
