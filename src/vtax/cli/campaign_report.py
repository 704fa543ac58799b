"""`vtax campaign report`: the result of a campaign over its hosts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.gate import ConditionCommand, junit_option, margins_of, strict_option
from vtax.cli.output import json_option, notify, print_path
from vtax.cli.outputs import OutputFile
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.stats.terms import ODD_HOSTS, Conditions

if TYPE_CHECKING:
    from vtax.report.analysis.source import Source
    from vtax.report.answers.gate.compute import Checks
    from vtax.report.document import Document
    from vtax.report.views.base import Options


def conditions_of(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> Conditions | None:
    """Return what the conditions of --fail-if say; None without one. Raises BadInput. A callback of click."""
    words = [part.strip() for text in texts for part in text.split(",")]
    others = tuple(text for text in words if text != ODD_HOSTS)
    try:
        margins = margins_of(context, parameter, others)
    except BadInput as error:
        raise BadInput(
            error.what, where=error.where, hint=f"{error.hint}, or --fail-if {ODD_HOSTS}"
        ) from None
    if not texts:
        return None
    return Conditions(margins or {}, odd_hosts=ODD_HOSTS in words)


@click.command("report", cls=ConditionCommand, short_help="Print the result over all hosts.")
@click.argument("directory", type=click.Path(path_type=Path), default=".", metavar="[DIR]")
@click.option("--all", "everything", is_flag=True, help="Show every host and every metric.")
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    metavar="FILE",
    help="Write the whole report as HTML.",
)
@click.option(
    "--fail-if",
    "asked",
    callback=conditions_of,
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if it is slower-by 5%, if it costs-more-by 5%, or for odd-hosts (repeatable).",
)
@strict_option
@junit_option
@json_option
def command(
    directory: Path,
    everything: bool,
    output: Path | None,
    asked: Conditions | None,
    strict: bool,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Print the result of the sessions that were collected: over hosts, by host, before and after a change.

    Their runs become one merged run of the store, which every command shows: vtax show RUN --hosts.

    With --fail-if it is a gate, as that of vtax compare. After a planned change every platform is
    compared with itself before; without one, with the baseline. odd-hosts fails if a host lies
    apart from the others.
    """
    from vtax.campaign.directory import Campaign
    from vtax.campaign.report import reported_run
    from vtax.cli.export import write_documents
    from vtax.report.analysis.source import source_of_run
    from vtax.report.views.base import Options
    from vtax.store.store import Store

    with Store.open(Home.from_environment().store_url) as store:
        with Campaign.open(directory).reporting() as campaign:
            run = reported_run(store, campaign)
        checks = None
        if asked or not output:  # a file is made of the store
            asked = replace(asked, strict=strict) if asked else None
            checks = _print(source_of_run(store, run), asked, junit, output, as_json, everything)
    if output:
        print_path(write_documents((run.name,), "html", output, Options("report")))
    notify(f"the run of all sessions is {run.name}")
    if checks:
        sys.exit(checks.exit_status)


def _print(
    source: Source,
    conditions: Conditions | None,
    junit: Path | None,
    output: Path | None,
    as_json: bool,
    everything: bool,
) -> Checks | None:
    """Print the result unless it goes to a file, and what the gate found, which is returned."""
    from vtax.cli.show import print_document, print_views
    from vtax.report.views.base import Options

    checks, gate = None, None
    if conditions:
        checks, gate = _judge_fleet(source, conditions, junit)
    if as_json and gate:
        print_document(gate, as_json=True, schema="vtax.gate/1", analysis=source.analysis)
    elif as_json and not output:
        print_views(["sessions", "hosts"], source, as_json=True, every_metric=everything)
    elif not output:
        options = Options("all" if everything else "brief")
        print_document(_result_of(source, options), as_json=False)
    if gate and not as_json:
        print_document(gate, as_json=False)
    return checks


def _result_of(source: Source, options: Options) -> Document:
    """Return the result of a run, and what its hosts show where they are several; its summary is of both."""
    from vtax.report.answers.hosts import view as hosts
    from vtax.report.answers.result import view as result
    from vtax.report.document import Titled

    document = result.VIEW.document(source, options)
    of_hosts = hosts.VIEW.document(source, options)
    if of_hosts.nothing != "":
        return document
    chapters = []
    for part in of_hosts.parts:
        if not (isinstance(part, Titled) and part.role == "summary"):
            chapters.append(part)
    return replace(document, parts=(*document.parts, *chapters))


def _judge_fleet(
    source: Source, conditions: Conditions, junit: Path | None
) -> tuple[Checks, Document]:
    """Return what the gate found, and its document, after its file is written."""
    from vtax.cli.gate import document_of_gate
    from vtax.report.answers.gate.fleet import check_fleet
    from vtax.report.answers.hosts.fleet import fleet_of

    fleet = source.of_whole(fleet_of)
    assert fleet is not None
    checks = check_fleet(source.analysis, fleet, conditions)
    return checks, document_of_gate(checks, source, (junit, None))
