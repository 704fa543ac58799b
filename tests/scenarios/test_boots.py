"""Runs over several boots of the host, which is rebooted by hand; and the end of runs by `vtax abort`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from stubbed_host import NATIVE, XEN, Machine, look, planned

from vtax.campaign.host_runs import End, Request, RequestedRun
from vtax.cli import host_boots, resume
from vtax.cli.main import group
from vtax.cli.output import resume_hint
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.report.analysis.source import source_of
from vtax.runner import boots
from vtax.runner.begin import begin
from vtax.runner.plan import Plan
from vtax.store.query import load
from vtax.store.run import RunHandle
from vtax.store.store import Store

ENTRIES = {"plain": NATIVE, "xen": XEN}


def go_on(plan: Plan, run: RunHandle, home: Home) -> None:
    """What a person does after a reboot."""
    host_boots.measure_boot(plan, run, home, look(plan))


def test_a_run_goes_from_boot_to_boot(machine, home, store):
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    visits = boots.planned_visits(plan.study, plan.seed)
    machine.boot("another")  # none of the study's
    go_on(plan, run, home)
    assert (run.status, run.stopped_because) == (
        "paused",
        f"session 1 of 2 needs the boot {visits[0].boot}",
    )
    for number, visit in enumerate(visits):
        machine.boot(ENTRIES[visit.boot])
        machine.microcode += number == 2
        run = store.open_run(run.name)
        host_boots.refuse_other_boot(plan, run, look(plan))
        go_on(plan, run, home)
    assert run.status == "finished"
    trials = load(store.engine, run).trials
    assert sorted(trials.session.tolist()) == sorted([1, 1, 2, 2])
    taken = [boot for session in run.sessions for boot in boots.boot_ids(session.host).values()]
    assert len(taken) == len(set(taken)) == 4
    analysis = source_of(store, run.name).analysis
    assert [
        each.code
        for each in analysis.warnings
        if each.code in ("host-changed-session", "another-boot")
    ] == ["host-changed-session"]
    (row,) = [row for row in analysis.sections[0].points[0].rows if row.platform.name == "other"]
    assert row.ratio.n_sessions == 2


def test_in_sequential_order_every_boot_is_made_once_with_all_its_blocks(machine, home, store):
    plan = planned(order="sequential", blocks=3)
    run = begin(store, plan, vtax_version="test")
    assert [(visit.session, visit.boot) for visit in boots.planned_visits(plan.study, 5)] == [
        (1, "plain"),
        (1, "xen"),
    ]
    for entry in (NATIVE, XEN):
        machine.boot(entry)
        run = store.open_run(run.name)
        host_boots.refuse_other_boot(plan, run, look(plan))
        go_on(plan, run, home)
        platforms = ["native", "other"][: 1 + (entry == XEN)]
        of_cells = {cell.key: cell.platform for cell in run.cells}
        assert sorted((of_cells[cell], block) for cell, block, _ in run.done()) == [
            (platform, block) for platform in platforms for block in range(3)
        ]
        assert run.status == ("finished" if entry == XEN else "paused")
    codes = [warning.code for warning in source_of(store, run.name).analysis.warnings]
    assert {"sequential-order", "boots-once"} <= set(codes)
    assert "boots" not in codes


def test_the_wrong_boot_is_refused_with_the_one_that_is_needed(
    machine, home, store, monkeypatch, golden
):
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    first = boots.planned_visits(plan.study, plan.seed)[0].boot
    machine.boot(ENTRIES[first])
    go_on(plan, run, home)
    other = "xen" if first == "plain" else "plain"
    assert (run.status, run.stopped_because) == ("paused", f"session 1 of 2 needs the boot {other}")
    with pytest.raises(BadInput) as wrong:
        host_boots.refuse_other_boot(plan, run, look(plan))
    machine.boot("another")
    with pytest.raises(BadInput) as unknown:
        host_boots.refuse_other_boot(plan, run, look(plan))
    golden(f"{wrong.value}\n{unknown.value}")
    monkeypatch.setattr("vtax.runner.resume.resume_obstacle", lambda *_: "")
    hint = resume_hint(store, run.name, run.status)
    assert f"sudo vtax resume {run.name}" in hint
    assert "--session" not in hint


def test_a_session_is_never_measured_in_a_boot_of_another(machine, home, store, golden):
    plan = planned(
        seed=next(
            seed
            for seed in range(99)
            if boots.boot_order(planned().study, seed, 1)[1]
            == boots.boot_order(planned().study, seed, 2)[0]
        )
    )
    run = begin(store, plan, vtax_version="test")
    for visit in boots.planned_visits(plan.study, plan.seed)[:2]:
        machine.boot(ENTRIES[visit.boot])
        go_on(plan, run, home)
    with pytest.raises(BadInput) as refused:
        host_boots.refuse_other_boot(plan, run, look(plan))
    golden(str(refused.value))


# The command line


class Commands:
    """The command line as root of the stubbed host. run: one that has begun."""

    def __init__(self, machine: Machine, home: Home, store: Store) -> None:
        self.machine = machine
        self.home = home
        self.store = store
        self.plan = planned()
        self.run = begin(store, self.plan, vtax_version="test")

    def invoke(self, *arguments: str) -> Result:
        return CliRunner().invoke(group, list(arguments))

    def ended(self) -> tuple[str, str]:
        """Status and reason of the run."""
        run = self.store.open_run(self.run.name)
        return run.status, run.stopped_because


@pytest.fixture
def commands(
    machine: Machine,
    home: Home,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    taken_for_root: None,
    use_home,
) -> Commands:
    use_home(home.root)
    made = Commands(machine, home, store)
    monkeypatch.setattr(resume, "rebuild_plan", lambda *_: made.plan)
    return made


def test_resume_measures_in_the_boot_that_is_next_and_names_the_one_after_it(commands):
    visits = boots.planned_visits(commands.plan.study, commands.plan.seed)
    for before, visit in zip([None, *visits], visits, strict=False):
        if before is not None:
            assert "is next measured in" in str(
                commands.invoke("resume", commands.run.name).exception
            ) or (before.boot == visit.boot)
        commands.machine.boot(ENTRIES[visit.boot])
        done = commands.invoke("resume", commands.run.name)
        assert done.exit_code == 0, done.output
        assert (visit == visits[-1]) == ("reboot into" not in done.stderr)
    assert commands.ended()[0] == "finished"


@pytest.mark.parametrize("option", ["--session", "--budget=1min"])
def test_what_is_planned_of_boots_is_not_added_to(commands, option):
    assert "over several boots" in str(
        commands.invoke("resume", commands.run.name, option).exception
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [("paused", ("interrupted", "ended by vtax abort")), ("failed", ("failed", "no disk"))],
)
def test_abort_ends_a_run_and_keeps_why_it_ended_before(commands, status, expected):
    commands.run.finish(status, "no disk", 1.0)
    assert commands.invoke("abort", commands.run.name).exit_code == 0
    assert commands.ended() == expected


# For a controller of many hosts


def test_a_host_names_the_boot_that_its_run_needs_and_sets_it_once(commands, monkeypatch):
    """What a controller asks of a host from boot to boot, whose run has the id c1-s1."""
    machine, place = commands.machine, RequestedRun.of(commands.home, "c1-s1")
    monkeypatch.setattr("vtax.runner.resume._image_of", lambda *_: commands.plan.image)
    place.write_request(Request("two.toml", "ab" * 32, has_boots=True))
    assert "has begun here" in str(commands.invoke("host", "boot", "c1-s1").exception)
    run = begin(commands.store, commands.plan, vtax_version="test", tags=(place.tag,))
    place.write_end(End(0))

    def asked(verb: str) -> dict[str, str]:
        done = commands.invoke("host", verb, "c1-s1", "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        return found["runs"][0] if verb == "status" else found

    before = "plain"  # in which the machine is
    for visit in boots.planned_visits(commands.plan.study, commands.plan.seed):
        if visit.boot != before or asked("status")["next_boot"]:
            assert (asked("status")["boot"], asked("status")["next_boot"]) == (before, visit.boot)
            for _ in range(2):
                assert asked("boot")["entry"] == machine.next_entry == ENTRIES[visit.boot]
            machine.boot("another")  # another one than was set
            assert (asked("status")["boot"], asked("status")["next_boot"]) == ("", visit.boot)
            machine.boot(machine.next_entry)
            (machine.root / "next").unlink()
        assert (
            asked("boot")["next_boot"] == asked("status")["next_boot"] == machine.next_entry == ""
        )
        assert commands.invoke("resume", run.name).exit_code == 0
        before = visit.boot
    assert (asked("status")["state"], asked("status")["next_boot"]) == ("done", "")
    (machine.root / "boot/grub/grub.cfg").unlink()
    assert "boot loader is unknown" in str(commands.invoke("host", "boot", "c1-s1").exception)
    with measuring_lock("tour-9"):
        assert commands.invoke("host", "boot", "c1-s1").exit_code != 0
