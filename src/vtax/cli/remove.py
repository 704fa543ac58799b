"""`vtax remove`: delete runs from the store."""

from __future__ import annotations

import click

from vtax.cli.output import print_table, tell
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.store.store import Store


@click.command("remove")
@click.argument("run_names", metavar="RUN...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(run_names: tuple[str, ...], yes: bool) -> None:
    """Delete each RUN and all that was measured in it from the store, for good; reports already written stay."""
    store = Store.existing(Home.from_environment().store_url)
    named = {store.open_run(name).name for name in run_names}
    runs = [run for run in store.runs() if run.name in named]
    if running := [run.name for run in runs if run.status == "running"]:
        raise BadInput(
            f"{', '.join(running)} still runs",
            cure="stop it with Ctrl-C; if it was killed, wait until nothing else measures on this host",
        )
    print_table(("run", "study", "status", "trials"), [(r.name, r.study, r.status, str(r.trials)) for r in runs])
    if not yes:
        click.confirm("delete " + ("this run" if len(runs) == 1 else f"these {len(runs)} runs"), abort=True)
    for run in runs:
        store.remove_run(run.name)
        tell(f"{run.name} removed")
