"""`vtax show`: the result of a run in the terminal."""

from __future__ import annotations

import sys

import click

from vtax.cli.output import json_option, print_json
from vtax.host.home import Home
from vtax.report.analysis import Analysis, analyse
from vtax.report.table import as_json as analysis_json
from vtax.report.table import render
from vtax.store.store import Store


@click.command("show")
@click.argument("run_name", metavar="[RUN]", default="last")
@click.option("--all", "every_metric", is_flag=True, help="Every metric, not only the primary ones.")
@json_option
def command(run_name: str, every_metric: bool, as_json: bool) -> None:
    """Print the result of RUN (default: the last one)."""
    analysis = analyse(Store.open(Home.from_environment().store_url), run_name)
    print_result(analysis, as_json=as_json, every_metric=every_metric)


def print_result(analysis: Analysis, *, as_json: bool, every_metric: bool = False) -> None:
    """The result table on stdout, or the same as JSON (which always holds every metric)."""
    if as_json:
        print_json(analysis_json(analysis))
        return
    from rich.console import Console

    render(analysis, Console(highlight=False, width=None if sys.stdout.isatty() else 160), every_metric=every_metric)
