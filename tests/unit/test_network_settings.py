"""Link settings and what is derived from them without touching a kernel."""

from pathlib import Path

import pytest
from doc_examples import module_of

from vtax.errors import BadInput
from vtax.host.plugins import registered
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network import registry
from vtax.network.echo import checksum
from vtax.network.end import address_lines
from vtax.network.lab import address, address6, make_interface
from vtax.network.namespace import parse_traffic
from vtax.network.readback import InterfaceState, features
from vtax.network.settings import LinkSettings
from vtax.runner.points import checked_points
from vtax.study.load import LoadedStudy, validate

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:       0    0    0    0    0     0     0         0        0       0    0    0    0     0       0          0
  eth0: 1034203 1450    1    2    0     0     0         0   213490    1211    3    4    0     0       0          0
"""


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"mtu": 67}, "mtu"),
        ({"mtu": 65536}, "mtu"),
        ({"attachment": "wire"}, "attachment"),
        ({"rate_mbit_s": 0}, "rate"),
        ({"mut": 1500}, "mut"),
        ({"queues": 0}, "queues"),
    ],
)
def test_an_impossible_setting_is_named(values, name):
    with pytest.raises(BadInput, match=f"link setting '?{name}"):
        LinkSettings.of(values)


def test_defaults_are_filled_in_for_cells():
    link = registry.settings("point-to-point", {"mtu": 500})
    assert link.mtu == 500
    assert link.attachment == "bridge"


def test_an_unknown_topology_says_which_are_near():
    with pytest.raises(BadInput, match="point-to-point"):
        registry.get("point-to-pont")


@pytest.mark.parametrize(
    ("topology", "link", "key"),
    [
        ("point-to-point", {}, "5c73c04d5f0b"),
        ("multi-nic", {"interfaces": 3}, "a01ad3cff4f9"),
        ("vlan-pairs", {"pairs": 2}, "876613eb183c"),
    ],
)
def test_a_cell_has_the_same_key_on_every_host(topology, link, key, tmp_path, installed):
    installed(but="")
    table = {"name": "iperf3", "topology": topology, "link": link}
    study = validate({"name": "x", "platforms": ["native"], "benchmark": [table]}, "x.toml")
    (point,) = checked_points(LoadedStudy(study, "x.toml"), Image("key", tmp_path))
    assert point.key == key


def test_only_what_needs_fresh_guests_changes_the_structure():
    settings = LinkSettings()
    assert (
        settings.structure() == LinkSettings(mtu=9000, offloads=False, rate_mbit_s=100).structure()
    )
    assert settings.structure() != LinkSettings(attachment="veth").structure()


def test_addresses_are_of_the_networks_set_aside_for_benchmarks():
    assert address(0, 2) == "198.18.0.2"
    assert address(256, 2) == "198.19.0.2"
    assert address6(17, 2) == "2001:2:0:11::2"


def test_ipv6_is_left_out_below_its_least_mtu():
    interface = make_interface(0, 0, 2, LinkSettings(mtu=500))
    assert not any("2001:" in line for line in address_lines(interface, LinkSettings(mtu=500)))
    assert any("2001:" in line for line in address_lines(interface, LinkSettings(mtu=1280)))


def test_every_route_carries_the_congestion_control():
    interface = make_interface(0, 0, 2, LinkSettings(), (("198.18.1.0/24", "198.18.0.1"),))
    routes = [
        line
        for line in address_lines(interface, LinkSettings(congestion="reno"))
        if line.startswith("route")
    ]
    assert len(routes) == 3
    assert all(line.endswith("congctl reno") for line in routes)


def test_traffic_is_read_field_by_field():
    traffic = parse_traffic(NET_DEV)["eth0"]
    assert traffic == {
        **{"rx_bytes": 1034203, "rx_packets": 1450, "rx_errors": 1, "rx_drops": 2},
        **{"tx_bytes": 213490, "tx_packets": 1211, "tx_errors": 3, "tx_drops": 4},
    }


def test_the_checksum_is_that_of_rfc_1071():
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
    assert checksum(b"\x01") == 0xFFFF - 0x0100


def test_the_documentations_topology_is_one():
    ((_, topology),) = registered(module_of("add-a-topology.md", "doc_chain"))
    topology.check(topology.Settings.of({"mtu": 9000, "label": "large"}))


def test_the_documentation_names_every_topology_and_setting():
    text = (Path(__file__).parents[2] / "docs" / "network.md").read_text()
    settings = {
        name
        for topology in registry.topologies().values()
        for name in topology.Settings.model_fields
    }
    for name in [*registry.topologies(), *settings]:
        assert f"`{name}`" in text


def ethtool(name):
    return features((Path(__file__).parent / "fixtures" / "ethtool" / f"{name}.txt").read_text())


def test_offloads_are_read_from_what_ethtool_prints():
    assert ethtool("veth") == {"tx": True, "tso": True, "gso": True, "gro": False}
    assert ethtool("veth-off") == {"tx": False, "tso": False, "gso": False, "gro": False}
    assert features("ethtool: bad command line argument(s)") == {}


def test_what_is_not_as_requested_is_a_warning():
    on, off = (
        InterfaceState(1500, ethtool("veth")),
        InterfaceState(1500, ethtool("veth-off"), queues=1),
    )
    assert on.differences("guest.eth0", LinkSettings()) == []
    assert off.differences("guest.eth0", LinkSettings(offloads=False)) == []
    assert len(off.differences("guest.eth0", LinkSettings())) == 3
    assert on.differences("guest.eth0", LinkSettings(mtu=500)) == [
        Note("link-mtu", name="guest.eth0", requested=500, found=1500)
    ]
    queues = off.differences("guest.eth0", LinkSettings(offloads=False, queues=2))
    assert queues == [Note("link-queues", name="guest.eth0", requested=2, found=1)]
