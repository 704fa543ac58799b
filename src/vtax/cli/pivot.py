"""Options of `vtax show` that arrange figures by factors: rows, columns and panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.completion import factors_of_run, metrics_of_run
from vtax.cli.filters import wanted
from vtax.cli.output import print_json
from vtax.cli.outputs import OutputFile
from vtax.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from vtax.report.analysis import Analysis
    from vtax.report.analysis.pivot import Axes, Pivot
    from vtax.report.renderers.language import Language
    from vtax.store.store import Store

_NAMES = {"rows": "--rows", "cols": "--cols", "panel": "--panel"}
_OTHERS = {"metric": "--metric", "value": "--value", "figure": "--figure"}
_VALUES = ("mean", "efficiency", "p50", "p95", "p99")
_FORMATS = ("svg", "pdf", "png")


def pivot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rows, --cols, --panel, --metric, --value, --to and --figure, which `requested` reads by these names."""
    options = (
        click.option(
            "--rows",
            metavar="FACTOR",
            shell_complete=factors_of_run,
            help="Show one value per cell, in a table with a row for each level of this factor "
            "(default: platform).",
        ),
        click.option(
            "--cols",
            metavar="FACTOR",
            shell_complete=factors_of_run,
            help="A column for each level.",
        ),
        click.option(
            "--panel",
            metavar="FACTOR",
            shell_complete=factors_of_run,
            help="A table for each level.",
        ),
        click.option(
            "--metric",
            metavar="METRIC",
            shell_complete=metrics_of_run,
            help="The metric of such a table.",
        ),
        click.option(
            "--value",
            type=click.Choice(_VALUES),
            metavar="FIGURE",
            help="The value in such a table: mean (default); efficiency, percent of the baseline; p50, "
            "p95 or p99, percentiles of single values, such as starts.",
        ),
        click.option(
            "--to",
            metavar="FACTOR=LEVEL",
            help="Show each value as percent of the one at this level; the columns are this factor by "
            "default.",
        ),
        click.option(
            "--figure",
            type=OutputFile(),
            metavar="FILE",
            help="Draw such a table as FILE.svg, .pdf or .png: rows as colours, columns along the axis.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def requested(options: dict[str, Any]) -> Axes | None:
    """Return the axes that were requested for; None for none, and their parameters are removed then.

    Raises BadInput for --metric, --value or --figure without an axis.
    """
    from vtax.levels import PLATFORM
    from vtax.report.analysis.pivot import Axes

    rows, columns, panels = (options.pop(name) for name in _NAMES)
    if rows or columns or panels or options["to"]:
        return Axes(rows or PLATFORM, columns or "", panels or "")
    options.pop("to")
    for name, option in _OTHERS.items():
        if options.pop(name) is not None:
            raise BadInput(
                f"{option} needs --rows or --cols", hint="add --rows FACTOR or --cols FACTOR"
            )
    return None


def refuse_beside_axes(raw: str | None, views: Mapping[str, Any]) -> None:
    """Raise BadInput for views and raw output beside axes."""
    chosen = ["raw"] if raw is not None else [name for name, given in views.items() if given]
    if chosen:
        raise BadInput(f"--{chosen[0]} excludes --rows, --cols and --panel", hint="use one of them")


def print_pivot(
    store: Store,
    run_name: str,
    axes: Axes,
    options: dict[str, Any],
    *,
    as_json: bool,
    every_metric: bool,
    console: Console,
) -> None:
    """Print a table by factors, or draw it. options: those of filters, --metric, --value, --to and --figure."""
    from dataclasses import replace

    from vtax.report.analysis.pivot import pivot
    from vtax.report.analysis.source import source_of
    from vtax.report.parts.pivot import document_of
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.language import of_reader
    from vtax.report.renderers.terminal import render

    file, chosen = options["figure"], of_reader()
    if file is not None and file.suffix[1:] not in _FORMATS:
        raise BadInput(f"{file} is no svg, pdf or png", where="--figure", hint="name it FILE.svg")
    only = wanted(options)
    source = source_of(store, run_name, wanted=replace(only, where=()))
    analysis = source.analysis
    table = pivot(
        source,
        axes,
        options["value"] or "mean",
        metric=options["metric"] or "",
        where=only.where,
        to=options["to"] or "",
        every_metric=every_metric,
    )
    document = document_of(table, analysis)
    if file is not None:
        _draw(table, analysis, file, chosen)
    if as_json:
        filtered = {"filter": analysis.filter} if analysis.filter else {}
        print_json(
            {"schema": "vtax.pivot/1", "run": analysis.name, **filtered, **values_of(document)}
        )
    elif file is None:
        render(document, console, chosen)
    else:
        click.echo(file.resolve())


def _draw(pivot: Pivot, analysis: Analysis, file: Path, language: Language) -> None:
    """Write the figure of a table. Raises BadInput where figures of one panel have several units."""
    from vtax.report.parts.pivot_chart import chart_of
    from vtax.report.renderers.figures import file_of
    from vtax.report.renderers.format import Formatter
    from vtax.report.replacing import replacing

    chart = chart_of(pivot, analysis)
    if chart is None:
        raise BadInput(
            "a panel of a figure has one unit, and these metrics have several",
            where="--figure",
            hint="choose one with --metric or --benchmark, add --panel metric, or draw --value efficiency",
        )
    content = file_of(chart, Formatter(language), file.suffix[1:])
    with replacing(file, "--figure") as new:
        new.write_bytes(content)
