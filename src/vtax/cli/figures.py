"""`vtax figures`: writes the figures of a run as files for print: those of a publication, and those of the report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.arguments import listed, map_option, run_argument
from vtax.cli.claims import mapping_of
from vtax.cli.completion import sides
from vtax.cli.output import existing_store, json_option, notify, print_json, resume_hint
from vtax.cli.outputs import OutputDirectory
from vtax.described import values_of
from vtax.errors import BadInput

if TYPE_CHECKING:
    from vtax.report.analysis import Analysis
    from vtax.report.analysis.source import Source
    from vtax.report.answers.figures.compute import Drawing
    from vtax.report.document import Figure
    from vtax.report.renderers.format import Formatter
    from vtax.store.store import Store

_FORMATS = ("svg", "pdf", "png")


@click.command("figures")
@run_argument
@click.argument("other", metavar="[OTHER]", default="", shell_complete=sides)
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
@map_option("Draw platform HERE of the run where the publication has THERE (repeatable).")
@json_option
def command(
    run_name: str,
    other: str,
    only: tuple[str, ...],
    file_format: str,
    output: Path,
    mapped: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write every figure of RUN (default: the last run) to a file, RUN-ID.FORMAT.

    They are those of `vtax report`: all comparisons, means, ratios, trials in the order of execution, metrics over
    the time within trials, latencies, shares of the variance.

    With OTHER they are those of `vtax compare RUN OTHER`: the means of both, beside each other.

    If the study repeats a publication, its figures and tables come first. The left side shows the statistic of the
    publication, the right side means with intervals over blocks. A figure whose platform is not in the run is not
    written; --map draws another platform. --json has the values.

    \b
      vtax figures tour-1 --only forest --format pdf
      vtax figures urschei2007-1 --only figure-3 --map xen-pv=docker
      vtax figures tour-1 tour-2
    """
    from vtax.report.answers.figures.view import exported
    from vtax.report.renderers.format import Formatter
    from vtax.report.renderers.json import plain
    from vtax.report.renderers.language import of_reader

    store, mapping = existing_store(), mapping_of(mapped)
    if other:
        if mapping:
            hint = "vtax figures RUN --map THERE=HERE"
            raise BadInput("--map is of the figures of one run", where="--map", hint=hint)
        selection = _of_comparison(store, run_name, other, only)
    else:
        selection = _of_run(store, run_name, mapping, only)
    analysis, omitted_figures = selection.analysis, selection.left_out
    files = _write(selection.figures, selection.name, Formatter(of_reader()), file_format, output)
    for key, why in (entry.values() for entry in omitted_figures):
        notify(f"{key}: {why}")
    if as_json:
        values = plain(values_of(exported(selection.drawings, analysis)))
        print_json(
            {
                "schema": "vtax.figures/1",
                "run": analysis.name,
                "study": analysis.study,
                "format": file_format,
                "written": files,
                "not_written": omitted_figures,
                **values,
            }
        )
        return
    for entry in files:
        click.echo(entry["path"])


@dataclass(frozen=True)
class _Chosen:
    """Figures to write. name: begins every file. left_out: id and reason of figures without a value."""

    name: str
    analysis: Analysis
    figures: Mapping[str, Figure]
    drawings: Sequence[Drawing] = ()
    left_out: Sequence[Mapping[str, str]] = ()


def _of_comparison(
    store: Store, treatment: str, baseline: str, ids_asked: Sequence[str]
) -> _Chosen:
    """Return the figures of two sides. Raises BadInput for sides, or ids, that are not there."""
    from vtax.report.answers.compare.compute import contrast
    from vtax.report.answers.compare.show import document_of
    from vtax.report.renderers.figures import id_of

    contrasts = contrast(store, treatment, baseline)
    figures = {id_of(figure): figure for figure in document_of(contrasts).figures()}
    name = re.sub(r"[^A-Za-z0-9.=-]+", "-", f"{treatment}-{baseline}")
    _refuse_unknown(ids_asked, list(figures), f"{treatment}, {baseline}")
    figures_asked = {
        key: figure for key, figure in figures.items() if key in (ids_asked or figures)
    }
    return _Chosen(name, contrasts.treatment.analysis, figures_asked)


def _of_run(
    store: Store, run_name: str, mapping: Mapping[str, str], ids_asked: Sequence[str]
) -> _Chosen:
    """Return the figures of a publication, then those of the report. Raises BadInput where one cannot be drawn."""
    from vtax.report.analysis.source import source_of

    source = source_of(store, run_name)
    analysis = source.analysis
    drawings = _drawings(source, mapping, store)
    published_ids = [drawing.figure.id for drawing in drawings]
    of_report: dict[str, Figure] = {}
    if not ids_asked or not set(ids_asked) <= set(published_ids):  # a report takes time
        of_report = _of_report(source, mapping)
    ids = list(dict.fromkeys([*published_ids, *of_report]))
    if not ids:
        hint = "they need a trial that went well"
        raise BadInput("the report of this run has no figures", where=analysis.name, hint=hint)
    _refuse_unknown(ids_asked, ids, analysis.name)
    ids_wanted = ids_asked or ids
    drawings_wanted = [drawing for drawing in drawings if drawing.figure.id in ids_wanted]
    figures, omitted_figures = _charts_of(drawings_wanted, analysis, refuses=bool(ids_asked))
    for key, figure in of_report.items():
        if key in ids_wanted and key not in published_ids:
            figures[key] = figure
    return _Chosen(analysis.name, analysis, figures, drawings, omitted_figures)


def _drawings(source: Source, mapping: Mapping[str, str], store: Store) -> Sequence[Drawing]:
    """Return the figures of the publication. Raises BadInput for a run that has none because no block is finished."""
    from vtax.report.answers.figures.compute import drawings, finished_blocks

    analysis = source.analysis
    drawings_of_publication = drawings(analysis, source.data, mapping)
    if drawings_of_publication and not finished_blocks(source.data):
        hint = resume_hint(store, analysis.name, analysis.status) or "run the study again"
        raise BadInput(f"{analysis.name} has no finished block to draw", hint=hint)
    return drawings_of_publication


def _of_report(source: Source, mapping: Mapping[str, str]) -> dict[str, Figure]:
    """Return the figures of the report by id."""
    from vtax.report.chapters import report
    from vtax.report.renderers.figures import id_of
    from vtax.report.views.base import Options

    document = report(source, Options("report", mapping))
    return {id_of(figure): figure for figure in document.figures()}


def _refuse_unknown(ids_asked: Sequence[str], ids: Sequence[str], where: str) -> None:
    """Raise BadInput for an id that is not among those that there are. where: the run that has them."""
    for name in ids_asked:
        if name not in ids:
            suggestions = get_close_matches(name, ids, 3) or ids
            raise BadInput(
                f"{where} has no figure {name!r}",
                where="--only",
                hint=f"figures: {', '.join(suggestions)}",
            )


def _charts_of(
    drawings: Sequence[Drawing], analysis: Analysis, *, refuses: bool
) -> tuple[dict[str, Figure], list[dict[str, str]]]:
    """Return (figures by id, id and reason of each without a value). refuses: raise BadInput for such a one."""
    from vtax.report.answers.figures.chart import chart_of
    from vtax.report.answers.figures.view import why_not
    from vtax.report.renderers.format import english

    figures: dict[str, Figure] = {}
    omitted_figures = []
    for drawing in drawings:
        key = drawing.figure.id
        if drawing.is_measured:
            figures[key] = chart_of(drawing, analysis)
            continue
        why = english(why_not(drawing))
        if refuses:
            hint = "--map THERE=HERE draws another platform of the run in its place"
            raise BadInput(f"{key} is {why}", where="--only", hint=hint)
        omitted_figures.append({"id": key, "why": why})
    return figures, omitted_figures


def _write(
    figures: Mapping[str, Figure], run: str, formatter: Formatter, file_format: str, output: Path
) -> list[dict[str, str]]:
    """Write a file for each figure. Return id, title and path of each."""
    from vtax.report.renderers.figures import file_of
    from vtax.report.replacing import replacing

    output.mkdir(parents=True, exist_ok=True)
    files = []
    for number, (key, figure) in enumerate(figures.items(), 1):
        path = output / f"{run}-{key}.{file_format}"
        notify(f"{number} of {len(figures)}: {key}")
        content = file_of(figure, formatter, file_format)
        with replacing(path) as new:
            new.write_bytes(content)
        files.append(
            {"id": key, "title": formatter.text(figure.title), "path": str(path.resolve())}
        )
    return files
