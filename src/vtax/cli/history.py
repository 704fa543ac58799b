"""`vtax history`: a study over its runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

import click

from vtax.cli.arguments import listed, moment_of
from vtax.cli.completion import studies_with_runs
from vtax.cli.output import existing_store, json_option, print_json, print_path, print_table
from vtax.cli.outputs import OutputFile
from vtax.cli.row_progress import PLAIN_S, StatusLine
from vtax.errors import BadInput, VtaxError


@click.command("history")
@click.argument("study", default="", shell_complete=studies_with_runs)
@click.option("--metric", default="", help="Show this metric; default: every primary one.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    callback=listed,
    metavar="P,...",
    help="Show these platforms only (repeatable).",
)
@click.option(
    "--since",
    metavar="DATE",
    help="Leave out runs that started before this day, such as 2026-01-31, in this host's time zone.",
)
@click.option(
    "--value",
    type=click.Choice(("efficiency", "mean")),
    default="efficiency",
    show_default=True,
    help="Show ratios to the baseline, or means in the unit of the metric.",
)
@click.option(
    "--output",
    "-o",
    type=OutputFile(),
    help="Write an HTML file, with a chart of every metric.",
)
@json_option
def command(
    study: str,
    metric: str,
    platforms: tuple[str, ...],
    since: str | None,
    value: Literal["efficiency", "mean"],
    output: Path | None,
    as_json: bool,
) -> None:
    """Show the metrics of STUDY over its finished runs, with intervals and change points; without it, list studies.

    Runs are listed in order of time, from all hosts. Runs whose baseline, guest, topology,
    parameters or link differ are shown separately, with the difference. At a change point, the
    command prints what else differs between the runs before and after it: kernel, microcode, image,
    hypervisor, versions.

    \b
      vtax history tour
      vtax history tour --metric throughput --platform podman
      vtax history tour --since 2026-01-31 -o tour.html
    """
    if not study:
        return _print_studies(as_json=as_json)
    from vtax.cli.show import print_document
    from vtax.report.answers.history.compute import history
    from vtax.report.answers.history.show import document_of
    from vtax.report.renderers.format import english

    if output and as_json:
        raise BadInput("--output and --json exclude each other", hint="use one of them")
    answer = history(
        existing_store(),
        study,
        metric=metric,
        platforms=platforms,
        quantity=value,
        watch=_progress(study),
        since=moment_of(since, "--since") if since else 0.0,
    )
    document = document_of(answer)
    if document.nothing != "":
        raise VtaxError(
            "there is nothing to show",
            where=english(document.nothing),
            hint=f"vtax show {answer.runs[-1].name}",
        )
    if output:
        from vtax.report.renderers.html import html
        from vtax.report.renderers.language import of_reader
        from vtax.report.replacing import replacing

        with replacing(output) as new:
            new.write_text(html(document, of_reader()), encoding="utf-8")
        print_path(output)
    else:
        print_document(document, as_json=as_json)


def _print_studies(*, as_json: bool) -> None:
    """Print the studies that have runs here, that with the newest first."""
    from vtax.store.listing import studies

    summaries = studies(existing_store())
    if as_json:
        print_json(summaries)
        return
    rows = []
    for study in summaries:
        newest = datetime.fromtimestamp(study.started_at).date().isoformat()
        rows.append((study.name, str(study.finished), newest))
    print_table(("study", "finished runs", "newest run"), rows)


def _progress(study: str) -> Callable[[int, int], None]:
    """Return what shows how many runs were read, when that lasts."""
    status = StatusLine(plain_first_s=PLAIN_S)

    def watch(count: int, total: int) -> None:
        if count == total:
            status.end()
        elif status.is_due:
            status.show(f"history of {study}: {count} of {total} runs read")

    return watch
