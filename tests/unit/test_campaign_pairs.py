"""Which pairs of hosts are launched when, and which of the two measures; what of a campaign has no pairs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from answering_hosts import (
    Counting,
    Fleet,
    Machine,
    campaign_in,
    controller_of,
    go,
    put_in_ansibles_place,
)
from campaign_studies import COUNTING, TWO_BOOTS

from vtax.campaign import controller as module
from vtax.campaign.change import draw
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import CampaignHost, HostSession, InventoryHost
from vtax.campaign.inventory import hosts_of
from vtax.campaign.pairs import check_hosts, check_study, missing, rounds_of, wanted_pairs
from vtax.campaign.peer import peer_options
from vtax.campaign.screening import KINDS, is_due, launched, screened
from vtax.campaign.settings import Change, Launch, Pairs, Screening
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.network.lab import NUMBER, address, address6, mac
from vtax.platforms.ssh import DRIVER
from vtax.platforms.ssh_options import PEER, PEER_OPTIONS, SshOptions
from vtax.study.load import load

MACHINE = """
[[platform]]
name = "other"
driver = "ssh"
host = "@peer"
"""
LINKED = """
[[benchmark]]
name = "iperf3"
link = {{ peer = "{}" }}
"""


class Hosts(Fleet):
    """A fleet whose hosts have an interface to each other, and that all share the time of the controller."""

    def campaign(
        self, directory: Any, *, table: dict[str, Any] | None = None, **changes: Any
    ) -> Campaign:
        """A campaign of pairs on these hosts, as its first `go` finds it."""
        made = campaign_in(
            directory, **{"launch": Launch(canary=0), "pairs": Pairs(**(table or {})), **changes}
        )
        for name in self.machines:
            made.keep(
                CampaignHost(
                    name,
                    home="/var/lib/vtax",
                    nic="eth1",
                    peer_address=f"{name}.lab",
                    group=name[0],
                )
            )
        return made

    def end(self) -> None:
        """End whatever runs."""
        for machine in self.machines.values():
            machine.end()


@pytest.fixture
def fleet(request) -> Hosts:
    """Hosts a, b, c and so on: as many as the test says."""
    made = Hosts(
        **{f"{chr(97 + i)}1": Machine(f"m{i}") for i in range(getattr(request, "param", 4))}
    )
    return made


def measured(campaign: Campaign) -> list[tuple[str, str]]:
    """The pairs that were launched: who measured, and with whom."""
    return [(host.name, each.peer) for host in campaign.hosts() for each in host.sessions]


@pytest.mark.parametrize("count", range(2, 31))
def test_every_pair_meets_once_and_nobody_is_twice_in_a_round(count):
    names = [f"h{i:02}" for i in range(count)]
    rounds = [*rounds_of(names)]
    assert len(rounds) == count - 1 + count % 2
    for each in rounds:
        assert len({name for pair in each for name in pair}) == 2 * len(each) == count - count % 2
    assert sorted(tuple(sorted(pair)) for each in rounds for pair in each) == [
        *combinations(names, 2)
    ]


@pytest.mark.parametrize("fleet", [2, 3, 4, 5, 8], indirect=True)
def test_where_all_answer_the_rounds_are_those_of_the_colouring_and_the_ends_are_balanced(
    tmp_path, fleet
):
    campaign, loader, count = fleet.campaign(tmp_path / "c"), Counting(), len(fleet.machines)
    for _ in range(count - 1 + count % 2):
        assert list(go(campaign, fleet, loader).values()).count("running") == count // 2
        running = [
            name
            for host in campaign.hosts()
            if (each := host.running)
            for name in (host.name, each.peer)
        ]
        assert len({*running}) == 2 * (count // 2)
        labs = [each.lab for host in campaign.hosts() if (each := host.running)]
        assert sorted(labs) == [*range(count // 2)], "no two at once have one number"
        fleet.end()
    assert set(go(campaign, fleet, loader).values()) == {"collected"}
    assert sorted(tuple(sorted(pair)) for pair in measured(campaign)) == [
        *combinations(sorted(fleet.machines), 2)
    ]
    near = Counter(name for name, _ in measured(campaign))
    assert max(near.values()) - min(near[name] for name in fleet.machines) <= 1
    before = len(fleet.asked)
    assert set(go(campaign, fleet, loader).values()) == {"collected"}
    assert len(fleet.asked) == before, "with nothing to do nobody is asked"


def test_a_pair_is_measured_from_the_other_end_the_next_time_and_not_before_its_time(
    tmp_path, fleet
):
    campaign = fleet.campaign(
        tmp_path / "c", table={"only": [["b1", "a1"]]}, sessions=2, every="1d"
    )
    go(campaign, fleet)
    fleet.end()
    go(campaign, fleet)
    assert len(measured(campaign)) == 1
    fleet.now += 86_500
    go(campaign, fleet)
    assert sorted(measured(campaign)) == [("a1", "b1"), ("b1", "a1")]


def test_pairs_of_a_host_that_is_gone_or_busy_wait_and_the_others_go_on(tmp_path, fleet):
    campaign, loader = fleet.campaign(tmp_path / "c"), Counting()
    fleet.machines["b1"].is_reachable = False
    fleet.machines["c1"].obstacles = [{"code": "lock-held", "detail": "another run"}]
    go(campaign, fleet, loader)
    assert [{*pair} for pair in measured(campaign)] == [{"a1", "d1"}]
    fleet.machines["c1"].obstacles = []
    for _ in range(3):
        fleet.end()
        states = go(campaign, fleet, loader)
    assert {frozenset(pair) for pair in measured(campaign)} == {
        *map(frozenset, combinations(("a1", "c1", "d1"), 2))
    }
    assert "collected" not in states.values(), "each has a pair with the one that is gone"
    fleet.machines["b1"].is_reachable = True
    for _ in range(4):
        fleet.end()
        states = go(campaign, fleet, loader)
    assert set(states.values()) == {"collected"}


def test_an_interrupted_pair_is_resumed_by_the_same_host_and_given_up_alone(tmp_path, fleet):
    campaign, loader = (
        fleet.campaign(tmp_path / "c", launch=Launch(canary=0, attempts=2)),
        Counting(),
    )
    go(campaign, fleet, loader)
    first = measured(campaign)
    name, peer = first[0]
    fleet.machines[name].end("interrupted")
    fleet.end()
    for _ in range(5):
        go(campaign, fleet, loader)
        fleet.machines[name].runs = {
            id_: "interrupted" if id_.endswith("s1") else state
            for id_, state in fleet.machines[name].runs.items()
        }
        fleet.end()
    go(campaign, fleet, loader)
    pairs = [tuple(sorted(pair)) for pair in measured(campaign)]
    assert sorted(pairs) == [*combinations(sorted(fleet.machines), 2)], (
        "every other pair was measured"
    )
    given_up = campaign.host(name).session(1)
    assert (given_up.peer, given_up.attempts, given_up.state) == (peer, 2, "interrupted")
    go(campaign, fleet, loader, retry=True)
    assert campaign.host(name).session(1).attempts == 1


def test_a_pair_that_failed_begins_anew_and_its_host_measures_with_others_meanwhile(
    tmp_path, fleet
):
    campaign, loader = fleet.campaign(tmp_path / "c"), Counting()
    go(campaign, fleet, loader)
    ((name, peer), *_) = measured(campaign)
    fleet.machines[name].end("failed")
    fleet.machines[peer].is_reachable = False
    fleet.end()
    go(campaign, fleet, loader)
    (again,) = [{host.name, host.running.peer} for host in campaign.hosts() if host.running]
    assert name in again
    assert peer not in again
    fleet.machines[peer].is_reachable = True
    for _ in range(6):
        fleet.end()
        states = go(campaign, fleet, loader)
    assert set(states.values()) == {"collected"}
    assert [
        (each.again, each.attempts) for each in campaign.host(name).sessions if each.peer == peer
    ] == [(1, 2)]


def test_one_pair_measures_before_the_others(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c", launch=Launch())
    go(campaign, fleet)
    go(campaign, fleet)
    assert len(measured(campaign)) == 1
    fleet.end()
    go(campaign, fleet)
    assert len(measured(campaign)) == 2, "the other pair of that round"


def test_a_host_is_launched_with_the_address_of_its_peer_and_a_number(tmp_path, fleet):
    campaign, said = fleet.campaign(tmp_path / "c"), []
    honest = fleet.run
    fleet.run = lambda tasks, given: said.extend(given.items()) or honest(tasks, given)  # type: ignore
    go(campaign, fleet)
    commands = {
        name: given["vtax_command"] for name, given in said if "run" in given["vtax_command"]
    }
    ((_, peer), *_) = pairs = [(name, campaign.host(name).running.peer) for name in commands]
    assert len(pairs) == 2
    words = commands[pairs[0][0]]
    assert words[words.index("--peer") + 1 :][:5] == [
        f"{peer}.lab/eth1:eth1",
        "--peer-home",
        "/var/lib/vtax",
        "--lab",
        words[words.index("--lab") + 1],
    ]


def test_two_names_of_one_host_are_no_pair(tmp_path, fleet):
    fleet.machines["d1"].machine_id = fleet.machines["a1"].machine_id
    campaign = fleet.campaign(tmp_path / "c", table={"only": [["a1", "d1"]]})
    go(campaign, fleet)
    assert measured(campaign) == []
    assert campaign.host("d1").reason.code == "same-host"


@pytest.mark.parametrize(
    ("table", "pairs"),
    [
        ({"rounds": 1}, {"a1-d2", "b1-c2"}),
        ({"within_groups": True}, {"a1-b1", "c2-d2"}),
        ({"only": [["d2", "a1"], ["a1", "d2"]]}, {"a1-d2"}),
    ],
)
def test_campaign_toml_says_which_pairs(tmp_path, table, pairs):
    campaign = campaign_in(tmp_path / "c", pairs=Pairs(**table))
    hosts = [CampaignHost(name, group=name[1]) for name in ("d2", "c2", "b1", "a1")]
    assert {"-".join(sorted(pair)) for pair in wanted_pairs(hosts, campaign.settings)} == pairs


@pytest.mark.parametrize(
    ("hosts", "table", "said"),
    [
        ({"a": "eth1", "b": ""}, {}, "b names no interface"),
        ({"a": "eth1", "b": "eth1:eth2"}, {}, "'eth1:eth2' of b are no names of interfaces"),
        ({"a": "eth1", "b": "an-interface-too"}, {}, "'an-interface-too' of b are no names"),
        ({"a": "eth1", "b": "eth1/eth1"}, {}, "'eth1/eth1' of b are no names"),
        ({"a": "eth1", "b": "{{nic}}"}, {}, "of b is a template"),
        ({"a": "eth1", "b": "eth1/eth2"}, {}, "a and b have different numbers of interfaces"),
        ({"a": "eth1", "b": "eth1/eth2"}, {"only": [["b", "a"]]}, "b and a have different numbers"),
        ({"a": "eth1"}, {}, "two hosts"),
        ({"a": "eth1", "b": "eth1"}, {"only": [["a", "x"]]}, "no host x"),
    ],
)
def test_hosts_without_pairs_are_refused(tmp_path, hosts, table, said):
    campaign = campaign_in(tmp_path / "c", pairs=Pairs(**table))
    listed = [InventoryHost(name, name, nic=nic, peer_address=name) for name, nic in hosts.items()]
    with pytest.raises(BadInput, match=said):
        check_hosts(listed, campaign.settings)


@pytest.mark.parametrize(
    ("changed", "place", "said"),
    [
        ({"peer_address": "{{ inventory_hostname }}.lan"}, "vtax_address", "of b is a template"),
        ({"home": "/data/{{ inventory_hostname }}"}, "vtax_home", "of b is a template"),
        ({"peer_address": "-oProxyCommand=x"}, "vtax_address", "of b cannot be used by ssh"),
        ({"peer_address": "192.0.2.2/eth0:eth0"}, "vtax_address", "of b cannot be used by ssh"),
        ({"peer_address": "@peer"}, "vtax_address", "of b cannot be used by ssh"),
        ({"home": "/data/my home"}, "vtax_home", "of b cannot be used by ssh"),
    ],
)
def test_what_ssh_to_a_host_cannot_use_is_refused_by_its_variable(tmp_path, changed, place, said):
    campaign = campaign_in(tmp_path / "c", pairs=Pairs())
    known = {"nic": "eth1", "peer_address": "192.0.2.1"}
    with pytest.raises(BadInput, match=said) as caught:
        check_hosts(
            [InventoryHost("a", "a", **known), InventoryHost("b", "b", **{**known, **changed})],
            campaign.settings,
        )
    assert caught.value.where.endswith(place)


@pytest.mark.parametrize("table", [{"within_groups": True}, {"only": [["a", "b"], ["c", "d"]]}])
def test_hosts_that_never_meet_may_have_other_numbers_of_interfaces(tmp_path, table):
    campaign = campaign_in(tmp_path / "c", pairs=Pairs(**table))
    nics = {"a": "eth1", "b": "eth2", "c": "eth1/eth2", "d": "eth3/eth4"}
    listed = [
        InventoryHost(name, name, group=nic[4:5], nic=nic, peer_address=f"root@{name}.lan")
        for name, nic in nics.items()
    ]
    check_hosts(listed, campaign.settings)


def test_the_inventory_says_interfaces_and_where_other_hosts_reach_each(tmp_path):
    listed = {
        "_meta": {
            "hostvars": {
                "a": {"ansible_host": "192.0.2.1", "vtax_nic": "eth1"},
                "b": {
                    "ansible_host": "192.0.2.2",
                    "vtax_nic": "eth2",
                    "vtax_address": "198.51.100.2",
                },
            }
        }
    }
    assert [(each.nic, each.peer_address) for each in hosts_of(listed, "hosts.yml")] == [
        ("eth1", "192.0.2.1"),
        ("eth2", "198.51.100.2"),
    ]


def test_labs_of_other_numbers_have_other_addresses_and_the_first_those_of_a_single_one(
    monkeypatch,
):
    seen = set()
    for number in range(16):
        monkeypatch.setenv(NUMBER, str(number))
        for network in range(32):
            seen |= {address(network, 1), address6(network, 1), mac(network, 1, 0)}
    assert len(seen) == 3 * 16 * 32
    monkeypatch.delenv(NUMBER)
    assert (address(1, 2), address6(1, 2), mac(1, 2, 3)) == (
        "198.18.1.2",
        "2001:2:0:1::2",
        "02:76:74:01:02:03",
    )


def test_the_machine_that_a_campaign_names_is_what_it_says_and_refused_where_it_says_nothing(
    monkeypatch,
):
    study = SshOptions(host=PEER, config="/etc/lab")
    monkeypatch.delenv(PEER_OPTIONS, raising=False)
    with pytest.raises(BadInput, match="a campaign names the machine @peer"):
        DRIVER.uplinks(study)
    home = Home(Path("/var/lib/vtax"))
    named = peer_options("192.0.2.2/eth1:eth2", Path("/data/vtax"), home)
    monkeypatch.setenv(PEER_OPTIONS, named.of_peer())
    found = study.named
    assert (found.host, found.config, found.uplinks, found.home) == (
        "192.0.2.2",
        "/etc/lab",
        "eth1:eth2",
        "/data/vtax",
    )
    assert (named.local_user, found.local_user) == ("root", "root"), (
        "whoever asks, with the keys of the later run"
    )
    command = DRIVER.command(study, ["-m", "vtax"])[-1]
    assert command == f"env VTAX_HOME=/data/vtax {sys.executable} -m vtax"
    with pytest.raises(BadInput):
        peer_options("-oProxyCommand=x/eth1:eth2", None, home)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (MACHINE + MACHINE.replace("other", "third"), "other and third are several machines"),
        (
            MACHINE + LINKED.format("ssh:web1/eth1:eth1"),
            "other and ssh:web1/eth1:eth1 are several machines",
        ),
        (
            LINKED.format("ssh:@peer/eth1:eth1"),
            "ssh:@peer/eth1:eth1: @peer needs a table of its own",
        ),
        (MACHINE + TWO_BOOTS, "pairs are not rebooted"),
        (MACHINE, "addresses of their hosts"),
        (MACHINE, "other is another machine that nothing is measured on or with"),
    ],
)
def test_a_study_that_has_no_pairs_makes_no_campaign_of_them(tmp_path, tables, said):
    (tmp_path / "s.toml").write_text(f'name = "s"\nplatforms = ["native"]\n{tables}{COUNTING}')
    (tmp_path / "count.sh").touch()
    study = load(str(tmp_path / "s.toml")).study
    with pytest.raises(BadInput, match=said):
        check_study(study, "s.toml", "" if said.startswith("addresses") else "hosts.yml")


def test_a_change_of_pairs_is_refused(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c", pairs=Pairs(), change=Change(what="kernel", first=["a"]))
    with pytest.raises(BadInput, match="change of pairs"):
        check_hosts([InventoryHost(name, name, nic="eth1") for name in "ab"], campaign.settings)


REFUSES = {"run": {"rc": 2, "stderr": "the peer has no eth1"}}
GONE = {"run": {"rc": 127, "stderr": "no such command"}}


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_a_pair_that_is_given_up_is_named_and_tried_again_by_retry_alone(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c", launch=Launch(canary=0, attempts=2))
    ((name, peer),) = measured_after(campaign, fleet, failures=REFUSES)
    fleet.machines[peer].is_reachable = False
    assert go(campaign, fleet)[name] == "waiting", "it was checked, and not launched"
    fleet.machines[peer].is_reachable = True
    for _ in range(3):
        states = go(campaign, fleet)
    assert states[name] == "waiting", "which is not that it could measure"
    assert campaign.host(name).reason.code == "run-refused"
    assert controller_of(campaign, fleet).given_up() == [f"{name}-{peer}"]
    fleet.machines[name].failures = {}
    assert go(campaign, fleet)[name] == "waiting"
    assert go(campaign, fleet, retry=True)[name] == "running"
    assert controller_of(campaign, fleet).given_up() == []


def measured_after(
    campaign: Campaign, fleet: Hosts, failures: dict[str, Any]
) -> list[tuple[str, str]]:
    """The pairs that a first `go` launches on hosts that all fail so."""
    for machine in fleet.machines.values():
        machine.failures = failures
    go(campaign, fleet)
    return measured(campaign)


def test_the_peer_of_a_host_that_is_gone_or_skipped_measures_with_others_in_another_lab(
    tmp_path, fleet
):
    campaign = fleet.campaign(tmp_path / "c", table={"only": [["a1", "b1"], ["b1", "c1"]]})
    go(campaign, fleet)
    fleet.machines["a1"].is_reachable = False
    go(campaign, fleet)
    assert measured(campaign) == [("a1", "b1"), ("b1", "c1")]
    assert [campaign.host(name).running.lab for name in ("a1", "b1")] == [0, 1]
    skipped = campaign_in(tmp_path / "d", launch=Launch(canary=0), pairs=campaign.settings.pairs)
    for host in campaign.hosts():
        skipped.keep(
            replace(
                host,
                sessions=() if host.name == "b1" else host.sessions,
                **({"skip": "in repair", "state": "skipped"} if host.name == "a1" else {}),
            )
        )
    fleet.machines["b1"].runs = {}
    go(skipped, fleet)
    assert ("b1", "c1") in measured(skipped)


@pytest.mark.parametrize("fleet", [9], indirect=True)
def test_a_pair_that_fails_counts_against_no_host(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c", launch=Launch(canary=0, attempts=1))
    for _ in range(12):
        go(campaign, fleet)
        for name, peer in measured(campaign):
            if (
                "d1" in (name, peer)
                and (found := campaign.host(name).running)
                and found.peer == peer
            ):
                fleet.machines[name].end("failed")
        fleet.end()
    good = {pair for pair in combinations(sorted(fleet.machines), 2) if "d1" not in pair}
    collected = {
        tuple(sorted((host.name, each.peer)))
        for host in campaign.hosts()
        for each in host.sessions
        if each.state == "collected"
    }
    assert collected == good
    assert "failed" not in {host.state for host in campaign.hosts()}


def test_a_pair_whose_vtax_is_gone_is_launched_once_a_call(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c")
    for machine in fleet.machines.values():
        machine.failures = GONE
    launches = []
    honest = fleet.run

    def counted(tasks, given):
        launches.extend(
            n for n, each in given.items() if "run" in each["vtax_command"] and tasks == ["command"]
        )
        assert len(launches) < 50, "without an end"
        return honest(tasks, given)

    fleet.run = counted  # type: ignore[method-assign]
    go(campaign, fleet)
    assert len(launches) == 6, "every pair once"


def test_a_campaign_with_one_host_left_is_aborted_and_collected_but_launches_nothing(
    tmp_path, fleet, monkeypatch
):
    campaign = fleet.campaign(tmp_path / "c", inventory="hosts.yml")
    go(campaign, fleet)
    fleet.end()
    listed = [
        InventoryHost(name, name, skip="" if name == "a1" else "sold", nic="eth1")
        for name in fleet.machines
    ]
    put_in_ansibles_place(fleet, monkeypatch, lambda: listed)
    with module.controller(campaign, lambda text: None) as found:
        found.look()
        assert found.collect(Counting()).loaded == 1  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="two hosts"):
            found.launch()
    with module.controller(campaign, lambda text: None, aborts=True) as found:
        found.stop()
    with pytest.raises(BadInput, match="change of pairs"):
        draw(campaign, "kernel")


def test_a_host_is_not_excluded_once_it_was_a_peer(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c", screening=Screening(exclude_above=0.9))
    known = [
        replace(
            host,
            group="",
            state="ready",
            probe=dict.fromkeys(KINDS, (2.0 if host.name == "b1" else 1.0,)),
        )
        for host in campaign.hosts()
    ]
    (excluded,) = [
        each.name for each in screened(known, campaign.settings, ()) if each.state == "excluded"
    ]
    assert excluded == "b1"
    known[0] = known[0].with_session(HostSession(1, "s1", "collected", peer="b1"))
    before = launched(known)
    assert not [
        each for each in screened(known, campaign.settings, before) if each.state == "excluded"
    ]
    assert not is_due(replace(known[1], probe={}), before)


@pytest.mark.parametrize("fleet", [2], indirect=True)
def test_what_an_interrupted_pair_measured_is_brought_once_it_is_given_up(tmp_path, fleet):
    campaign, loader = (
        fleet.campaign(tmp_path / "c", launch=Launch(canary=0, attempts=1)),
        Counting(),
    )
    go(campaign, fleet, loader)
    ((name, _),) = measured(campaign)
    fleet.machines[name].end("interrupted")
    go(campaign, fleet, loader)
    assert loader.loaded == [(name, campaign.settings.run_id(1))]
    go(campaign, fleet, loader, retry=True)
    assert campaign.host(name).running.id == campaign.settings.run_id(1, 1), (
        "loaded once, by that id"
    )


def test_retry_forgets_who_a_host_is_only_where_that_may_have_changed(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c")
    for name, state in (("a1", "waiting"), ("b1", "refused")):
        campaign.keep(replace(campaign.host(name), state=state, identity="known"))
    controller_of(campaign, fleet).retry()
    assert (campaign.host("a1").identity, campaign.host("b1").identity) == ("known", "")


def test_pairs_of_a_host_that_the_inventory_has_no_more_are_not_missing(tmp_path, fleet):
    campaign = fleet.campaign(tmp_path / "c", table={"rounds": 1})
    listed = [InventoryHost(name, name, nic="eth1") for name in fleet.machines if name != "b1"]
    wanted = wanted_pairs(module.merged(campaign, listed).values(), campaign.settings)
    assert [*missing(campaign.hosts(), campaign.settings)] == wanted
    listed.append(InventoryHost("b1", "b1", nic="eth1"))
    module.merged(campaign, listed)
    assert len(missing(campaign.hosts(), campaign.settings)) == 2, "it is there again"
