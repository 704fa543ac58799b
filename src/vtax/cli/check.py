"""`vtax check`: a gate for CI, whose exit status says whether anything became slower."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.arguments import share_of
from vtax.cli.completion import platforms_of_run, run_names
from vtax.cli.output import json_option, language_option, print_json
from vtax.errors import BadInput
from vtax.host.home import Home

if TYPE_CHECKING:
    from vtax.report.analysis.check import Checks
    from vtax.report.analysis.source import Source
    from vtax.report.analysis.values import Analysis
    from vtax.store.store import Store

FAILED, UNDECIDED = 1, 3
_MOST_NAMED = 4  # differences of runs in an error


@click.command("check")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option(
    "--margin", metavar="SHARE", help="Largest slowdown that passes, such as 5%; default: the study's margin."
)
@click.option("--strict", is_flag=True, help="Fail with exit status 3 where a comparison is undecided or not tested.")
@click.option(
    "--treatment", default="", metavar="P[@F=L,...]", shell_complete=platforms_of_run,
    help="Check this platform, with --against a name alone; default: every platform but the baseline.",
)  # fmt: skip
@click.option(
    "--baseline", default="", metavar="P[@F=L,...]", shell_complete=platforms_of_run,
    help="Compare with this platform; default: the baseline of the run.",
)  # fmt: skip
@click.option("--metric", default="", help="Check this metric; default: every primary one.")
@click.option(
    "--against", multiple=True, metavar="RUN|BUNDLE,...", shell_complete=run_names,
    help="Compare with these runs, of the store or of files of vtax export, by ratios to the baseline of all runs.",
)  # fmt: skip
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write a JUnit file.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write a summary in Markdown.")
@language_option
@json_option
def command(
    run_name: str, margin: str | None, strict: bool, treatment: str, baseline: str, metric: str,
    against: tuple[str, ...], junit: Path | None, markdown: Path | None, language: str, as_json: bool,
) -> None:  # fmt: skip
    """Check that nothing in RUN (default: the last run) is slower than the baseline by more than a margin.

    A comparison fails when its interval, corrected for all comparisons, lies beyond the margin. It passes when the
    interval lies on the other side, and is undecided where noise allows neither. Exit status: 0 when nothing failed,
    1 when a comparison is slower or has no result, 3 with --strict when one is undecided or not tested, 2 for a wrong
    command.

    vtax run STUDY --ab makes a run of an old and a new platform, which is checked without further options. --against
    compares runs that share no block, RUN,RUN,... on either side; it decides nothing where a side has one session.

    \b
      vtax check tour-1 --margin 5% --junit check.xml --markdown check.md
      vtax check tour-1 --treatment podman --baseline docker
      vtax check tour-4,tour-5 --against tour-1,tour-2 --margin 5%
      vtax check tour-1 --against main.vtax.gz
    """
    from vtax.cli.show import console
    from vtax.report.renderers.json import as_json as values_of
    from vtax.report.renderers.junit import junit as as_junit
    from vtax.report.renderers.language import language as chosen_language
    from vtax.report.renderers.markdown import markdown as as_markdown
    from vtax.report.renderers.terminal import render
    from vtax.report.replacing import replacing
    from vtax.report.views.check import document_of
    from vtax.store.store import Store

    given, chosen = share_of(margin, "--margin") if margin is not None else None, chosen_language(language)
    store = Store.existing(Home.from_environment().store_url)
    if against:
        found, seconds = _against(store, run_name, against, given, treatment, baseline, metric)
    else:
        found, seconds = _within(store, run_name, given, treatment, baseline, metric)
    document = document_of(found, seconds)
    for path, text_of, option in ((junit, as_junit, "--junit"), (markdown, as_markdown, "--markdown")):
        if path is not None:
            with replacing(path, option) as new:
                new.write_text(text_of(document, chosen), encoding="utf-8")
    if as_json:
        print_json({
            "schema": "vtax.check/1", "run": found.analysis.name, "study": found.analysis.study,
            **values_of(document),
        })  # fmt: skip
    else:
        render(document, console(), chosen)
    sys.exit(FAILED if found.status == "failed" else UNDECIDED if strict and found.status == "undecided" else 0)


def _within(
    store: Store, run_name: str, margin: float | None, treatment: str, baseline: str, metric: str
) -> tuple[Checks, Mapping[str, float]]:
    """The check of a run in itself, and the durations of its cells."""
    from vtax.report.analysis.check import check
    from vtax.report.analysis.source import source_of

    source = source_of(store, run_name)
    return check(store, source.analysis, margin, treatment, baseline, metric), _seconds(source)


def _against(
    store: Store,
    run_name: str,
    against: Sequence[str],
    margin: float | None,
    platform: str,
    baseline: str,
    metric: str,
) -> tuple[Checks, Mapping[str, float]]:
    """The check of runs against others, and the durations of the first one's cells. Raises BadInput where the runs do
    not measure the same, and for a baseline that is named."""
    if baseline:
        raise BadInput("--against compares with the baseline of all runs", where="--baseline", hint="omit it")
    from vtax.report.analysis.against import check_against
    from vtax.report.analysis.source import source_of

    names = [name.strip() for name in run_name.split(",")]
    others = [name.strip() for text in against for name in text.split(",")]
    first, *rest = (source_of(store, name) for name in names)
    found = check_against(
        [first.analysis, *(source.analysis for source in rest)], [_analysis_of(store, each) for each in others],
        margin, platform, metric,
    )  # fmt: skip
    if not found.compared:
        raise BadInput(
            f"{run_name} and {','.join(others)} do not measure the same: {_difference(found)}", where="--against",
            hint="compare runs of the same study with the same settings",
        )  # fmt: skip
    return found, _seconds(first)


def _difference(found: Checks) -> str:
    """Why runs have no comparison in common: other benchmarks, or what differs at the points that they share."""
    from vtax.report.renderers.format import english

    assert found.against is not None
    sides = [
        (runs, list(dict.fromkeys(cell.label for run in runs for cell in run.cells)))
        for runs in (found.against.runs, found.against.others)
    ]
    (_, treated), (_, untreated) = sides
    if not set(treated) & set(untreated):
        return "; ".join(f"{runs[0].name} (study {runs[0].study}) has {', '.join(labels)}" for runs, labels in sides)
    reasons = {
        f"{each.label}: {english(each.reason)}": None
        for each in found.not_tested if each.label in treated and each.label in untreated
    }  # fmt: skip
    only = [
        f"{', '.join(label for label in labels if label not in others)} only in {runs[0].name}"
        for (runs, labels), others in zip(sides, (untreated, treated), strict=True) if set(labels) - set(others)
    ]  # fmt: skip
    return "; ".join([*list(reasons)[:_MOST_NAMED], *only]) or "nothing in common"


def _analysis_of(store: Store, name: str) -> Analysis:
    """A run of the store, or of a bundle. Raises BadInput for neither."""
    from vtax.cli.row_progress import row_progress
    from vtax.report.analysis.result import analyse, analyse_data
    from vtax.store.importing import opened_bundle
    from vtax.store.query import load

    path = Path(name)
    if not path.is_file() and ("/" in name or path.suffix == ".gz"):
        raise BadInput(f"there is no file {name}", where="--against", hint="vtax export RUN writes one")
    if name in store.run_names() or not path.is_file():
        return analyse(store, name)
    with opened_bundle(path, row_progress(f"reading {path.name}")) as run:
        return analyse_data(load(run.engine, run))


def _seconds(source: Source) -> dict[str, float]:
    """Key of a cell -> duration of its trials."""
    found: dict[str, float] = defaultdict(float)
    trials, cells = source.data.trials, source.data.run.cells
    for cell, seconds in zip(trials.cell.tolist(), trials.outside_s.tolist(), strict=True):
        found[cells[cell].key] += seconds if seconds == seconds else 0.0
    return found
