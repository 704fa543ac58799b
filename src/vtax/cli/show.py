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
@json_option
def command(run_name: str, as_json: bool) -> None:
    """Print the result of RUN (default: the last one)."""
    print_result(analyse(Store.open(Home.from_environment().store_url), run_name), as_json=as_json)


def print_result(analysis: Analysis, *, as_json: bool) -> None:
    """The result table on stdout, or the same as JSON."""
    if as_json:
        print_json(analysis_json(analysis))
        return
    from rich.console import Console

    render(analysis, Console(highlight=False, width=None if sys.stdout.isatty() else 160))
