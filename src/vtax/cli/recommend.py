"""`vtax recommend`: ranks the platforms of a run for a workload."""

from __future__ import annotations

import math

import click

from vtax.cli.arguments import listed, run_argument
from vtax.cli.completion import platforms_of_run
from vtax.cli.output import existing_store, json_option
from vtax.errors import BadInput

WEIGHTS_FORM = "for example --weights cpu=1,network=3,disk=1"


@click.command("recommend")
@run_argument
@click.option(
    "--weights",
    metavar="RESOURCE=N,...",
    help="How much each resource counts; others do not count. Default: all measured resources equally.",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    callback=listed,
    metavar="P,...",
    shell_complete=platforms_of_run,
    help="Rank these platforms only (repeatable).",
)
@json_option
def command(run_name: str, weights: str | None, platforms: tuple[str, ...], as_json: bool) -> None:
    """Rank the platforms of RUN (default: the last run) for a workload.

    The score of a platform is the weighted geometric mean of its percent of native for cpu, memory,
    disk, network, kernel (system calls), start (of guests) and application, as far as the run
    measured them. Costs count only if they are named: guest-memory (of runs with several guests at
    once), guest-start, and host-cpu and energy per unit of work. The output has the score of every
    platform with its interval, the resource that decides, and the weights at which another platform
    would be first. If a resource was not tested on a platform, its place is a range, with the
    reason; a resource that the run does not measure is left out, and listed first.

    \b
      vtax recommend tour-1 --weights cpu=1,network=3,disk=1,guest-start=1
    """
    from vtax.cli.show import print_document
    from vtax.report.analysis.source import FilterWords, source_of
    from vtax.report.answers.recommend.compute import recommend
    from vtax.report.answers.recommend.view import document_of

    given_weights = None if weights is None else weights_of(weights)
    source = source_of(existing_store(), run_name, wanted=FilterWords(platforms, (), ()))
    analysis = source.whole.analysis
    document = document_of(recommend(analysis, given_weights, source.analysis.filter.platforms))
    print_document(document, as_json=as_json, schema="vtax.recommend/1", analysis=analysis)


def weights_of(text: str) -> dict[str, float]:
    """Return the weight of each resource in `cpu=1,network=3`. Raises BadInput for another form, and for what is no weight."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = map(str.strip, part.partition("="))
        if not (name and equals and number):
            raise BadInput(
                f"--weights {part.strip() or text} is not of the form RESOURCE=N", hint=WEIGHTS_FORM
            )
        if name in weights:
            raise BadInput(
                f"{name} has two weights", where=f"--weights {text}", hint="name each resource once"
            )
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not 0 <= weight < math.inf:
            raise BadInput(
                f"the weight of {name} is {number}, not a number from 0 on",
                where=f"--weights {text}",
                hint=WEIGHTS_FORM,
            )
        weights[name] = weight
    if not any(weights.values()):
        raise BadInput("all weights are 0", where=f"--weights {text}", hint=WEIGHTS_FORM)
    return weights
