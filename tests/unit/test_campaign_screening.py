"""Screening of hosts: a probe before the first session, the distance of each, and who is excluded by it when."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from answering_hosts import Counting, Fleet, Machine, campaign_in, controller_of
from scipy.stats import energy_distance

from vtax.campaign.controller import merged
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import InventoryHost
from vtax.campaign.settings import Launch, Screening
from vtax.errors import BadInput


@pytest.fixture
def fleet() -> Fleet:
    """Five hosts, of which one copies memory in twice the time."""
    made = Fleet(**{f"h{i}": Machine(f"m{i}") for i in range(5)})
    made.now = time.time()
    made.machines["h3"].slower = 2.0
    return made


def go(campaign: Campaign, fleet: Fleet) -> dict[str, str]:
    """One `go`; the states of the hosts after it."""
    found = controller_of(Campaign.open(campaign.root), fleet)
    found.look()
    found.collect(Counting())  # type: ignore[arg-type]
    found.launch()
    return {host.name: host.state for host in campaign.hosts()}


def with_screening(campaign: Campaign, **values: float) -> Campaign:
    """The same campaign after an edit of its file."""
    campaign.settings.model_copy(update={"screening": Screening(**values)}).write(
        campaign.root / "campaign.toml"
    )
    return Campaign.open(campaign.root)


def new(tmp_path: Path, **screening: float) -> Campaign:
    return campaign_in(
        tmp_path / "c", launch=Launch(canary=0, first_percent=0), screening=Screening(**screening)
    )


def test_every_host_is_probed_once_and_its_distance_is_reported_and_decides_nothing(
    tmp_path, fleet
):
    campaign = new(tmp_path)
    assert {*go(campaign, fleet).values()} == {"running"}
    screens = {host.name: host.screen for host in campaign.hosts()}
    logs = [math.log(1), math.log(1.01)]
    apart = energy_distance([each + math.log(2) for each in logs], logs * 4)
    assert screens["h3"].distance == pytest.approx(apart, abs=1e-4)
    assert {name: (each.kind, each.others) for name, each in screens.items()} == {
        f"h{i}": ("memory", 4) for i in range(5)
    }
    assert (
        max((each.distance for name, each in screens.items() if name != "h3"))
        < 0.5
        < 1
        < screens["h3"].distance
    )
    asked = len(fleet.asked)
    go(campaign, fleet)
    assert [tasks for tasks, _ in fleet.asked[asked:]] == ["status"]


def test_who_is_too_far_is_excluded_where_the_file_said_so_before(tmp_path, fleet):
    campaign = new(tmp_path, exclude_above=1)
    states = go(campaign, fleet)
    assert states == {**dict.fromkeys(fleet.machines, "running"), "h3": "excluded"}
    assert fleet.machines["h3"].runs == {}
    host = campaign.host("h3")
    assert host is not None
    assert host.reason.code == "screened"
    assert go(campaign, fleet)["h3"] == "excluded"


def test_an_excluded_host_stays_so_when_the_inventory_skips_it_for_a_while(tmp_path, fleet):
    campaign = new(tmp_path, exclude_above=1)
    go(campaign, fleet)
    for skip in ("in repair", ""):
        found = merged(campaign, [InventoryHost(name, name, skip=skip) for name in fleet.machines])
        assert found["h3"].state == "excluded"
    assert found["h2"].state == "running"


@pytest.mark.parametrize("before", [{}, {"exclude_above": 3.0}, {"seconds": 0}])
def test_nobody_is_excluded_by_what_was_declared_later(tmp_path, fleet, before):
    campaign = new(tmp_path, **before)
    go(campaign, fleet)
    later = with_screening(campaign, exclude_above=1)
    with pytest.raises(BadInput) as caught:
        go(later, fleet)
    assert caught.value.where.endswith("screening.exclude_above")
    assert {host.state for host in campaign.hosts()} == {"running"}


def test_a_host_is_compared_within_its_group_and_with_three_others_at_least(tmp_path, fleet):
    campaign = new(tmp_path, exclude_above=1)
    found = controller_of(campaign, fleet)
    found.hosts["h3"] = replace(found.hosts["h3"], group="old")
    found.launch()
    distances = {host.name: (host.screen.distance, host.state) for host in campaign.hosts()}
    assert distances == {**dict.fromkeys(fleet.machines, (0.0, "running")), "h3": (None, "running")}


@pytest.mark.parametrize(
    ("failure", "state", "error"),
    [
        ({"rc": 75, "stderr": "vtax: another run measures"}, "busy", ""),
        ({"rc": 2, "stderr": "vtax: no memory"}, "running", "no memory"),
    ],
)
def test_a_probe_that_fails_is_named_and_a_host_that_measures_is_left_alone(
    tmp_path, fleet, failure, state, error
):
    fleet.machines["h1"].failures["probe"] = failure
    campaign = new(tmp_path)
    go(campaign, fleet)
    host = campaign.host("h1")
    assert host is not None
    assert (host.state, host.screen.error) == (state, error)


def test_one_that_measured_before_is_never_probed(tmp_path, fleet):
    campaign = new(tmp_path, seconds=0)
    assert {*go(campaign, fleet).values()} == {"running"}
    for machine in fleet.machines.values():
        machine.end("interrupted")
    go(with_screening(campaign, seconds=5), fleet)
    assert all(not host.probe for host in campaign.hosts())
