"""`vtax merge`: combines runs of one study into one run of several sessions."""

from __future__ import annotations

import click

from vtax.cli.completion import run_names
from vtax.cli.output import json_option, notify, with_program_path
from vtax.host.home import Home


@click.command("merge")
@click.argument("run_names", metavar="RUN...", nargs=-1, required=True, shell_complete=run_names)
@json_option
def command(run_names: tuple[str, ...], as_json: bool) -> None:
    """Combine each RUN, of one study on any hosts and days, into a new run whose sessions are theirs.

    Intervals are then over sessions. Study, image, agent and platforms must be the same.
    Differences between the hosts, and between their guests, are listed. The runs themselves are
    kept. If some of the runs were merged before, the new run keeps a warning: no interval allows
    for a host that is added after the first result was known.
    """
    from vtax.cli.show import print_views
    from vtax.report.analysis.source import source_of
    from vtax.store.merging import IMAGE_UNKNOWN, MERGED_AGAIN, merge
    from vtax.store.store import Store

    with Store.open(Home.from_environment().store_url) as store:
        name = merge(store, run_names)
        source = source_of(store, name)
        print_views(["sessions", "hosts", "audit"], source, as_json=as_json, every_metric=False)
        for warning in source.data.warnings:
            if warning.code in (MERGED_AGAIN, IMAGE_UNKNOWN):
                notify(f"warning: {warning.note}")
    notify(with_program_path(f"merged as {name}; see it with: vtax show {name}"))
