"""Options that filter the shown results of a run; the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.arguments import listed, split_at_commas
from vtax.cli.completion import platforms_of_run

if TYPE_CHECKING:
    from vtax.report.analysis.source import FilterWords

FILTERS = (
    "--platform, --benchmark and --where filter the output. The analysis stays the same: means, ratios and verdicts "
    "are those of the whole run, corrected for all of its comparisons. The baseline is always shown."
)
"""Help text of a command with these options."""


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --platform, --benchmark and --where: parameters `platforms`, `benchmarks` and `where`, see `wanted`."""
    options = (
        click.option(
            "--platform",
            "platforms",
            multiple=True,
            callback=listed,
            metavar="P,...",
            shell_complete=platforms_of_run,
            help="Show these platforms only (repeatable).",
        ),
        click.option(
            "--benchmark",
            "benchmarks",
            multiple=True,
            callback=split_at_commas,
            metavar="B,...",
            help="Show these benchmarks only, by name or label (repeatable).",
        ),
        click.option(
            "--where",
            "where",
            multiple=True,
            metavar="FACTOR=LEVEL,...",
            help="Show only cells with these levels, as in 'direction=send|receive link.mtu=1500' (repeatable).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def wanted(options: dict[str, Any]) -> FilterWords:
    """Remove the parameters of `filter_options` from a command's parameters."""
    from vtax.report.analysis.source import FilterWords

    return FilterWords(options.pop("platforms"), options.pop("benchmarks"), options.pop("where"))
