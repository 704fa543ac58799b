"""`vtax report`: writes a run to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vtax.cli.completion import run_names
from vtax.cli.filters import FILTERS, filter_options, wanted
from vtax.cli.output import language_option
from vtax.errors import BadInput
from vtax.host.home import Home

_FORMATS = ("html", "csv", "parquet", "json", "markdown", "latex")
_DOCUMENTS = ("html", "markdown", "latex")
_SUFFIXES = {"markdown": "md", "latex": "tex"}


@click.command("report", epilog=f"{FILTERS} csv and parquet hold the baseline only when --platform names it.")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option("--format", "file_format", type=click.Choice(_FORMATS), default="html", show_default=True)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write to this file; default: RUN with the suffix of the format.",
)
@click.option(
    "--weights", metavar="RESOURCE=N,...", help="Add a chapter that ranks the platforms, as vtax recommend does."
)
@click.option(
    "--map", "mapped", multiple=True, metavar="THERE=HERE",
    help="Let platform HERE of the run stand for platform THERE of the publication, in claims and figures "
    "(repeatable).",
)  # fmt: skip
@language_option
@filter_options
def command(
    run_name: str, file_format: str, output: Path | None, weights: str | None, mapped: tuple[str, ...], language: str,
    **options: Any,
) -> None:  # fmt: skip
    """Write the report of RUN (default: the last run).

    html: one self-contained file. csv, parquet: one row per measurement. json: the analysis.
    markdown, latex: tables and texts of the report, without figures.
    In CSV, a text that a spreadsheet would read as a formula starts with an apostrophe.
    """
    from vtax.cli.claims import mapping_of
    from vtax.cli.recommend import weights_of
    from vtax.report.files import write
    from vtax.report.renderers.language import language as chosen_language
    from vtax.store.store import Store

    if weights is not None and file_format not in _DOCUMENTS:
        what = f"--weights adds a chapter, and {file_format} has no chapters"
        raise BadInput(what, hint=f"use --format {', '.join(_DOCUMENTS)}; vtax recommend --json prints it as data")
    if mapped and file_format not in _DOCUMENTS:
        what = f"--map changes chapters, and {file_format} has no chapters"
        raise BadInput(what, hint=f"use --format {', '.join(_DOCUMENTS)}; vtax claims --map --json prints it as data")
    given = None if weights is None else weights_of(weights)
    store = Store.existing(Home.from_environment().store_url)
    path = output or Path(f"{store.open_run(run_name).name}.{_SUFFIXES.get(file_format, file_format)}")
    write(store, run_name, file_format, path, wanted(options), chosen_language(language), given, mapping_of(mapped))
    click.echo(path.resolve())
