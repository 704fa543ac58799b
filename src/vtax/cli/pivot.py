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

    from vtax.report.analysis.pivot import Axes
    from vtax.store.store import Store

_NAMES = {"rows": "--rows", "cols": "--cols", "panel": "--panel"}
_OTHERS = {"metric": "--metric", "value": "--value"}


def pivot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rows, --cols, --panel, --metric and --value: parameters of these names, see `requested`."""
    options = (
        click.option(
            "--rows", metavar="FACTOR", shell_complete=factors_of_run,
            help="Show one figure a cell in a table with a row for each level of this factor (default: platform).",
        ),
        click.option("--cols", metavar="FACTOR", shell_complete=factors_of_run, help="A column for each level."),
        click.option("--panel", metavar="FACTOR", shell_complete=factors_of_run, help="A table for each level."),
        click.option(
            "--metric", metavar="METRIC", shell_complete=metrics_of_run, help="The metric of such a table."
        ),
        click.option(
            "--value", type=click.Choice(["mean", "ratio", "efficiency", "overhead"]),
            help="The figure of such a table (default: mean); ratios are to the baseline.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def requested(options: dict[str, Any]) -> Axes | None:
    """The axes that were requested for; None for none, and their parameters are removed then.

    Raises BadInput for --metric or --value without an axis.
    """
    from vtax.report.analysis.pivot import PLATFORM, Axes

    rows, columns, panels = (options.pop(name) for name in _NAMES)
    if rows or columns or panels:
        return Axes(rows or PLATFORM, columns or "", panels or "")
    for name, option in _OTHERS.items():
        if options.pop(name) is not None:
            raise BadInput(f"{option} is of a table by factors", hint="add --rows FACTOR or --cols FACTOR")
    return None


def refuse_beside_axes(raw: str | None, views: Mapping[str, Any]) -> None:
    """Raise BadInput for views and raw output beside axes."""
    chosen = ["raw"] if raw is not None else [name for name, given in views.items() if given]
    if chosen:
        raise BadInput(f"--{chosen[0]} excludes --rows, --cols and --panel", hint="use one of them")


def print_pivot(
    store: Store, run_name: str, axes: Axes, options: dict[str, Any], *, as_json: bool, every_metric: bool,
    language: str, console: Console,
) -> None:  # fmt: skip
    """Print a table by factors. options: those of filters, --metric and --value."""
    from dataclasses import replace

    from vtax.report.analysis.pivot import pivot
    from vtax.report.analysis.source import source_of
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.language import language as chosen_language
    from vtax.report.renderers.terminal import render
    from vtax.report.views.pivot import document_of

    only = wanted(options)
    analysis = source_of(store, run_name, wanted=replace(only, where=())).analysis
    found = pivot(
        analysis, axes, options["value"] or "mean", metric=options["metric"] or "", where=only.where,
        every_metric=every_metric,
    )  # fmt: skip
    document = document_of(found, analysis)
    if as_json:
        filtered = {"filter": analysis.filter.plain()} if analysis.filter else {}
        print_json({"schema": "vtax.pivot/1", "run": analysis.name, **filtered, **values_of(document)})
        return
    render(document, console, chosen_language(language))
