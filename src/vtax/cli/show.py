"""`vtax show`: the result of a run in the terminal, or a further look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vtax.cli.output import how_to_go_on, json_option, print_json, width
from vtax.host.home import Home
from vtax.report.analysis import RESAMPLES, Analysis, analyse_data
from vtax.report.table import as_json as analysis_json
from vtax.report.table import put, render
from vtax.store.query import RunData, load, samples, used
from vtax.store.query import counters as counters_of
from vtax.store.store import Store

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@click.command("show")
@click.argument("run_name", metavar="[RUN]", default="last")
@click.option("--all", "every_metric", is_flag=True, help="Every metric, not only the primary ones.")
@click.option("--variance", is_flag=True, help="Where the noise is, what drifts, and how many blocks and trials pay.")
@click.option("--ranking", is_flag=True, help="How probably each platform is the best, the second, ... the last.")
@click.option("--interaction", is_flag=True, help="Whether factors change the overhead.")
@click.option("--counters", is_flag=True, help="CPU, bytes and losses at every hop of the network benchmarks.")
@click.option("--audit", is_flag=True, help="What differs between guests; with --all, every field.")
@json_option
def command(
    run_name: str,
    every_metric: bool,
    variance: bool,
    ranking: bool,
    interaction: bool,
    counters: bool,
    audit: bool,
    as_json: bool,
) -> None:
    """Print the result of RUN (default: the last one), or a further look at it."""
    store = Store.existing(Home.from_environment().store_url)
    data = load(store.engine, store.open_run(run_name))
    is_full = as_json or every_metric  # every figure of a cell is listed
    analysis = analyse_data(data, resamples=RESAMPLES if is_full else 0)
    wanted = {
        "variance": variance, "ranking": ranking, "interaction": interaction, "counters": counters, "audit": audit,
    }  # fmt: skip
    views = [name for name, is_wanted in wanted.items() if is_wanted]
    if views:
        _print_views(views, data, analysis, store, as_json=as_json, every_metric=every_metric)
    else:
        print_result(analysis, as_json=as_json, every_metric=every_metric)


def print_result(analysis: Analysis, *, as_json: bool, every_metric: bool = False) -> None:
    """The result table on stdout, or the same as JSON (which always holds every metric)."""
    if as_json:
        print_json(analysis_json(analysis))
        return
    render(analysis, console(), every_metric=every_metric)
    if go_on := how_to_go_on(analysis.name, analysis.status):
        click.echo(go_on)


def console() -> Console:
    """Where results are printed, and how wide: see vtax.cli.output.width."""
    from rich.console import Console

    class Printer(Console):
        def on_broken_pipe(self) -> None:
            """Left to the caller: rich would exit."""
            raise BrokenPipeError

    return Printer(highlight=False, width=width())


def _print_views(
    views: list[str], data: RunData, analysis: Analysis, store: Store, *, as_json: bool, every_metric: bool
) -> None:
    parts: list[RenderableType] = []
    plain: dict[str, Any] = {"schema": "vtax.views/1", "run": analysis.name, "confidence": analysis.rule.confidence}
    for view in views:
        shown, plain[view] = _view(view, data, analysis, store, every_metric)
        parts += shown
    if as_json:
        print_json(plain)
    else:
        put(parts, console())


def _view(
    view: str, data: RunData, analysis: Analysis, store: Store, every_metric: bool
) -> tuple[list[RenderableType], list[dict[str, Any]] | dict[str, Any]]:
    """(what the terminal shows, the same as JSON)."""
    from vtax.report import views

    if view == "audit":
        from vtax.report.audit import audit, audit_json, audit_parts

        audited = audit(analysis)
        return audit_parts(audited, every_field=every_metric), audit_json(audited)

    if view == "variance":
        from vtax.report.noise import noise

        within = samples(store.engine, data.run)
        tables = noise(data, analysis, every_metric=every_metric, samples=within)
        return views.noise_parts(tables, analysis), views.noise_json(tables, analysis)
    if view == "ranking":
        from vtax.report.ranking import rankings

        ranked = rankings(analysis, every_metric=every_metric)
        return views.ranking_parts(ranked), views.ranking_json(ranked)
    if view == "counters":
        from vtax.report.counted import counted, counted_json, counted_parts

        cells = counted(data, counters_of(store.engine, data.run), used(store.engine, data.run))
        return counted_parts(cells), counted_json(cells)
    from vtax.report.factors import factor_effects

    found = factor_effects(analysis, every_metric=every_metric)
    return views.factor_parts(found, analysis), views.factors_json(found)
