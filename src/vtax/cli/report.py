"""`vtax report`: writes runs to an HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from vtax.cli.arguments import map_option
from vtax.cli.completion import run_names
from vtax.cli.output import print_path
from vtax.cli.outputs import OutputFile


@click.command("report")
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=run_names)
@click.option(
    "--output",
    "-o",
    type=OutputFile(),
    help="Write to this file; default: RUN.html, or report.html for several; - is standard output.",
)
@map_option(
    "Let platform HERE of the run stand for platform THERE of the publication, in claims and figures "
    "(repeatable)."
)
def command(names: tuple[str, ...], output: Path | None, mapped: tuple[str, ...]) -> None:
    """Write the report of every RUN (default: the last run) to one self-contained HTML file.

    Several runs become its chapters. vtax export writes all other formats: tables, CSV, Parquet,
    JSON, and those of other programs.
    """
    from vtax.cli.claims import mapping_of
    from vtax.cli.export import write_documents
    from vtax.report.views.base import Options

    print_path(write_documents(names, "html", output, Options("report", mapping_of(mapped))))
