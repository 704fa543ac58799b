"""`vtax show`: prints the result of a run, or another view of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.arguments import run_argument
from vtax.cli.filters import FILTERS, filter_options, wanted
from vtax.cli.output import existing_store, json_option, print_json, resume_hint, width
from vtax.cli.pivot import pivot_options, print_pivot, refuse_beside_axes, requested
from vtax.cli.raw import EVERY, print_raw
from vtax.cli.streams import document_stream
from vtax.errors import BadInput
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source, source_of
from vtax.report.answers.result import view as result
from vtax.report.parts.header import filter_line
from vtax.report.renderers.format import english
from vtax.report.views.base import Options, View
from vtax.report.views.registry import DEFAULT, views

if TYPE_CHECKING:
    from rich.console import Console


_WITHOUT_OPTIONS = "vtax.show.without_options"


class _Command(click.Command):
    """Finds the options of views, which imports every view, only where an argument could be one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_options = any(arg.startswith("-") for arg in args)
        ctx.meta[_WITHOUT_OPTIONS] = not ctx.resilient_parsing and not has_options
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not ctx.meta.get(_WITHOUT_OPTIONS):
            _add_views()
        return super().get_params(ctx)


@click.command("show", epilog=FILTERS, cls=_Command)
@run_argument
@click.option(
    "--all", "every_metric", is_flag=True, help="Show the table of every metric, and every warning."
)
@click.option(
    "--raw",
    metavar="[TRIAL]",
    is_flag=False,
    flag_value=EVERY,
    help="Print the raw output of a trial, by its number in --trials; without TRIAL, of all trials.",
)
@pivot_options
@filter_options
@json_option
def command(
    run_name: str, every_metric: bool, raw: str | None, as_json: bool, **options: Any
) -> None:
    """Print the result of RUN (default: the last run), or other views of it."""
    store = existing_store()
    axes = requested(options)
    if axes:
        refuse_beside_axes(
            raw, {name: options[_parameter(name)] for name in _optional_view_names(options)}
        )
        print_pivot(
            store,
            run_name,
            axes,
            options,
            as_json=as_json,
            every_metric=every_metric,
            console=console(),
        )
        return
    filter_words = wanted(options)
    view_names = [name for name in _optional_view_names(options) if options[_parameter(name)]]
    if raw is not None:
        if view_names:
            raise BadInput(
                f"--raw and --{view_names[0]} exclude each other", hint="use one of them"
            )
        print_raw(store, run_name, raw, filter_words, as_json=as_json)
        return
    source = source_of(store, run_name, wanted=filter_words)
    if view_names:
        print_views(view_names, source, as_json=as_json, every_metric=every_metric)
    else:
        print_result(source, as_json=as_json, every_metric=every_metric)


def _parameter(name: str) -> str:
    return f"view_{name.replace('-', '_')}"


def _optional_view_names(options: Mapping[str, Any]) -> list[str]:
    """Return the views that the command line could name: none of them without any option."""
    has_views = any(name.startswith(_parameter("")) for name in options)
    return [view.name for view in _optional_views()] if has_views else []


@cache
def _add_views() -> None:
    """Add an option for every registered view before the shared options."""
    for number, view in enumerate(_optional_views(), start=1):
        names = [f"--{view.name}", _parameter(view.name)]
        command.params.insert(number, click.Option(names, is_flag=True, help=english(view.help)))


def _optional_views() -> list[View]:
    """Return the views without a command of their own, but for the default one."""
    optional = []
    for view in views().values():
        if not view.command and view.name != DEFAULT:
            optional.append(view)
    return optional


def print_result(source: Source, *, as_json: bool, every_metric: bool = False) -> None:
    """Print the result table on stdout, or as JSON (which always has every metric)."""
    options = Options("all" if every_metric else "brief")
    if as_json:
        from vtax.report.answers.result.exported import exported_whole
        from vtax.report.renderers.json import plain

        print_json(plain(exported_whole(source)))
        return
    print_document(result.VIEW.document(source, options), as_json=False)
    if source.store:
        hint = resume_hint(source.store, source.analysis.name, source.analysis.status)
        if hint:
            click.echo(hint)


def console() -> Console:
    """Return the console for results; its width is vtax.cli.output.width()."""
    from rich.console import Console

    class Printer(Console):
        def on_broken_pipe(self) -> None:
            """Do nothing: the caller handles it; rich would exit."""
            raise BrokenPipeError

    return Printer(file=document_stream(), highlight=False, width=width())


def print_document(
    document: doc.Document, *, as_json: bool, schema: str = "", analysis: Analysis | None = None
) -> None:
    """Print a document, or its values as JSON; those of a run after the schema, the run and its study.

    schema: name of the form of the values. analysis: of the run.
    """
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.language import of_reader
    from vtax.report.renderers.terminal import render

    if not as_json:
        render(document, console(), of_reader())
        return
    values = values_of(document)
    if analysis:
        values = {"schema": schema, "run": analysis.name, "study": analysis.study, **values}
    print_json(values)


def print_views(
    view_names: Collection[str], source: Source, *, as_json: bool, every_metric: bool
) -> None:
    """Print the views of these names."""
    from vtax.report.renderers.json import as_json as values_of

    analysis, options = source.analysis, Options("all" if every_metric else "brief")
    documents = {}
    for name, view in views().items():
        if name in view_names:
            documents[name] = _with_filter(view.document(source, options), analysis)
    if as_json:
        values: dict[str, Any] = {
            "schema": "vtax.views/1",
            "run": analysis.name,
            "confidence": analysis.rule.confidence,
        }
        if analysis.filter:
            values["filter"] = analysis.filter
        for name, document in documents.items():
            values[name] = values_of(document)
        print_json(values)
        return
    for document in documents.values():
        print_document(document, as_json=False)


def _with_filter(document: doc.Document, analysis: Analysis) -> doc.Document:
    """Return a view with a line that names the filter, unless it has one or nothing is filtered."""
    line = filter_line(analysis)
    if line == "" or line in document.lead:
        return document
    return replace(document, lead=(*document.lead, line))
