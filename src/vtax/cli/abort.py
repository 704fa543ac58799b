"""`vtax abort`: ends a run that is not finished."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import click

from vtax.cli.completion import unfinished_runs
from vtax.cli.orphans import close_orphans
from vtax.cli.output import need_root, notify, say
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.lock import measuring_lock, measuring_process
from vtax.host.waiting import wait_until
from vtax.store.store import Store

_STOP_S = 300.0  # a trial may have to end, and a guest


@click.command("abort")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=unfinished_runs)
def command(run_name: str) -> None:
    """End RUN (default: the last run), and stop it if it measures.

    What was measured is kept; vtax resume can go on with it.
    """
    need_root("aborting a run")
    home = Home.existing()
    run = Store.existing(home.store_url).open_run(run_name)
    if run.status == "finished":
        raise BadInput(f"{run.name} is finished", hint=f"vtax show {run.name}")
    name, process = measuring_process(home)
    is_measuring = process is not None and name == run.name
    if process is not None and is_measuring:
        _stop(process, run.name)
    with (
        suppress(BadInput),
        measuring_lock(f"vtax abort {run.name}"),
    ):  # another command may hold it
        close_orphans(home)
    run = Store.existing(home.store_url).open_run(run.name)
    if run.status in ("running", "paused") or (is_measuring and run.status == "interrupted"):
        run.finish("interrupted", "ended by vtax abort", time.time())
    say(f"{run.name} is ended; what was measured is kept")


def _stop(process: int, run_name: str) -> None:
    """Terminate the process that measures a run, and wait for its end. Raises VtaxError."""
    os.kill(process, signal.SIGTERM)
    notify(f"{run_name} is measured by process {process}; waiting for its end")
    wait_until(
        lambda: measuring_process()[1] != process,
        _STOP_S,
        0.1,
        otherwise=lambda: VtaxError(
            f"process {process} did not end within {_STOP_S:g} s",
            hint=f"sudo kill -KILL {process}, then vtax clean",
        ),
    )
