"""Options of `vtax show` that arrange figures by factors: rows, columns and panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.completion import factors_of_run, metrics_of_run
from vtax.cli.filters import wanted
from vtax.cli.output import print_json
from vtax.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from vtax.report.answers.pivot.compute import Axes
    from vtax.store.store import Store

_NAMES = {"rows": "--rows", "cols": "--cols", "panel": "--panel"}
_OTHERS = {"metric": "--metric", "value": "--value"}
_VALUES = ("mean", "efficiency", "p50", "p95", "p99")


def pivot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rows, --cols, --panel, --metric, --value and --to, which `requested` reads by these names."""
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
    )
    for option in reversed(options):
        command = option(command)
    return command


def requested(options: dict[str, Any]) -> Axes | None:
    """Return the axes that were requested for; None for none, and their parameters are removed then.

    Raises BadInput for --metric or --value without an axis.
    """
    rows, columns, panels = (options.pop(name) for name in _NAMES)
    if rows or columns or panels or options["to"]:
        from vtax.levels import PLATFORM
        from vtax.report.answers.pivot.compute import Axes

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
    view_names = (
        ["raw"] if raw is not None else [name for name, is_given in views.items() if is_given]
    )
    if view_names:
        raise BadInput(
            f"--{view_names[0]} excludes --rows, --cols and --panel", hint="use one of them"
        )


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
    """Print a table by factors. options: those of filters, --metric, --value and --to."""
    from dataclasses import replace

    from vtax.report.analysis.source import source_of
    from vtax.report.answers.pivot.compute import pivot
    from vtax.report.answers.pivot.show import document_of
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.language import of_reader
    from vtax.report.renderers.terminal import render

    filter_words = wanted(options)
    source = source_of(store, run_name, wanted=replace(filter_words, where=()))
    analysis = source.analysis
    table = pivot(
        source,
        axes,
        options["value"] or "mean",
        metric=options["metric"] or "",
        where=filter_words.where,
        to=options["to"] or "",
        every_metric=every_metric,
    )
    document = document_of(table)
    if as_json:
        filtered = {"filter": analysis.filter} if analysis.filter else {}
        print_json(
            {"schema": "vtax.pivot/1", "run": analysis.name, **filtered, **values_of(document)}
        )
    else:
        render(document, console, of_reader())
