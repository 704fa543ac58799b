"""`vtax compare`: compares platforms, levels and runs, and fails where one is slower or costs more, for CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtax.cli.completion import run_names, sides
from vtax.cli.gate import (
    ConditionCommand,
    conditions_of,
    detect_option,
    junit_option,
    margins_of,
    run_gate,
    strict_option,
)
from vtax.cli.output import existing_store, json_option
from vtax.cli.outputs import OutputFile
from vtax.errors import BadInput, VtaxError
from vtax.stats.terms import Quantity

if TYPE_CHECKING:
    from vtax.report.analysis.compared import Contrasts
    from vtax.store.store import Store


@click.command("compare", cls=ConditionCommand)
@click.argument("treatment", metavar="[A]", default="", shell_complete=sides)
@click.argument("baseline", metavar="[B]", default="", shell_complete=sides)
@click.option(
    "--run",
    "run_name",
    default="last",
    show_default=True,
    metavar="RUN",
    shell_complete=run_names,
    help="The run of a side that names none.",
)
@click.option(
    "--fail-if",
    "fail_if",
    callback=margins_of,
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if A is slower than B, or costs more host CPU, by more than this, such as 5% or "
    "slower-by 5%.",
)
@detect_option
@strict_option
@click.option("--metric", default="", help="Compare this metric; default: every primary one.")
@click.option(
    "--benchmark", "label", default="", help="Compare this benchmark (by its label); default: all."
)
@junit_option
@click.option(
    "--markdown",
    type=OutputFile(),
    metavar="FILE",
    help="Write what the gate found in Markdown.",
)
@json_option
def command(
    treatment: str,
    baseline: str,
    run_name: str,
    fail_if: dict[Quantity, float] | None,
    detect: str | None,
    strict: bool,
    metric: str,
    label: str,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Compare A with B: percent of B with intervals and verdicts, or a gate for CI.

    A side is [RUN:]PLATFORM[@factor=level,...], a run, or several runs, RUN,RUN,...; without B it is the baseline of
    the run. Within a run, values are paired by block. Two runs are compared at all platforms and points of both.

    \b
      vtax compare podman docker
      vtax compare lxc@direction=send lxc@direction=receive
      vtax compare tour-1:podman tour-2:podman
      vtax compare tour-1,tour-2,tour-3 tour-4,tour-5,tour-6

    With --fail-if, --detect or --strict it is a gate. A comparison fails if its interval, corrected
    for all comparisons of a metric, lies beyond the limit: slower-by 5% is 1 / 1.05 of B's rates, or
    1.05 of its times, and costs-more-by 5% is 1.05 of its host CPU for the same work; 5% is both.
    It passes if the interval lies on the other side, and is undecided if noise allows neither. A
    gate also accepts one run, whose platforms are compared with its baseline, and bundles:

    \b
      vtax compare tour-1 --fail-if 5% --detect 10% --junit check.xml
      vtax compare tour-4,tour-5 tour-1,tour-2 --fail-if slower-by 5% --fail-if costs-more-by 10%
      vtax compare tour-1 main.vtax.gz --fail-if slower-by 5%

    Runs that share no block are judged by their ratios to the baseline of both; if a side has only
    one session, nothing is decided. vtax run STUDY --check 5% judges its own run.
    """
    from vtax.cli.show import print_document

    store = existing_store()
    conditions = conditions_of(fail_if, detect, strict=strict)
    if not (fail_if or detect or strict):
        if junit or markdown:
            what = "--junit and --markdown are of a gate, and there is none"
            raise BadInput(what, where="vtax compare", hint="add --fail-if 5%")
        _show(store, (treatment, baseline), run_name, metric, label, as_json=as_json)
        return
    document, checks = run_gate(
        store, (treatment, baseline), run_name, conditions, (metric, label), (junit, markdown)
    )
    print_document(document, as_json=as_json, schema="vtax.gate/1", analysis=checks.analysis)
    sys.exit(checks.exit_status)


def _show(
    store: Store,
    written_sides: tuple[str, str],
    run_name: str,
    metric: str,
    label: str,
    *,
    as_json: bool,
) -> None:
    """Print the comparison of two sides. Raises VtaxError where they have nothing in common."""
    from vtax.cli.show import print_document
    from vtax.report.answers.compare.show import document_of
    from vtax.report.renderers.format import english

    contrasts = _compare(store, written_sides, run_name, metric, label)
    document = document_of(contrasts)
    if as_json or document.nothing == "":
        print_document(document, as_json=as_json)
    if document.nothing != "":
        runs = (*contrasts.treatment.runs, *contrasts.baseline.runs)
        commands = dict.fromkeys(f"vtax show {run.analysis.name}" for run in runs)
        hint = f"see what was measured: {', '.join(commands)}"
        raise VtaxError("there is nothing to compare", where=english(document.nothing), hint=hint)


def _compare(
    store: Store, written_sides: tuple[str, str], run_name: str, metric: str, label: str
) -> Contrasts:
    """Return both sides; a missing one is the baseline of the run. Raises BadInput for names that do not exist."""
    from vtax.report.analysis.result import analyse
    from vtax.report.answers.compare.compute import contrast, home_run, run_of

    treatment, baseline = written_sides
    if not treatment:
        hint = "vtax compare podman docker, or vtax compare RUN --fail-if 5% for all of a run"
        raise BadInput("vtax compare needs two sides", hint=hint)
    run = analyse(store, home_run(store, written_sides, run_name))
    if not baseline:
        if not run_of(store, treatment, run.name)[1]:
            hint = f"vtax show {treatment} prints its result; vtax compare {treatment} RUN2 compares two runs"
            raise BadInput(f"{treatment} is a whole run, and there is no other side", hint=hint)
        baseline = run.baseline
    return contrast(store, treatment, baseline, metric=metric, label=label, run=run)
