"""`vtax report`: writes runs to a file."""

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
_SUFFIXES = {"markdown": "md", "latex": "tex"}


@click.command("report", epilog=f"{FILTERS} csv and parquet hold the baseline only when --platform names it.")
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=run_names)
@click.option("--format", "file_format", type=click.Choice(_FORMATS), default="html", show_default=True)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write to this file; default: RUN, or `report` for several, with the suffix of the format.",
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
    names: tuple[str, ...], file_format: str, output: Path | None, weights: str | None, mapped: tuple[str, ...],
    language: str, **options: Any,
) -> None:  # fmt: skip
    """Write the report of every RUN (default: the last run) to one file.

    html: one self-contained file. csv, parquet: one row per measurement. json: the analysis.
    markdown, latex: tables and texts of the report, without figures.
    Several runs are chapters of one html, markdown or latex file.
    In CSV, a text that a spreadsheet would read as a formula starts with an apostrophe.
    """
    from vtax.cli.claims import mapping_of
    from vtax.cli.recommend import weights_of
    from vtax.report.files import DOCUMENTS, write, write_several
    from vtax.report.renderers.language import language as chosen_language
    from vtax.store.store import LAST, Store

    documents = ", ".join(DOCUMENTS)
    if weights is not None and file_format not in DOCUMENTS:
        what = f"--weights adds a chapter, and {file_format} has no chapters"
        raise BadInput(what, hint=f"use --format {documents}; vtax recommend --json prints it as data")
    if mapped and file_format not in DOCUMENTS:
        what = f"--map changes chapters, and {file_format} has no chapters"
        raise BadInput(what, hint=f"use --format {documents}; vtax claims --map --json prints it as data")
    given = None if weights is None else weights_of(weights)
    store = Store.existing(Home.from_environment().store_url)
    runs = [store.open_run(name).name for name in names or (LAST,)]
    if twice := next((name for name in runs if runs.count(name) > 1), ""):
        raise BadInput(f"{twice} is named twice", hint="name each run once")
    suffix = _SUFFIXES.get(file_format, file_format)
    path = output or Path(f"{runs[0] if len(runs) == 1 else 'report'}.{suffix}")
    chosen = wanted(options), chosen_language(language), given, mapping_of(mapped)
    if len(runs) == 1:
        write(store, runs[0], file_format, path, *chosen)
    else:
        write_several(store, runs, file_format, path, *chosen)
    click.echo(path.resolve())
