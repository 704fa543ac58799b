"""What a study can get wrong about networks is said before the run: what, where in the file, and what to do."""

from __future__ import annotations

import pytest
from lab_networks import planned, refused

from vtax.benchmarks import network as limits
from vtax.messages import Note
from vtax.network import settings
from vtax.platforms import native
from vtax.platforms.base import NetworkLimits


@pytest.mark.parametrize(
    ("name", "parameters", "key"),
    [
        ("iperf3", {"protocol": "udp", "length": 65508}, "iperf3"),
        ("iperf2", {"protocol": "udp", "length": "64KiB"}, "iperf2"),
        ("netperf", {"test": "udp_stream", "message_size": 65508}, "netperf"),
        ("netperf", {"test": "udp_rr", "response_size": 70000}, "netperf"),
    ],
)
def test_a_message_larger_than_a_datagram(name, parameters, key):
    error = refused({"name": name, "parameters": parameters})
    assert "UDP datagram holds (65507 bytes)" in error.what
    assert f"[[benchmark]] number 1 ({key})" in error.where


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("iperf3", "window"),
        ("iperf2", "window"),
        ("netperf", "socket_buffer"),
        ("sockperf", "socket_buffer"),
    ],
)
@pytest.mark.parametrize("sysctl", ["wmem_max", "rmem_max"])
def test_a_buffer_above_the_hosts_limit(name, key, sysctl, tmp_path, monkeypatch):
    paths = {which: tmp_path / which for which in ("wmem_max", "rmem_max")}
    for which, path in paths.items():
        path.write_text("212992\n" if which == sysctl else "99999999\n")
    monkeypatch.setattr(limits, "_BUFFER_LIMITS", tuple(paths.values()))
    planned({"name": name, "parameters": {key: 212992}})
    error = refused({"name": name, "parameters": {key: 212993}})
    assert f"{key} 212993 is above this host's net.core.{sysctl} (212992 bytes)" in error.what
    assert f"sysctl -w net.core.{sysctl}=212993" in error.hint
    assert f"({name})" in error.where


@pytest.mark.parametrize(
    ("platform", "limit"),
    [
        ("qemu-tcg-rtl8139", 4096),
        ("qemu-tcg-e1000", 16110),
        ("qemu-tcg-microvm", 65521),
        ("qemu-tcg", 65521),
    ],
)
def test_an_mtu_that_a_nic_model_cannot_carry(platform, limit):
    assert planned({"name": "iperf3", "link": {"mtu": limit}}, platform).untested == ()
    (untested,) = planned(
        {"name": "iperf3", "link_factors": {"mtu": [1500, limit + 1]}}, platform
    ).untested
    assert (untested.platform.name, untested.point.levels) == (platform, {"link.mtu": limit + 1})
    error = untested.error
    beyond = Note("mtu-beyond", name=platform, most=limit, label="iperf3", wanted=limit + 1)
    assert error.what == beyond
    assert "mtu of iperf3" in error.where
    assert error.hint == Note("hint-at-most", name=platform, most=limit)


@pytest.mark.parametrize(
    ("topology", "link", "needed"),
    [("router", {}, 2), ("multi-nic", {"interfaces": 3}, 3)],
    ids=["router", "multi-nic"],
)
def test_a_topology_with_more_interfaces_than_a_platform(topology, link, needed, monkeypatch):
    monkeypatch.setattr(
        native.Native,
        "network_limits",
        lambda self, options: NetworkLimits(interfaces=1),
        raising=False,
    )
    error = refused({"name": "iperf3", "topology": topology, "link": link})
    beyond = Note("interfaces-beyond", topology=topology, needed=needed, name="native", most=1)
    assert error.what == beyond
    assert "topology of iperf3" in error.where


@pytest.mark.parametrize("topology", ["router-openflow", "vlan-pairs"])
def test_an_mtu_that_open_vswitch_cannot_carry(topology, installed):
    installed(but="")
    benchmark = {"name": "iperf3", "topology": topology}
    planned({**benchmark, "link": {"mtu": 65500}})
    error = refused({**benchmark, "link_factors": {"mtu": [1500, 65501]}})
    assert error.what.endswith(f"{topology} carries an MTU of at most 65500, not 65501")
    assert "number 1 (iperf3)" in error.where


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), 1e12, 400_001])
def test_a_rate_that_no_link_can_be_limited_to(rate):
    planned({"name": "iperf3", "link": {"rate_mbit_s": 400_000}})
    error = refused({"name": "iperf3", "link": {"rate_mbit_s": rate}})
    assert "rate_mbit_s is" in error.what
    assert "number 1 (iperf3)" in error.where


@pytest.mark.parametrize("topology", ["router-openflow", "vlan-pairs"])
def test_no_open_vswitch(topology, installed):
    installed()
    error = refused({"name": "iperf3", "topology": topology})
    assert "needs Open vSwitch" in error.what
    assert "number 1 (iperf3), keys topology and link" in error.where
    assert "openvswitch-switch" in error.hint


@pytest.mark.parametrize(
    ("topology", "link", "message"),
    [
        ("router", {"attachment": "macvtap"}, "router cannot be built with macvtap"),
        ("router", {"interfaces": 3}, "link setting interfaces: router has no such setting"),
        ("router", {"peer": "ssh:x/a:b"}, "link setting peer: router has no such setting"),
        (
            "guest-to-host",
            {"peer": "ssh:x/a:b"},
            "link setting peer: guest-to-host has no such setting",
        ),
        (
            "guest-to-host",
            {"attachment": "own-nat", "rate_mbit_s": 4},
            "where no link has a rate, delay or loss",
        ),
    ],
)
def test_links_that_a_topology_cannot_have(topology, link, message):
    error = refused({"name": "iperf3", "topology": topology, "link": link})
    assert message in error.what
    assert "number 1 (iperf3)" in error.where


@pytest.mark.parametrize(
    ("topology", "link", "message"),
    [
        (
            "point-to-point",
            {"peer": "native"},
            "native is a platform of driver native, and no other machine",
        ),
        (
            "point-to-point",
            {"peer": "ssh:x"},
            "nothing says which network interfaces join ssh:x to this host",
        ),
        (
            "point-to-point",
            {"peer": "ssh:x/a:b", "attachment": "veth"},
            "ssh:x/a:b cannot be joined by veth",
        ),
        ("point-to-point", {"peer": "ssh:x/nosuch0:b"}, "no network interface nosuch0"),
        (
            "point-to-point",
            {"peer": "ssh:x/much-too-long-for-a-nic:b"},
            "it must be text such as 'eth1:eth2'",
        ),
        ("point-to-point", {"peer": "ssh:x/a:b/a:c"}, "name an interface twice"),
        ("multi-nic", {"peer": "ssh:x/a:b", "interfaces": 2}, "ssh:x/a:b has at most 1"),
        (
            "router",
            {"generator": "ssh:x/a:b", "receiver": "ssh:x/a:b"},
            "ssh:x/a:b is at two ends of router",
        ),
        ("router", {"generator": "ssh:x/nosuch0:b"}, "no network interface nosuch0"),
    ],
)
def test_ends_that_cannot_be_on_another_machine(topology, link, message):
    error = refused({"name": "iperf3", "topology": topology, "link": link})
    assert message in error.what
    assert "study.toml: " in error.where
    assert error.hint


def test_a_machine_with_too_few_uplinks_is_to_be_given_more():
    error = refused(
        {
            "name": "iperf3",
            "topology": "router",
            "guests": [2],
            "link": {"receiver": "ssh:x/a:b"},
        }
    )
    form = "NIC:NIC_THERE/NIC:NIC_THERE"
    assert error.hint == Note("hint-more-uplinks", name="ssh:x/a:b", needed=2, form=form)


def test_a_congestion_control_that_the_kernel_lacks(tmp_path, monkeypatch):
    available = tmp_path / "tcp_available_congestion_control"
    available.write_text("reno bbr cubic\n")
    monkeypatch.setattr(settings, "_CONGESTION", available)
    planned({"name": "iperf3", "link_factors": {"congestion": ["reno", "bbr"]}})
    error = refused({"name": "iperf3", "link_factors": {"congestion": ["reno", "bogus"]}})
    assert error.what.endswith("kernel has no 'bogus'")
    assert "number 1 (iperf3)" in error.where
    assert "bbr, cubic, reno" in error.hint


def test_a_link_without_a_peer_is_defined_as_it_always_was():
    (point,) = planned({"name": "iperf3"}).points
    assert not {"peer", "generator"} & set(point.link.model_dump())
