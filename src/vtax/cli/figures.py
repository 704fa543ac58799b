"""`vtax figures`: writes the figures and tables that a study repeats, or those of a report, as files for print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.arguments import listed
from vtax.cli.claims import mapping_of
from vtax.cli.completion import run_names
from vtax.cli.output import existing_store, json_option, notify, print_json, resume_hint
from vtax.cli.outputs import OutputDirectory
from vtax.errors import BadInput

if TYPE_CHECKING:
    from vtax.report.analysis import Analysis
    from vtax.report.analysis.figure_values import Drawing
    from vtax.report.analysis.source import Source
    from vtax.report.document import Figure
    from vtax.report.renderers.format import Formatter
    from vtax.store.store import Store

_FORMATS = ("svg", "pdf", "png")


@click.command("figures")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option(
    "--report", "of_report", is_flag=True, help="Write the figures of the report instead."
)
@click.option(
    "--only",
    "only",
    multiple=True,
    callback=listed,
    metavar="ID,...",
    help="Write these figures only (repeatable).",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(_FORMATS),
    default="svg",
    show_default=True,
    help="Write files of this format.",
)
@click.option(
    "--output",
    "-o",
    type=OutputDirectory(),
    default=Path(),
    help="Write into this directory, which is created if necessary; default: the current one.",
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    callback=listed,
    metavar="THERE=HERE,...",
    help="Draw platform HERE of the run where the publication has THERE (repeatable).",
)
@json_option
def command(
    run_name: str,
    of_report: bool,
    only: tuple[str, ...],
    file_format: str,
    output: Path,
    mapped: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the figures and tables of the publication that the study of RUN repeats (default: the last run).

    Each is one file, RUN-ID.FORMAT. The left side shows the statistic of the publication, the right
    side means with intervals over blocks. A figure whose platform is not in the run is not written;
    --map draws another platform:

    \b
      vtax figures ufla2010-1 --format pdf --output figures
      vtax figures urschei2007-1 --only figure-3 --map xen-pv=docker

    --report writes those of `vtax report`, for any study: all comparisons, means, ratios, trials in the order of
    execution and by cell, metrics over the time within trials, latencies, shares of the variance.
    """
    from vtax.report.analysis.source import source_of
    from vtax.report.renderers.format import Formatter
    from vtax.report.renderers.language import of_reader

    store = existing_store()
    source, formatter = source_of(store, run_name), Formatter(of_reader())
    analysis, mapping = source.analysis, mapping_of(mapped)
    if of_report and mapping:
        raise BadInput(
            "the figures of the report have the platforms of the run",
            where="--map",
            hint="omit --report",
        )
    left_out: list[dict[str, str]] = []
    if of_report:
        figures = _of_report(source, only)
    else:
        chosen = _chosen(_drawings(source, mapping, store), only, analysis.name)
        figures, left_out = _measured(chosen, analysis, refuses=bool(only))
    written = _write(figures, analysis.name, formatter, file_format, output)
    for key, why in (entry.values() for entry in left_out):
        notify(f"{key}: {why}")
    if as_json:
        print_json(
            {
                "schema": "vtax.figures/1",
                "run": analysis.name,
                "study": analysis.study,
                "format": file_format,
                "written": written,
                "not_written": left_out,
            }
        )
        return
    for entry in written:
        click.echo(entry["path"])


def _drawings(source: Source, mapping: Mapping[str, str], store: Store) -> Sequence[Drawing]:
    """Return the figures of the publication. Raises BadInput for a run that has none because no block is finished."""
    from vtax.report.analysis.drawings import drawings, finished_blocks

    analysis = source.analysis
    published = drawings(analysis, source.data, mapping)
    if published and not finished_blocks(source.data):
        hint = resume_hint(store, analysis.name, analysis.status) or "run the study again"
        raise BadInput(f"{analysis.name} has no finished block to draw", hint=hint)
    return published


def _of_report(source: Source, only: Sequence[str]) -> dict[str, Figure]:
    """Return the figures of the report by id. Raises BadInput for one that it does not have."""
    from vtax.report.chapters import report
    from vtax.report.renderers.figures import id_of

    name = source.analysis.name
    figures = {id_of(figure): figure for figure in report(source).figures()}
    if not figures:
        raise BadInput(
            "the report of this run has no figures",
            where=name,
            hint="they need a trial that went well",
        )
    _refuse_unknown(only, list(figures), f"the report of {name}")
    return {key: figures[key] for key in only or figures}


def _refuse_unknown(only: Sequence[str], ids: Sequence[str], where: str) -> None:
    """Raise BadInput for an id that is not among those that there are. where: what has them."""
    for name in only:
        if name not in ids:
            near = get_close_matches(name, ids, 3) or ids
            raise BadInput(
                f"{where} has no figure {name!r}",
                where="--only",
                hint=f"figures: {', '.join(near)}",
            )


def _measured(
    chosen: Sequence[Drawing], analysis: Analysis, *, refuses: bool
) -> tuple[dict[str, Figure], list[dict[str, str]]]:
    """Return (figures by id, id and reason of each without a value). refuses: raise BadInput for such a one."""
    from vtax.report.parts.figure_charts import chart_of
    from vtax.report.renderers.format import english
    from vtax.report.views.paper_figures import why_not

    figures: dict[str, Figure] = {}
    left_out = []
    for drawing in chosen:
        key = drawing.figure.id
        if drawing.is_measured:
            figures[key] = chart_of(drawing, analysis)
            continue
        why = english(why_not(drawing))
        if refuses:
            hint = "--map THERE=HERE draws another platform of the run in its place"
            raise BadInput(f"{key} is {why}", where="--only", hint=hint)
        left_out.append({"id": key, "why": why})
    return figures, left_out


def _write(
    figures: Mapping[str, Figure], run: str, formatter: Formatter, file_format: str, output: Path
) -> list[dict[str, str]]:
    """Write a file for each figure. Return id, title and path of each."""
    from vtax.report.renderers.figures import file_of
    from vtax.report.replacing import replacing

    output.mkdir(parents=True, exist_ok=True)
    written = []
    for number, (key, figure) in enumerate(figures.items(), 1):
        path = output / f"{run}-{key}.{file_format}"
        notify(f"{number} of {len(figures)}: {key}")
        content = file_of(figure, formatter, file_format)
        with replacing(path) as new:
            new.write_bytes(content)
        written.append(
            {"id": key, "title": formatter.text(figure.title), "path": str(path.resolve())}
        )
    return written


def _chosen(drawings: Sequence[Drawing], only: Sequence[str], run: str) -> list[Drawing]:
    """Return the figures that are wanted.

    Raises BadInput for an id that the study does not have, and without any figure.
    """
    ids = [drawing.figure.id for drawing in drawings]
    if not ids:
        hint = "--report writes those of the report; docs/study-files.md shows how a study declares figures"
        raise BadInput("the study of this run declares no figures", where=run, hint=hint)
    _refuse_unknown(only, ids, f"the study of {run}")
    wanted = only or ids
    return [drawing for drawing in drawings if drawing.figure.id in wanted]
