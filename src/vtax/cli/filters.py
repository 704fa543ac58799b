"""The options that select what of a run is shown, alike in every command that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.completion import platforms_of_run

if TYPE_CHECKING:
    from vtax.report.analysis.filters import Wanted

FILTERS = (
    "--platform, --benchmark and --where select what is shown. They judge nothing again: means, ratios and verdicts "
    "are those of the whole run, corrected for all of its comparisons. The baseline stays beside the platforms that "
    "are named."
)
"""For the help of a command that has these options."""


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --platform, --benchmark and --where: parameters `platforms`, `benchmarks` and `where`, see `wanted`."""
    options = (
        click.option(
            "--platform", "platforms", multiple=True, metavar="P", shell_complete=platforms_of_run,
            help="Show platform P only (repeatable).",
        ),
        click.option(
            "--benchmark", "benchmarks", multiple=True, metavar="B",
            help="Show benchmark B only, by its name or label (repeatable).",
        ),
        click.option(
            "--where", "where", multiple=True, metavar="FACTOR=LEVEL",
            help="Show only what has this level (repeatable; levels of one factor are alternatives).",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def wanted(chosen: dict[str, Any]) -> Wanted:
    """Take the parameters of `filter_options` out of a command's."""
    from vtax.report.analysis.filters import Wanted

    return Wanted(chosen.pop("platforms"), chosen.pop("benchmarks"), chosen.pop("where"))
