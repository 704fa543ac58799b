"""Runs over several boots of the host, which reboots or is rebooted by hand, and what stops them.

Long because each way in which such a run goes on or ends is played through here, on one stubbed host.
"""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scripted import plan_of, study
from stubbed_host import NATIVE, XEN, Machine, look, planned

from vtax.cli import abort, rebooting, resume
from vtax.cli.main import group
from vtax.cli.output import resume_hint
from vtax.errors import BadInput, CommandFailed, RunInterrupted, VtaxError
from vtax.host import boot_loaders, reboots
from vtax.host.boot_loaders import Grub, Loader
from vtax.host.home import Home
from vtax.host.interrupts import request_stop
from vtax.host.lock import measuring_lock
from vtax.host.reboots import Reboots
from vtax.host.trust import refuse_foreign
from vtax.report.analysis.source import source_of
from vtax.runner import boots
from vtax.runner.execute import begin
from vtax.runner.plan import Plan
from vtax.store.query import load
from vtax.store.run import RunHandle
from vtax.store.store import Store


def go_on(plan: Plan, run: RunHandle, home: Home, *, reboot: bool = True) -> Reboots | None:
    """What a person does, or the unit after a reboot."""
    here = look(plan, reboot=reboot)
    state = None
    if reboot:
        before = reboots.read(home)
        state = rebooting.arrive(home, run.name) if before and before.came_up else None
        state = state or rebooting.planned_reboots(plan, run, here)
    return rebooting.measure_boot(plan, run, home, here, state=state)


def test_a_run_alternates_boots_and_counts_reboots(machine, home, store):
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    visits = boots.visits(plan.study, plan.seed)
    expected = 4 - (visits[0].boot == "plain")
    rebooted = go_on(plan, run, home)
    seen = []
    while rebooted:
        state = reboots.read(home)
        assert (state.planned, state.made) == (expected, machine.reboots)
        assert machine.unit.is_file()
        seen.append(look(plan).name)
        machine.microcode += machine.reboots == 2
        run = store.open_run(run.name)
        rebooted = go_on(plan, run, home)
    assert machine.reboots == expected
    assert seen == [visit.boot for visit in visits][-expected:]
    assert run.status == "finished"
    assert reboots.read(home) is None
    assert not machine.unit.exists()
    trials = load(store.engine, run).trials
    assert sorted(trials.session.tolist()) == sorted([1, 1, 2, 2])
    taken = [boot for session in run.sessions for boot in boots.boots_in(session.host).values()]
    assert len(taken) == len(set(taken)) == 4
    analysis = source_of(store, run.name).analysis
    assert [each.code for each in analysis.warnings if each.code in ("host-changed-session", "another-boot")] == [
        "host-changed-session"
    ]
    (row,) = [row for row in analysis.sections[0].points[0].rows if row.platform.name == "other"]
    assert row.ratio.n_sessions == 2


def test_by_hand_the_wrong_boot_is_refused_with_the_one_that_is_needed(machine, home, store, monkeypatch):
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    first = boots.visits(plan.study, plan.seed)[0].boot
    machine.boot(NATIVE if first == "plain" else XEN)
    assert go_on(plan, run, home, reboot=False) is None
    assert run.status == "paused"
    other = "xen" if first == "plain" else "plain"
    assert run.stopped_because == f"session 1 of 2 needs the boot {other}"
    with pytest.raises(BadInput, match=f"next measured in the boot '{other}', and this is '{first}'") as caught:
        rebooting.refuse_other_boot(plan, run, look(plan))
    assert f"sudo vtax resume {run.name}" in caught.value.hint
    monkeypatch.setattr("vtax.runner.resume.obstacle", lambda *_: "")
    hint = resume_hint(store, run.name, run.status)
    assert hint.startswith(f"resume with: sudo vtax resume {run.name} --reboot, or without that")  # no --session
    assert machine.reboots == 0
    assert reboots.read(home) is None


def test_a_session_is_never_measured_in_a_boot_of_another(machine, home, store):
    plan = planned(seed=next(seed for seed in range(99) if boots.order(planned().study, seed, 1)[1] == boots.order(
        planned().study, seed, 2)[0]))  # fmt: skip
    run = begin(store, plan, vtax_version="test")
    for visit in boots.visits(plan.study, plan.seed)[:2]:
        machine.boot(NATIVE if visit.boot == "plain" else XEN)
        go_on(plan, run, home, reboot=False)
    with pytest.raises(BadInput, match=r"session 2 of .* needs another boot of"):
        rebooting.refuse_other_boot(plan, run, look(plan))


# Failures


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

    def start_unit(self) -> Result:
        """What systemd does in a boot."""
        self.machine.prepare_unit()
        return self.invoke("resume", self.run.name, "--reboot", "--awaited")

    def ended(self) -> tuple[str, str]:
        """Status and reason of the run; nothing of a reboot is there."""
        assert reboots.read(self.home) is None
        assert self.machine.leftovers in ([], [reboots.SCRIPT])  # which removes itself
        run = self.store.open_run(self.run.name)
        return run.status, run.stopped_because


@pytest.fixture
def commands(
    machine: Machine, home: Home, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken_for_root: None
) -> Commands:
    monkeypatch.setenv("VTAX_HOME", str(home.root))
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tmp_path / 'store.sqlite'}")
    for module in (abort, resume):
        monkeypatch.setattr(module, "measuring_lock", partial(measuring_lock, path=tmp_path / "lock"))
    monkeypatch.setattr(abort, "measuring_process", lambda _: ("", None))
    made = Commands(machine, home, store)
    monkeypatch.setattr(resume, "rebuild_plan", lambda *_: made.plan)
    return made


def test_a_host_that_came_up_otherwise_is_not_rebooted_again(commands):
    machine, home = commands.machine, commands.home
    assert go_on(commands.plan, commands.run, home)
    state = reboots.read(home)
    machine.boot(XEN if state.boot == "plain" else NATIVE)
    made = machine.reboots
    refused = commands.start_unit()
    expected = r"after reboot 1 of \d the host came up in the boot .* as planned"
    assert re.match(expected, str(refused.exception))
    status, because = commands.ended()
    assert (status, machine.reboots) == ("interrupted", made)
    assert re.match(f"after a reboot: {expected}", because)
    again = commands.invoke("resume", commands.run.name, "--reboot", "--awaited")
    assert f"no reboot for {commands.run.name} was awaited" in str(again.exception)
    assert commands.ended() == (status, because)


def test_the_unit_measures_and_reboots_with_the_options_of_the_command(commands, monkeypatch):
    printed = commands.invoke("resume", commands.run.name, "--reboot", "--strict", "--trust", "--json")
    state = reboots.read(commands.home)
    assert json.loads(printed.stdout) == {
        "run": commands.run.name, "rebooting_into": state.boot, "reboot": 1, "of": state.planned,
    }  # fmt: skip
    assert printed.exit_code == 0
    script = commands.machine.unit.with_suffix(".sh").read_text()
    assert script.endswith(f" -m vtax resume {commands.run.name} --reboot --awaited --strict --trust\n")
    monkeypatch.setattr(RunHandle, "failed_trials", lambda _: 2)
    commands.machine.prepare_unit()
    second = commands.invoke("resume", commands.run.name, "--reboot", "--awaited", "--strict", "--json")
    assert json.loads(second.stdout)["reboot"] == 2
    assert "2 trials of s-1 failed so far; it goes on after the reboot" in str(second.exception)
    assert commands.machine.reboots == 2


def test_what_fails_before_the_run_is_open_ends_its_reboots(commands, monkeypatch, tmp_path):
    assert go_on(commands.plan, commands.run, commands.home)
    with monkeypatch.context() as patched:
        patched.setenv("VTAX_STORE", f"sqlite:///{tmp_path / 'absent.sqlite'}")
        assert commands.start_unit().exit_code != 0
    assert commands.ended()[0] == "paused"  # its store was not there
    assert commands.machine.reboots == 1
    assert commands.invoke("resume", commands.run.name, "--reboot").exit_code == 0
    with monkeypatch.context() as patched:
        patched.setattr(Home, "ensure", lambda _: refuse_foreign(Path("/proc/1/cwd")))
        patched.setattr("vtax.host.trust._trusted_users", set)
        assert commands.start_unit().exit_code != 0
    status, because = commands.ended()
    assert status == "interrupted"
    assert because.startswith("after a reboot: / belongs to user root")


def test_the_unit_does_nothing_a_day_later(commands, monkeypatch):
    assert go_on(commands.plan, commands.run, commands.home)
    trials = len(commands.run.done())
    now = time.time()
    with monkeypatch.context() as patched:
        patched.setattr("vtax.host.reboots.time.time", lambda: now + 90000)
        refused = commands.start_unit()
    assert "requested more than a day ago" in str(refused.exception)
    assert commands.ended()[0] == "interrupted"
    assert (commands.machine.reboots, len(commands.run.done())) == (1, trials)
    assert not list(commands.machine.unit.parent.rglob(reboots.UNIT))


def test_no_other_run_is_resumed_while_a_reboot_is_awaited(commands, monkeypatch):
    other = begin(commands.store, plan_of(study()), vtax_version="test")
    monkeypatch.setattr(reboots, "reboot", lambda: None)
    assert go_on(commands.plan, commands.run, commands.home)
    refused = commands.invoke("resume", other.name).exception
    assert "s-1 goes on after the next reboot of this host, in the boot 'xen'" in str(refused)
    assert "sudo vtax abort s-1" in str(refused)


def test_a_run_that_was_resumed_by_hand_meanwhile_is_left_to_that(commands):
    assert go_on(commands.plan, commands.run, commands.home)
    commands.machine.prepare_unit()
    assert commands.invoke("resume", commands.run.name, "--reboot").exit_code == 0
    before = commands.machine.leftovers
    commands.machine.number -= 1  # not rebooted yet
    again = commands.invoke("resume", commands.run.name, "--reboot", "--awaited")
    assert "no reboot for s-1 was awaited" in str(again.exception)
    assert commands.machine.leftovers == before
    assert commands.store.open_run(commands.run.name).status == "paused"


def test_a_reboot_that_fails_leaves_nothing_and_ends_the_run(commands, monkeypatch):
    def inhibited() -> None:
        raise CommandFailed("systemctl reboot: inhibited by an update")

    with monkeypatch.context() as patched:
        patched.setattr(reboots, "reboot", inhibited)
        refused = commands.invoke("resume", commands.run.name, "--reboot", "--json")
    assert isinstance(refused.exception, CommandFailed)
    assert refused.stdout == ""
    assert "reboot into 'Debian GNU/Linux" in refused.exception.hint
    assert refused.exception.hint.endswith(f"then: sudo vtax resume {commands.run.name} --reboot")
    assert re.match(r"no reboot into \w+: systemctl reboot: inhibited", commands.ended()[1])
    assert commands.ended()[0] == "interrupted"
    assert commands.invoke("resume", commands.run.name, "--reboot").exit_code == 0
    assert commands.machine.reboots == 1


def test_the_signal_by_which_a_reboot_ends_vtax_takes_nothing_back(commands, monkeypatch):
    def going_down() -> None:
        request_stop(RunInterrupted("stopped on request", signal=signal.SIGTERM))

    monkeypatch.setattr(reboots, "reboot", going_down)
    with suppress(RunInterrupted):
        commands.invoke("resume", commands.run.name, "--reboot")
    state = reboots.read(commands.home)
    assert state.is_to_come
    assert commands.machine.unit.is_file()
    assert f"next_entry={state.entry}" in commands.machine.leftovers
    assert commands.store.open_run(commands.run.name).status == "paused"


def test_a_refused_resume_by_hand_keeps_the_reboot_that_is_to_come(commands, monkeypatch):
    monkeypatch.setattr(reboots, "reboot", lambda: None)
    assert go_on(commands.plan, commands.run, commands.home)
    before = reboots.read(commands.home), commands.machine.leftovers
    assert "is next measured in the boot" in str(commands.invoke("resume", commands.run.name).exception)
    assert (reboots.read(commands.home), commands.machine.leftovers) == before
    again = commands.invoke("resume", commands.run.name, "--reboot")
    assert again.exit_code == 0
    assert "removed unit vtax-resume.service\nremoved entry for the next boot: " in again.stderr


def test_a_run_whose_unit_waits_for_another_command_is_left_to_it(commands):
    """It has removed its file then; systemd knows that it runs."""
    other = begin(commands.store, plan_of(study()), vtax_version="test")
    assert go_on(commands.plan, commands.run, commands.home)
    commands.machine.prepare_unit()
    systemctl = commands.machine.root / "bin/systemctl"
    systemctl.write_text("#!/bin/sh\necho activating\nexit 3\n")
    systemctl.chmod(0o755)
    refused = commands.invoke("resume", other.name).exception
    assert "s-1 goes on in a moment in the boot" in str(refused)
    commands.invoke("clean")
    assert reboots.read(commands.home) is not None
    assert commands.invoke("resume", commands.run.name, "--reboot", "--awaited").exit_code == 0


def test_abort_ends_a_run_although_the_boot_loader_fails_or_another_run_measures(commands, monkeypatch, tmp_path):
    monkeypatch.setattr(reboots, "reboot", lambda: None)
    assert go_on(commands.plan, commands.run, commands.home)
    editor = commands.machine.root / "bin/grub-editenv"
    works = editor.read_text()
    editor.write_text("#!/bin/sh\nexit 1\n")
    with measuring_lock("other-1", tmp_path / "lock"):
        failed = commands.invoke("abort", commands.run.name).exception
    editor.write_text(works)
    assert isinstance(failed, VtaxError)
    assert "the boot loader may boot 'xen-gnulinux-simple-0a1b' the next time" in str(failed)
    assert reboots.read(commands.home) is None
    assert commands.store.open_run(commands.run.name).stopped_because == "ended by vtax abort"


def test_an_entry_of_others_ends_the_run_before_anything_is_measured(commands):
    commands.machine.set_next(XEN)
    refused = commands.invoke("resume", commands.run.name, "--reboot")
    assert "which vtax did not set" in str(refused.exception)
    assert not commands.run.done()
    assert commands.machine.leftovers == [f"next_entry={XEN}"]
    assert commands.machine.reboots == 0


def test_a_unit_that_finds_an_entry_of_others_keeps_it(commands):
    assert go_on(commands.plan, commands.run, commands.home)
    commands.machine.set_next(NATIVE)
    assert "which vtax did not set" in str(commands.start_unit().exception)
    assert f"next_entry={NATIVE}" in commands.machine.leftovers
    assert commands.store.open_run(commands.run.name).status == "interrupted"
    assert (reboots.read(commands.home), commands.machine.reboots) == (None, 1)


def test_the_unit_waits_for_another_command(commands, tmp_path):
    assert go_on(commands.plan, commands.run, commands.home)
    with ExitStack() as held:
        held.enter_context(measuring_lock("vtax platforms", tmp_path / "lock"))
        (timer := Timer(0.5, held.pop_all().close)).start()
        done = commands.start_unit()
        timer.join()
    assert (done.exit_code, commands.machine.reboots) == (0, 2)


@pytest.mark.parametrize("step", ["_make_unit", "set_next", "reboot"])
def test_a_kill_before_the_reboot_is_cleaned_and_the_run_goes_on(machine, home, store, monkeypatch, step):
    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    plan = planned()
    run = begin(store, plan, vtax_version="test")
    with monkeypatch.context() as patched:
        patched.setattr(Grub if step == "set_next" else reboots, step, killed)
        patched.setattr(reboots, "cancel", lambda _: [])  # a killed process removes nothing
        with pytest.raises(Killed):
            go_on(plan, run, home)
    assert reboots.cancel(home)
    assert not machine.unit.exists()
    assert boot_loaders.loader().next_entry() == ""
    while go_on(plan, run, home):
        run = store.open_run(run.name)
    assert run.status == "finished"


def test_a_loader_that_does_not_take_the_entry_is_not_rebooted(machine, home, store, monkeypatch):
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    monkeypatch.setattr(Grub, "set_next", lambda *_: None)
    with pytest.raises(VtaxError, match="GRUB did not accept"):
        go_on(plan, run, home)
    assert machine.reboots == 0
    assert reboots.read(home) is None
    assert isinstance(boot_loaders.loader(), Loader)


# The command line


def test_abort_ends_a_run_and_its_reboot(commands, monkeypatch):
    monkeypatch.setattr(reboots, "reboot", lambda: None)  # it is still to come
    run = commands.run
    assert go_on(commands.plan, run, commands.home)
    assert commands.machine.unit.is_file()
    printed = commands.invoke("abort", run.name).output
    assert "removed unit vtax-resume.service\nremoved entry for the next boot: " in printed
    assert f"{run.name} is ended" in printed
    assert commands.ended() == ("interrupted", "ended by vtax abort")
    assert commands.machine.leftovers == []
    commands.machine.boot(NATIVE)
    refused = commands.invoke("resume", run.name, "--reboot", "--awaited").exception
    assert f"no reboot for {run.name} was awaited" in str(refused)
    assert commands.ended() == ("interrupted", "ended by vtax abort")


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_abort_keeps_why_a_run_ended(commands, status):
    commands.run.finish(status, "the disk is full", 1.0)
    assert commands.invoke("abort", commands.run.name).exit_code == 0
    assert commands.ended() == (status, "the disk is full")


def test_abort_takes_back_a_reboot_of_a_run_that_its_store_lacks(commands, monkeypatch, tmp_path):
    monkeypatch.setattr(reboots, "reboot", lambda: None)
    assert go_on(commands.plan, commands.run, commands.home)
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tmp_path / 'absent.sqlite'}")
    assert commands.invoke("abort", commands.run.name).exit_code != 0
    assert commands.ended()[0] == "paused"
    assert commands.machine.leftovers == []
