"""Asks before a run whose estimated time is long."""

from __future__ import annotations

import sys

import click

from vtax.cli.plan import longest_s
from vtax.errors import BadInput
from vtax.runner.plan import Plan
from vtax.units import format_duration

CONFIRMED_ABOVE_S = 3600.0

yes_option = click.option(
    "--yes", "-y", is_flag=True, help="Skip confirmation of a run of more than an hour."
)


def confirm(plan: Plan) -> None:
    """Ask whether to start a run that may last more than an hour. Raises BadInput for no, and without a terminal."""
    duration_s = longest_s(plan)
    if duration_s <= CONFIRMED_ABOVE_S:
        return
    up_to = f"the run may last up to {format_duration(duration_s)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "--yes starts it; --blocks, --budget, --scale or fewer --platforms shorten it"
        raise BadInput(
            f"{up_to}, and there is no terminal to confirm that on", where="--yes", hint=hint
        )
    try:
        answer = click.confirm(f"{up_to[0].upper()}{up_to[1:]}. Start it?", err=True)
    except click.Abort:
        answer = False
    if not answer:
        raise BadInput(
            "nothing was run", hint="--blocks, --budget, --scale or fewer --platforms shorten a run"
        )
