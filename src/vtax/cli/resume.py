"""`vtax resume`: resumes an interrupted run, or begins its next session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from vtax.cli.completion import unfinished_runs
from vtax.cli.host_boots import measure_boot, refuse_other_boot
from vtax.cli.measure import (
    budget_s,
    conclude,
    measure,
    prepare_host,
    result_of_stopped,
    wait_option,
    wait_s,
)
from vtax.cli.output import need_root, notify
from vtax.cli.plan import announce
from vtax.cli.run_options import RunOptions
from vtax.cli.shared_options import trust_option, tune_host_option
from vtax.cli.trust import consented
from vtax.counters.host import host_facts
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image import contents
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import HostProgram
from vtax.runner import boots
from vtax.runner.host_sessions import (
    add_blocks,
    begin_next,
    check_more,
    check_next,
    note_boot,
    why_no_more_blocks,
)
from vtax.runner.machines import check_same_machines, held_machines
from vtax.runner.plan import host_programs
from vtax.runner.resume import check_host, note_resumption, rebuild_plan, stored_study
from vtax.store.parts import refuse_member
from vtax.store.rows import reading_rows
from vtax.store.run import RunHandle
from vtax.store.store import Store


@click.command("resume")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=unfinished_runs)
@click.option(
    "--session",
    is_flag=True,
    help="Start the next session of RUN, after a reboot or at another hour.",
)
@click.option(
    "--budget", metavar="TIME", help="Add as many blocks to a finished RUN as fit into this time."
)
@trust_option
@tune_host_option
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run_name: str, session: bool, **given: Any) -> None:
    """Resume RUN (default: the last run) where it stopped, with the same plan and seed.

    A run with several sessions is paused between them; --session starts the next one. With it, a
    finished run gets one more session, with as many blocks as its first. A run over several boots
    of the host continues in the next boot. --budget adds blocks to a finished run, in its last
    session; because the result was already known, the run gets a warning.
    """
    options = RunOptions(**given)
    more_s = budget_s(options.budget)
    if more_s is not None and session:
        raise BadInput(
            "a session has as many blocks as the first",
            where="--budget",
            hint="omit --session or --budget",
        )
    need_root("measuring")
    home = Home.existing().ensure()
    store = Store.existing(home.store_url)
    run = store.open_run(run_name)
    if stored_study(run).study.boot:
        if more_s is not None:
            what = "the blocks of a run over several boots are planned"
            raise BadInput(what, where="--budget", hint="omit --budget")
        if session:
            what = "the sessions of a run over several boots begin by themselves"
            raise BadInput(what, where="--session", hint="omit --session")
        _in_this_boot(run, home, options)
    else:
        _go_on(run, home, options, session=session, more_s=more_s)
    conclude(run.name, store, as_json=options.as_json)


def _go_on(
    run: RunHandle, home: Home, options: RunOptions, *, session: bool, more_s: float | None
) -> None:
    """Measure what is left of a run in one boot, its next session, or for more_s seconds more."""
    programs: Sequence[HostProgram] = ()
    if run.status != "finished" or session or more_s is not None:
        loaded_study = stored_study(run)
        programs = consented(
            home, host_programs(loaded_study), loaded_study.source, trust=options.trust
        )
    with result_of_stopped(), measuring_lock(run.name, wait_s=wait_s(options.wait)):
        reason_added = _check_status(run, session=session, more_s=more_s)
        facts = {
            **host_facts(),
            **contents.facts(Image(run.image_key, home.images / run.image_key)),
        }
        number = run.session.number + 1 if session else None
        change_text = check_host(run, facts, number)
        prepare_host(home)
        plan = rebuild_plan(run, home, programs)
        if more_s is not None:
            plan = add_blocks(run, plan, more_s, reason_added)
        announce(plan)
        for text in filter(None, (change_text, reason_added)):
            notify(text)
        with held_machines(plan, run.name, run) as machines:
            if session:
                begin_next(run, {**facts, **machines.facts}, reason_added)
            else:
                check_same_machines(run, machines.facts)
                note_boot(run)
                note_resumption(run, plan)
            measure(plan, run, home, tune_host=options.tune_host)
    if plan.study.rung:
        notify("both orders of the largest rungs are measured by vtax anatomy, not by resume")


def _in_this_boot(run: RunHandle, home: Home, options: RunOptions) -> None:
    """Measure what this boot of the host can of a run over several. Raises BadInput where it needs another one."""
    if run.status == "finished":
        raise BadInput(
            f"{run.name} is finished and cannot be resumed", hint=f"vtax show {run.name}"
        )
    loaded_study = stored_study(run)
    with result_of_stopped(), measuring_lock(run.name, wait_s=wait_s(options.wait)):
        current_boot = boots.current_boot(loaded_study.study)
        assert current_boot is not None
        prepare_host(home)
        programs = consented(
            home, host_programs(loaded_study), loaded_study.source, trust=options.trust
        )
        plan = rebuild_plan(run, home, programs)
        announce(plan)
        refuse_other_boot(plan, run, current_boot)
        with held_machines(plan, run.name, run) as machines:
            check_same_machines(run, machines.facts)
            if run.status in ("interrupted", "running"):  # the latter was killed
                note_resumption(run, plan)
            measure_boot(plan, run, home, current_boot, tune_host=options.tune_host)


def _check_status(run: RunHandle, *, session: bool, more_s: float | None) -> Note | None:
    """Return the note of a further session or further blocks. Raises BadInput for a run that cannot be resumed so."""
    if session or more_s is not None:
        with reading_rows(run.engine) as connection:
            refuse_member(connection, run.id, run.name, "resumed")
    if more_s is not None:
        return check_more(run, stored_study(run).study.design, more_s)
    if session:
        return check_next(run, stored_study(run).study.design)
    if run.status == "finished":
        hint = f"vtax show {run.name} prints its result"
        if not why_no_more_blocks(run, stored_study(run).study.design):
            hint = f"vtax resume {run.name} --budget 10min adds blocks; vtax show {run.name} prints its result"
        raise BadInput(f"{run.name} is finished", hint=hint)
    if run.status == "paused":
        raise BadInput(
            f"{run.name} is paused between sessions",
            hint=f"vtax resume {run.name} --session starts the next one",
        )
    return None
