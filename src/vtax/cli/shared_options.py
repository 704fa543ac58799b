"""Options of commands that measure, and of those that have others measure, without what measuring imports."""

from __future__ import annotations

import click

trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Allow root to run the programs and configurations that the study names, now and later.",
)
tune_host_option = click.option(
    "--tune-host",
    is_flag=True,
    help="Set the host's tunables during the run (see vtax doctor) and restore them afterwards.",
)
