"""The rate of a real wire is the slower interface's; the interfaces and what they report are invented."""

from __future__ import annotations

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.network import check_link
from vtax.errors import BenchmarkError
from vtax.network import links
from vtax.network.end import NetworkEnd
from vtax.network.hop import Hop
from vtax.network.lab import make_interface
from vtax.network.links import Flow, Links
from vtax.network.namespace import HOST
from vtax.network.plugboard import Uplink
from vtax.network.topologies.point_to_point import PointToPointSettings
from vtax.network.uplink import nic_rate_mbit_s


@pytest.mark.parametrize(
    ("printed", "rate"),
    [("1000\n", 1000.0), ("-1\n", None), ("0\n", None), ("\n", None), ("10\n", 10.0)],
)
def test_an_interface_that_does_not_know_its_speed_sets_no_limit(printed, rate):
    requested: list[str] = []
    assert nic_rate_mbit_s(lambda argv: requested.extend(argv) or printed, "enp3s0") == rate
    assert requested[-1] == "enp3s0"


def test_a_virtual_interface_has_no_speed():
    assert nic_rate_mbit_s(links._run_here, "lo") is None


@pytest.mark.parametrize(
    ("here", "there", "limit", "rate"),
    [
        ("10000", "1000", None, 1000.0),
        ("1000", "-1", None, 1000.0),
        ("-1", "-1", None, None),
        ("10000", "1000", 100.0, 100.0),
        ("100", "1000", 500.0, 100.0),
    ],
)
def test_the_slowest_of_both_interfaces_and_the_limit_is_the_rate(
    here, there, limit, rate, monkeypatch
):
    settings = PointToPointSettings(peer="ssh:x/eth1:eth2", rate_mbit_s=limit)
    peer = NetworkEnd("peer", [(make_interface(0, 0, 1, settings), None)], under_test=False)
    peer.uplinks = (Uplink("eth1", "eth2"),)
    monkeypatch.setattr(NetworkEnd, "segments", ())
    monkeypatch.setattr(links.Links, "_check_shaping", lambda self: ())
    monkeypatch.setattr(NetworkEnd, "states", lambda self: {})
    monkeypatch.setattr(links, "mtu_of", lambda namespace, interface: settings.mtu)
    monkeypatch.setattr(links, "_run_here", lambda argv: here)
    peer.execute = lambda argv: there
    hops = [Hop("nic.eth1", HOST, "eth1", "nic")]
    made = Links(
        None, settings, [peer], [Flow("guest", "peer", "198.18.0.2", "198.18.0.1")], more_hops=hops
    )
    assert made.link_mbit_s == limit
    made.read_back()
    assert made.link_mbit_s == rate
    if rate is not None:
        with pytest.raises(BenchmarkError, match="is impossible"):
            check_link(rate * 1.2, Context(1, 1, link_mbit_s=made.link_mbit_s, mtu=1500), 10)
