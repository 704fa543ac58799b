"""`vtax report`: a run as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vtax.cli.completion import run_names
from vtax.cli.filters import FILTERS, filter_options, wanted
from vtax.host.home import Home

_FORMATS = ("html", "csv", "parquet", "json", "markdown", "latex")
_ENDINGS = {"markdown": "md", "latex": "tex"}


@click.command("report", epilog=f"{FILTERS} In csv and parquet it stands only when it is named.")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option("--format", "file_format", type=click.Choice(_FORMATS), default="html", show_default=True)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="The file to write; default RUN.html here, or so."
)
@filter_options
def command(run_name: str, file_format: str, output: Path | None, **options: Any) -> None:
    """Write the report of RUN (default: the last one).

    html: everything in one file that needs no network. csv, parquet: one row per measurement. json: the analysis.
    markdown, latex: every table and text of the report, without its figures.
    In CSV, a text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    from vtax.report.files import write
    from vtax.store.store import Store

    store = Store.existing(Home.from_environment().store_url)
    path = output or Path(f"{store.open_run(run_name).name}.{_ENDINGS.get(file_format, file_format)}")
    write(store, run_name, file_format, path, wanted(options))
    click.echo(path.resolve())
