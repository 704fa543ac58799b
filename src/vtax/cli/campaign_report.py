"""`vtax campaign report`: the result of a campaign over its hosts."""

from __future__ import annotations

from pathlib import Path

import click

from vtax.cli.output import json_option, notify, print_path
from vtax.cli.outputs import OutputFile
from vtax.host.home import Home


@click.command("report", short_help="Print the result over all hosts.")
@click.argument("directory", type=click.Path(path_type=Path), default=".", metavar="[DIR]")
@click.option("--all", "everything", is_flag=True, help="Show every host and every metric.")
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    metavar="FILE",
    help="Write the whole report as HTML.",
)
@json_option
def command(directory: Path, everything: bool, output: Path | None, as_json: bool) -> None:
    """Print the result of the sessions that were collected: over hosts, by host, before and after a change.

    Their runs become one merged run of the store, which every command shows: vtax show RUN --hosts.
    """
    from vtax.campaign.directory import Campaign
    from vtax.campaign.report import reported_run
    from vtax.cli.export import write_documents
    from vtax.cli.row_progress import run_progress
    from vtax.cli.show import print_document, print_views
    from vtax.report.analysis.source import source_of
    from vtax.report.chapters import with_hosts
    from vtax.report.views.base import Options
    from vtax.store.store import Store

    with Store.open(Home.from_environment().store_url) as store:
        with Campaign.locked(directory) as campaign:  # two at once would add the same sessions
            name = reported_run(
                store, campaign, run_progress("merging the sessions of the campaign")
            )
        if not output:
            source = source_of(store, name)
            if as_json:
                print_views(["sessions", "hosts"], source, as_json=True, every_metric=everything)
            else:
                options = Options("all" if everything else "brief")
                print_document(with_hosts(source, options), as_json=False)
    if output:
        print_path(write_documents((name,), "html", output, Options("report")))
    notify(f"the run of all sessions is {name}")
