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
from vtax.errors import BadInput

if TYPE_CHECKING:
    from vtax.report.analysis import Analysis
    from vtax.report.analysis.figure_values import Drawing
    from vtax.report.analysis.source import Source
    from vtax.report.document import Chart, Figure
    from vtax.report.renderers.format import Formatter
    from vtax.store.store import Store

_FORMATS = ("svg", "pdf", "png")


@click.command("figures")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option("--report", "of_report", is_flag=True, help="Write the figures of the report instead.")
@click.option(
    "--only", "only", multiple=True, callback=listed, metavar="ID,...", help="Write these figures only (repeatable)."
)
@click.option("--format", "file_format", type=click.Choice(_FORMATS), default="svg", show_default=True)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, file_okay=False), default=Path(),
    help="Write into this directory, made if absent; default: the current one.",
)  # fmt: skip
@click.option(
    "--map", "mapped", multiple=True, callback=listed, metavar="THERE=HERE,...",
    help="Draw platform HERE of the run where the publication has THERE (repeatable).",
)  # fmt: skip
@json_option
def command(
    run_name: str, of_report: bool, only: tuple[str, ...], file_format: str, output: Path, mapped: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Write the figures and tables of the publication that the study of RUN repeats (default: the last run).

    One file for each, RUN-ID.FORMAT. The left side has the statistic of the publication, the right side means with
    intervals from blocks. A figure of a platform that the run does not have is not written; --map draws another one:

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
        raise BadInput("the figures of the report have the platforms of the run", where="--map", hint="omit --report")
    if of_report:
        written = _write_report(source, only, formatter, file_format, output)
        left_out: list[dict[str, str]] = []
    else:
        drawn = _drawings(source, mapping, store)
        chosen = _chosen(drawn, only, analysis.name)
        _refuse_without_value(chosen if only else ())
        _make(output)
        written, left_out = _write(chosen, analysis, formatter, file_format, output)
    if as_json:
        print_json({
            "schema": "vtax.figures/1", "run": analysis.name, "study": analysis.study, "format": file_format,
            "written": written, "not_written": left_out,
        })  # fmt: skip
        return
    for each in written:
        click.echo(each["path"])


def _drawings(source: Source, mapping: Mapping[str, str], store: Store) -> Sequence[Drawing]:
    """Return the figures of the publication. Raises BadInput for a run that has none because no block is finished."""
    from vtax.report.analysis.drawings import drawings, finished_blocks

    analysis = source.analysis
    found = drawings(analysis, source.data, mapping)
    if found and not finished_blocks(source.data):
        hint = resume_hint(store, analysis.name, analysis.status) or "run the study again"
        raise BadInput(f"{analysis.name} has no finished block to draw", hint=hint)
    return found


def _make(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the directory {output}: {error.strerror}", where="--output") from None


def _write_report(
    source: Source, only: Sequence[str], formatter: Formatter, file_format: str, output: Path
) -> list[dict[str, str]]:
    """(id, title and path of each figure of the report). Raises BadInput for one that it does not have."""
    from vtax.report.chapters import report
    from vtax.report.renderers.figures import file_of, id_of
    from vtax.report.replacing import replacing

    name, document = source.analysis.name, report(source)
    drawn: list[Figure | Chart] = [*document.figures(), *document.charts()]
    found = {id_of(each): each for each in drawn if each.key}
    if not found:
        raise BadInput("the report of this run has no figures", where=name, hint="they need a trial that went well")
    _refuse_unknown(only, list(found), f"the report of {name}")
    _make(output)
    written = []
    for number, key in enumerate(only or found, 1):
        notify(f"{number} of {len(only or found)}: {key}")
        path = output / f"{name}-{key}.{file_format}"
        content = file_of(found[key], formatter, file_format)
        with replacing(path) as new:
            new.write_bytes(content)
        written.append({"id": key, "title": formatter.text(found[key].title), "path": str(path.resolve())})
    return written


def _refuse_unknown(only: Sequence[str], ids: Sequence[str], where: str) -> None:
    """Raise BadInput for an id that is not among those that there are. where: what has them."""
    for name in only:
        if name not in ids:
            near = get_close_matches(name, ids, 3) or ids
            raise BadInput(f"{where} has no figure {name!r}", where="--only", hint=f"figures: {', '.join(near)}")


def _refuse_without_value(named: Sequence[Drawing]) -> None:
    """Raise BadInput for a figure that was asked for by its name and has no value."""
    from vtax.report.renderers.format import english
    from vtax.report.views.paper_figures import why_not

    for each in named:
        if not each.is_measured:
            hint = "--map THERE=HERE draws another platform of the run in its place"
            raise BadInput(f"{each.figure.id} is {english(why_not(each))}", where="--only", hint=hint)


def _write(
    chosen: Sequence[Drawing], analysis: Analysis, formatter: Formatter, file_format: str, output: Path
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """(id, title and path of each figure that was written, id and reason of each that was not)."""
    from vtax.report.parts.figure_charts import chart_of, title_of
    from vtax.report.renderers.charts import file_of
    from vtax.report.renderers.format import english
    from vtax.report.replacing import replacing
    from vtax.report.views.paper_figures import why_not

    written: list[dict[str, str]] = []
    left_out: list[dict[str, str]] = []
    for number, each in enumerate(chosen, 1):
        if not each.is_measured:
            left_out.append({"id": each.figure.id, "why": english(why_not(each))})
            notify(f"{each.figure.id}: {english(why_not(each))}")
            continue
        path = output / f"{analysis.name}-{each.figure.id}.{file_format}"
        notify(f"{number} of {len(chosen)}: {each.figure.id}")
        content = file_of(chart_of(each, analysis), formatter, file_format)
        with replacing(path) as new:
            new.write_bytes(content)
        written.append({"id": each.figure.id, "title": formatter.text(title_of(each)), "path": str(path.resolve())})
    return written, left_out


def _chosen(found: Sequence[Drawing], only: Sequence[str], run: str) -> list[Drawing]:
    """Return the figures that are wanted. Raises BadInput for an id that the study does not have, and without any
    figure."""
    ids = [each.figure.id for each in found]
    if not ids:
        hint = "--report writes those of the report; docs/study-files.md shows how a study declares figures"
        raise BadInput("the study of this run declares no figures", where=run, hint=hint)
    _refuse_unknown(only, ids, f"the study of {run}")
    return [each for each in found if not only or each.figure.id in only]
