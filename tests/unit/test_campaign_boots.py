"""Hosts of a campaign that are rebooted: into which boot, when, how often, and what becomes of one that is not."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from answering_hosts import Counting, Fleet, Machine, controller_of, go, no_canary
from campaign_studies import TWO_BOOTS

from vtax.campaign import making
from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import Reason
from vtax.campaign.settings import Wanted

consented = partial(no_canary, reboot=True)
STUDY = f"""
name = "two-boots"
platforms = ["native", "again"]
benchmark = [{{ name = "cpu" }}]
{TWO_BOOTS}"""


@pytest.fixture
def fleet() -> Fleet:
    """Three hosts that answer, whose runs need these boots; h01 is in the first one already."""
    made = Fleet(
        **{name: Machine(name, visits=["xen", "plain", "xen"]) for name in ("h00", "h01", "h02")}
    )
    made.machines["h01"].boot = "xen"
    return made


def test_hosts_are_rebooted_into_each_boot_of_their_run_in_its_order(tmp_path, fleet):
    campaign, loader = consented(tmp_path), Counting()
    states = go(campaign, fleet, loader)
    assert states == {"h00": "waiting", "h01": "running", "h02": "waiting"}
    assert [machine.runs["mine-1a2b-s1"] for machine in fleet.machines.values()] == [
        "paused",
        "running",
        "paused",
    ]
    for _ in range(4):  # each `go` is a controller that was away
        for machine in fleet.machines.values():
            machine.end()
        states = go(campaign, fleet, loader)
        assert all(host.session(1).attempts <= 1 for host in campaign.hosts())
    assert set(states.values()) == {"collected"}
    assert [machine.reboots for machine in fleet.machines.values()] == [4, 3, 4], (
        "the last into the default"
    )
    assert {machine.boot for machine in fleet.machines.values()} == {"default"}
    assert all(len(machine.runs) == 1 for machine in fleet.machines.values())
    assert sorted(name for name, _ in loader.loaded) == ["h00", "h01", "h02"]


def measured_under_xen(tmp_path, fleet):
    """A campaign of one host, whose run has ended in its second boot."""
    machine = fleet.machines.pop("h00")
    fleet.machines = {"h00": machine}
    machine.visits = ["xen"]
    campaign = consented(tmp_path)
    go(campaign, fleet)
    go(campaign, fleet)
    machine.end()
    return campaign, machine


def test_a_host_that_another_command_has_is_rebooted_into_its_default_later(tmp_path, fleet):
    campaign, machine = measured_under_xen(tmp_path, fleet)
    machine.failures = {"boot": {"rc": 75, "stderr": "vtax: tour-3 measures"}}
    assert (go(campaign, fleet), machine.boot) == ({"h00": "collected"}, "xen")
    machine.failures = {}
    go(campaign, fleet)
    go(campaign, fleet)
    assert (machine.boot, machine.reboots, campaign.host("h00").boot) == ("default", 2, "")


def test_the_last_reboot_is_into_the_default_whatever_the_run_needs_still(tmp_path, fleet):
    campaign, machine = measured_under_xen(tmp_path, fleet)
    machine.failures = {"boot": {"rc": 75, "stderr": "vtax: tour-3 measures"}}
    go(campaign, fleet)
    machine.failures, machine.visits = {}, ["plain"]
    go(campaign, fleet)
    assert (machine.boot, machine.reboots) == ("default", 2)


def test_a_host_that_does_not_come_back_from_its_last_reboot_is_named_and_not_rebooted_again(
    tmp_path, fleet
):
    campaign, machine = measured_under_xen(tmp_path, fleet)
    machine.failures = {"reboot": {"msg": "timed out"}}
    go(campaign, fleet)
    assert (campaign.host("h00").state, campaign.host("h00").reason.code) == (
        "collected",
        "not-rebooted",
    )
    machine.failures, before = {}, machine.reboots
    go(campaign, fleet)
    assert (machine.reboots, campaign.host("h00").boot) == (before, "")


def test_a_host_that_comes_up_in_another_boot_measures_nothing_there_and_is_given_up(
    tmp_path, fleet
):
    fleet.machines["h00"].comes_up_in = "plain"
    campaign = consented(tmp_path)
    go(campaign, fleet)
    states = go(campaign, fleet)
    assert (states["h00"], states["h02"]) == ("refused", "running")
    assert campaign.host("h00").reason == Reason("wrong-boot", "plain, not xen")
    for _ in range(4):
        states = go(campaign, fleet)
        assert fleet.machines["h00"].runs == {"mine-1a2b-s1": "paused"}
    assert (states["h00"], campaign.host("h00").reason.code, fleet.machines["h00"].reboots) == (
        "given-up",
        "attempts",
        4,
    )
    fleet.machines["h00"].comes_up_in = ""
    assert go(campaign, fleet, retry=True)["h00"] == "running"
    assert campaign.host("h00").sessions[0].id == "mine-1a2b-s1", "what it measured is kept"


@pytest.mark.parametrize(
    ("failures", "state", "code", "reboots"),
    [
        (
            {"boot": {"rc": 2, "stderr": "vtax: GRUB has no entry 'Xen'"}},
            "refused",
            "boot-refused",
            0,
        ),
        ({"boot": {"rc": 75, "stderr": "vtax: tour-3 measures"}}, "busy", "lock-held", 0),
        ({"boot": {"msg": "Timed out"}}, "unreachable", "no-answer", 0),
        (
            {"reboot": {"msg": "Timed out waiting for last boot time check"}},
            "unreachable",
            "not-rebooted",
            0,
        ),
        ({"status": {"msg": "Timed out"}}, "unreachable", "no-answer", 1),
    ],
)
def test_what_fails_of_a_reboot_is_typed_and_made_again(
    tmp_path, fleet, failures, state, code, reboots
):
    campaign = consented(tmp_path)
    go(campaign, fleet)
    controller_of(campaign, fleet).look()
    fleet.machines["h00"].failures = failures
    controller_of(campaign, fleet).launch()
    assert (campaign.host("h00").state, campaign.host("h00").reason.code) == (state, code)
    assert (fleet.machines["h00"].reboots, fleet.machines["h00"].runs) == (
        reboots,
        {"mine-1a2b-s1": "paused"},
    )
    fleet.machines["h00"].failures = {}
    assert go(campaign, fleet)["h00"] == "running"
    assert fleet.machines["h00"].boot == "xen"


def test_a_host_that_somebody_booted_meanwhile_is_not_rebooted(tmp_path, fleet):
    campaign = consented(tmp_path)
    go(campaign, fleet)
    controller_of(campaign, fleet).look()
    fleet.machines["h00"].boot = "xen"
    go(campaign, fleet)
    assert (fleet.machines["h00"].reboots, fleet.machines["h00"].runs["mine-1a2b-s1"]) == (
        0,
        "running",
    )


def test_a_window_and_a_skip_hold_reboots_back(tmp_path, fleet):
    campaign = consented(tmp_path)
    go(campaign, fleet)
    found = controller_of(campaign, fleet)
    found.look()
    at = time.localtime(fleet.now)
    later = f"{(at.tm_hour + 2) % 24:02}:00-{(at.tm_hour + 3) % 24:02}:00"
    for name, changed in (
        ("h00", {"window": later}),
        ("h02", {"skip": "in repair", "state": "skipped"}),
    ):
        found.hosts[name] = replace(found.hosts[name], **changed)
    found.launch()
    assert [machine.reboots for machine in fleet.machines.values()] == [0, 0, 0]


def test_without_consent_no_host_is_rebooted(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    for _ in range(5):
        states = go(campaign, fleet)
    assert states == {"h00": "waiting", "h01": "running", "h02": "waiting"}
    assert campaign.host("h00").reason.code == "boot-refused"
    assert [machine.reboots for machine in fleet.machines.values()] == [0, 0, 0]
    campaign.settings.model_copy(update={"reboot": True}).write(campaign.root / FILE)
    assert set(go(Campaign.open(campaign.root), fleet).values()) == {"running"}
    assert campaign.host("h00").sessions[0].attempts == 1


@pytest.mark.parametrize("reboot", [True, False])
def test_consent_is_kept_for_an_inventory_that_comes_later(tmp_path, monkeypatch, reboot):
    study = tmp_path / "study/boots.toml"
    study.parent.mkdir()
    study.write_text(STUDY)
    said = SimpleNamespace(
        study="study/boots.toml", image_key="4f", image_digest="cd", vtax_version="0.1.0"
    )
    monkeypatch.setattr(making, "_unpack", lambda pack, directory: (said, "ab" * 32))
    making.fill(tmp_path, "boots-1a2b", Wanted(reboot=reboot))
    assert Campaign.open(tmp_path).settings.reboot is reboot


def meanwhile(fleet: Fleet, change):
    """Have something happen once the next boot of hosts was set, before any is rebooted."""
    honest = fleet.run

    def run(tasks, given):
        yield from honest(tasks, given)
        if tasks == ["command"] and any("boot" in each["vtax_command"] for each in given.values()):
            change()

    fleet.run = run


def test_a_host_that_another_took_meanwhile_is_not_rebooted(tmp_path, fleet):
    campaign = consented(tmp_path)
    go(campaign, fleet)
    meanwhile(
        fleet,
        lambda: fleet.machines["h00"].failures.update(
            boot={"rc": 75, "stderr": "vtax: tour-3 measures"}
        ),
    )
    states = go(campaign, fleet)
    assert (states["h00"], campaign.host("h00").reason.code, states["h02"]) == (
        "busy",
        "lock-held",
        "running",
    )
    assert [machine.reboots for machine in fleet.machines.values()] == [0, 0, 1]


def test_a_window_that_closed_meanwhile_holds_reboots_back(tmp_path, fleet):
    at = time.localtime(fleet.now)
    campaign = consented(tmp_path, window=f"{at.tm_hour:02}:00-{(at.tm_hour + 1) % 24:02}:00")
    go(campaign, fleet)
    honest = fleet.run
    meanwhile(fleet, lambda: setattr(fleet, "now", fleet.now + 3600))
    states = go(campaign, fleet)
    assert (states["h00"], campaign.host("h00").reason.code) == ("waiting", "window")
    assert [machine.reboots for machine in fleet.machines.values()] == [0, 0, 0]
    fleet.run, fleet.now = honest, fleet.now + 23 * 3600
    assert go(campaign, fleet)["h00"] == "running"


def test_an_aborted_campaign_brings_what_was_measured_in_some_boots(tmp_path, fleet):
    campaign = consented(tmp_path)
    go(campaign, fleet)
    fleet.machines["h01"].end()
    campaign.abort()
    found, loader = controller_of(campaign, fleet), Counting()
    found.stop()
    found.collect(loader)
    assert ("h01", "mine-1a2b-s1") in loader.loaded
    assert [machine.reboots for machine in fleet.machines.values()] == [0, 0, 0]
