"""`vtax resume`: resumes an interrupted run, or begins its next session."""

from __future__ import annotations

from collections.abc import Sequence

import click

from vtax.cli.completion import unfinished_runs
from vtax.cli.measure import conclude, measure, prepare_host, tune_host_option
from vtax.cli.output import need_root, notify
from vtax.cli.plan import announce
from vtax.cli.trust import consented, trust_option
from vtax.counters.host import host_facts
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.platforms.base import HostProgram
from vtax.runner.host_sessions import begin_next, check_next, note_boot
from vtax.runner.plan import host_programs
from vtax.runner.resume import check_host, note_resumption, rebuild_plan, stored_study
from vtax.store.run import RunHandle
from vtax.store.store import Store


@click.command("resume")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=unfinished_runs)
@click.option("--session", is_flag=True, help="Start the next session of RUN, after a reboot or at another hour.")
@trust_option
@tune_host_option
@click.option("--strict", is_flag=True, help="Exit with 1 when a target was missed or a trial failed.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run_name: str, session: bool, trust: bool, tune_host: bool, strict: bool, as_json: bool) -> None:
    """Resume RUN (default: the last run) where it stopped, with the same plan and seed.

    A run with several sessions is paused between them; --session starts the next one. With it, a finished run gets
    one session more, of as many blocks as its first.
    """
    need_root("measuring")
    home = Home.from_environment().ensure()
    store = Store.existing(home.store_url)
    run = store.open_run(run_name)
    programs: Sequence[HostProgram] = ()
    if run.status != "finished" or session:
        loaded = stored_study(run)
        programs = consented(home, host_programs(loaded), loaded.source, trust=trust)
    with measuring_lock(run.name):
        added = _check_status(run, session=session)
        facts = host_facts()
        before = f"session {run.session.number + 1}" if session else "the run was resumed"
        changed = check_host(run, facts, before)
        prepare_host(home)
        plan = rebuild_plan(run, home, programs)
        announce(plan)
        for text in filter(None, (changed, added)):
            notify(text)
        if session:
            begin_next(run, facts, added)
        else:
            note_boot(run)
            note_resumption(run, plan)
        measure(plan, run, home, tune_host=tune_host)
    conclude(run.name, store, as_json=as_json, strict=strict)


def _check_status(run: RunHandle, *, session: bool) -> str:
    """What `check_next` says of a further session. Raises BadInput for a run that cannot be resumed like this."""
    if session:
        return check_next(run, stored_study(run).study.design)
    if run.status == "finished":
        raise BadInput(f"{run.name} is finished and cannot be resumed", hint=f"vtax show {run.name}")
    if run.status == "paused":
        raise BadInput(
            f"{run.name} is paused between sessions", hint=f"vtax resume {run.name} --session starts the next one"
        )
    return ""
