"""`vtax report`: writes runs to an HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vtax.cli.arguments import listed
from vtax.cli.completion import run_names
from vtax.cli.filters import FILTERS, filter_options, wanted
from vtax.cli.output import print_path


@click.command("report", epilog=FILTERS)
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=run_names)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write to this file; default: RUN.html, or report.html for several; - is standard output.",
)
@click.option(
    "--weights", metavar="RESOURCE=N,...", help="Add a chapter that ranks the platforms, as vtax recommend does."
)
@click.option(
    "--map", "mapped", multiple=True, callback=listed, metavar="THERE=HERE,...",
    help="Let platform HERE of the run stand for platform THERE of the publication, in claims and figures "
    "(repeatable).",
)  # fmt: skip
@filter_options
def command(
    names: tuple[str, ...], output: Path | None, weights: str | None, mapped: tuple[str, ...], **options: Any
) -> None:
    """Write the report of every RUN (default: the last run) to one self-contained HTML file.

    Several runs are its chapters. vtax export writes everything else: tables, CSV, Parquet, JSON, formats of others.
    """
    from vtax.cli.claims import mapping_of
    from vtax.cli.export import write_documents
    from vtax.cli.recommend import weights_of
    from vtax.report.views.base import Options

    given = None if weights is None else weights_of(weights)
    chosen = Options("report", given, mapping_of(mapped))
    print_path(write_documents(names, "html", output, wanted(options), chosen))
