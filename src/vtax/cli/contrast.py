"""`vtax contrast`: compares any cells, within a run or across runs."""

from __future__ import annotations

import click

from vtax.cli.completion import sides
from vtax.cli.output import json_option, language_option, print_json
from vtax.errors import VtaxError
from vtax.host.home import Home


@click.command("contrast")
@click.argument("treatment", shell_complete=sides)
@click.argument("baseline", shell_complete=sides)
@click.option("--metric", default="", help="Compare this metric; default: every primary one.")
@click.option("--benchmark", "label", default="", help="Compare this benchmark (by its label); default: all.")
@language_option
@json_option
def command(treatment: str, baseline: str, metric: str, label: str, language: str, as_json: bool) -> None:
    """Compare TREATMENT with BASELINE: ratios TREATMENT / BASELINE with intervals and verdicts.

    Each argument is [RUN:]PLATFORM[@factor=level,...]; the default RUN is the last one. Two runs are compared on all
    platforms and points that both have. Several runs a side, RUN,RUN,..., show what differs between sessions of the
    host. Within a run, values are paired by block:

    \b
      vtax contrast podman docker
      vtax contrast lxc@direction=send lxc@direction=receive
      vtax contrast tour-1:podman tour-2:podman
      vtax contrast tour-1 tour-2
      vtax contrast tour-1,tour-2,tour-3 tour-4,tour-5,tour-6
    """
    from vtax.cli.show import console
    from vtax.report.analysis.contrast import run_of, texts_of
    from vtax.report.analysis.source import source_of
    from vtax.report.renderers.format import english
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.language import language as chosen_language
    from vtax.report.renderers.terminal import render
    from vtax.report.views.base import Options
    from vtax.report.views.registry import views
    from vtax.store.store import LAST, Store

    store = Store.existing(Home.from_environment().store_url)
    runs = [run_of(store, each)[0] for side in (treatment, baseline) for each in texts_of(store, side)]
    source = source_of(store, LAST if store.open_run(LAST).name in runs else runs[0])
    options = Options(arguments=(treatment, baseline), metric=metric, label=label)
    document = views()["contrast"].document(source, options)
    if as_json:
        print_json(values_of(document))
    elif document.nothing == "":
        render(document, console(), chosen_language(language))
    if document.nothing != "":
        hint = f"see what was measured: {', '.join(f'vtax show {run}' for run in dict.fromkeys(runs))}"
        raise VtaxError("there is nothing to compare", where=english(document.nothing), hint=hint)
