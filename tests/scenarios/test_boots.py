"""Runs over several boots of the host, which reboots or is rebooted by hand, and what stops them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scripted import install
from stubbed_host import NATIVE, XEN, Machine, planned

from vtax.cli import abort, rebooting
from vtax.cli.main import group
from vtax.cli.output import resume_hint
from vtax.errors import BadInput, VtaxError
from vtax.host import boot_loaders, reboots
from vtax.host.boot_loaders import Grub, Loader
from vtax.host.home import Home
from vtax.report.analysis.source import source_of
from vtax.runner import boots
from vtax.runner.execute import begin
from vtax.runner.plan import Plan
from vtax.store.query import load
from vtax.store.run import RunHandle
from vtax.store.store import Store


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    install(monkeypatch)
    return Machine(tmp_path / "root", monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").ensure()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def look(plan: Plan, *, reboot: bool = True) -> boots.Here:
    here = boots.look(plan.study, reboot=reboot)
    assert here is not None
    return here


def go_on(plan: Plan, run: RunHandle, home: Home, *, reboot: bool = True) -> bool:
    """What the unit does after a reboot, or a person."""
    here = look(plan, reboot=reboot)
    state = None
    if reboot:
        state = rebooting.arrive(home, run, here, by_unit=False) or rebooting.planned_reboots(plan, run, here)
    return rebooting.measure_boot(plan, run, home, here, state=state, tune_host=False)


def test_a_run_alternates_boots_and_counts_reboots(machine: Machine, home: Home, store: Store) -> None:
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    visits = boots.visits(plan.study, plan.seed)
    expected = 4 - (visits[0].boot == "plain")
    rebooted = go_on(plan, run, home)
    seen = []
    while rebooted:
        state = reboots.read(home)
        assert state is not None
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
    assert [each.code for each in analysis.warnings if each.code in ("host-changed", "another-boot")] == [
        "host-changed"
    ]
    (row,) = [row for row in analysis.sections[0].points[0].rows if row.platform.name == "other"]
    assert row.ratio is not None
    assert row.ratio.n_sessions == 2


def test_by_hand_the_wrong_boot_is_refused_with_the_one_that_is_needed(
    machine: Machine, home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    first = boots.visits(plan.study, plan.seed)[0].boot
    machine.boot(NATIVE if first == "plain" else XEN)
    assert go_on(plan, run, home, reboot=False) is False
    assert run.status == "paused"
    other = "xen" if first == "plain" else "plain"
    assert run.stopped_because == f"session 1 of 2 needs the boot '{other}'"
    with pytest.raises(BadInput, match=f"next measured in the boot '{other}', and this is '{first}'") as caught:
        rebooting.refuse_other_boot(plan, run, look(plan))
    assert f"sudo vtax resume {run.name}" in caught.value.hint
    monkeypatch.setattr("vtax.runner.resume.obstacle", lambda *_: "")
    assert resume_hint(store, run.name, run.status) == f"resume with: sudo vtax resume {run.name}"  # no --session
    assert machine.reboots == 0
    assert reboots.read(home) is None


def test_a_session_is_never_measured_in_a_boot_of_another(machine: Machine, home: Home, store: Store) -> None:
    plan = planned(seed=next(seed for seed in range(99) if boots.order(planned().study, seed, 1)[1] == boots.order(
        planned().study, seed, 2)[0]))  # fmt: skip
    run = begin(store, plan, vtax_version="test")
    for visit in boots.visits(plan.study, plan.seed)[:2]:
        machine.boot(NATIVE if visit.boot == "plain" else XEN)
        go_on(plan, run, home, reboot=False)
    with pytest.raises(BadInput, match=r"session 2 of .* needs another boot of"):
        rebooting.refuse_other_boot(plan, run, look(plan))


# Failures


def test_a_host_that_came_up_otherwise_is_not_rebooted_again(machine: Machine, home: Home, store: Store) -> None:
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    assert go_on(plan, run, home)
    state = reboots.read(home)
    assert state is not None
    machine.boot(XEN if state.boot == "plain" else NATIVE)
    made = machine.reboots
    with pytest.raises(VtaxError, match=r"after reboot 1 of \d the host came up in the boot .* as planned"):
        rebooting.arrive(home, run, look(plan), by_unit=True)
    assert (run.status, machine.reboots) == ("interrupted", made)
    assert not machine.unit.exists()
    assert reboots.read(home) is None
    with pytest.raises(BadInput, match=r"no reboot for .* was awaited"):
        rebooting.arrive(home, run, look(plan), by_unit=True)


@pytest.mark.parametrize("step", ["_make_unit", "set_next", "reboot"])
def test_a_kill_before_the_reboot_is_cleaned_and_the_run_goes_on(
    machine: Machine, home: Home, store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    plan = planned()
    run = begin(store, plan, vtax_version="test")
    with monkeypatch.context() as patched:
        patched.setattr(Grub if step == "set_next" else reboots, step, killed)
        patched.setattr(rebooting.reboots, "cancel", lambda _: [])  # a killed process removes nothing
        with pytest.raises(Killed):
            go_on(plan, run, home)
    assert reboots.cancel(home)
    assert not machine.unit.exists()
    assert boot_loaders.loader().next_entry() == ""
    while go_on(plan, run, home):
        run = store.open_run(run.name)
    assert run.status == "finished"


def test_a_loader_that_does_not_take_the_entry_is_not_rebooted(
    machine: Machine, home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    monkeypatch.setattr(Grub, "set_next", lambda *_: None)
    with pytest.raises(VtaxError, match="GRUB did not accept"):
        go_on(plan, run, home)
    assert machine.reboots == 0
    assert reboots.read(home) is None
    assert isinstance(boot_loaders.loader(), Loader)


# The command line


def test_abort_ends_a_run_and_its_reboot(
    machine: Machine, home: Home, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VTAX_HOME", str(home.root))
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tmp_path / 'store.sqlite'}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(abort, "measuring_lock", lambda name: nullcontext())
    monkeypatch.setattr(abort, "measuring_process", lambda: ("", None))
    monkeypatch.setattr(reboots, "reboot", lambda: None)  # it is still to come
    plan = planned()
    run = begin(store, plan, vtax_version="test")
    assert go_on(plan, run, home)
    assert machine.unit.is_file()
    printed = CliRunner().invoke(group, ["abort", run.name], catch_exceptions=False).output
    assert "removed unit vtax-resume.service\nremoved entry for the next boot: " in printed
    assert f"{run.name} is ended" in printed
    ended = store.open_run(run.name)
    assert (ended.status, ended.stopped_because) == ("interrupted", "ended by vtax abort")
    assert not machine.unit.exists()
    assert boot_loaders.loader().next_entry() == ""
    assert reboots.read(home) is None
    machine.boot(NATIVE)
    refused = CliRunner().invoke(group, ["resume", run.name, "--reboot", "--awaited"]).exception
    assert f"no reboot for {run.name} was awaited" in str(refused)
