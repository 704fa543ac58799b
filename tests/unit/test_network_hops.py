"""What crosses the hops of a lab is counted once; the counts are invented."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from vtax.counters.packets import mean_packet_bytes, size_warning
from vtax.counters.table import LINK, UNDER_TEST_BYTES
from vtax.network import segment as segments
from vtax.network.end import NetworkEnd
from vtax.network.hop import Hop
from vtax.network.lab import make_interface
from vtax.network.links import Flow, Links, drops
from vtax.network.namespace import Namespace, parse_traffic
from vtax.network.settings import LinkSettings

NOWHERE = Namespace(Path("/nowhere"))


def counts(name: str, **some: float) -> dict[str, float]:
    columns = (f"{side}_{what}" for side in ("rx", "tx") for what in ("drops", "errors"))
    return {f"{name}.{column}": some.get(column, 0.0) for column in columns}


def hop(name: str, veth_pair: str = "") -> Hop:
    return Hop(name, NOWHERE, name, "veth", veth_pair=veth_pair)


@pytest.mark.parametrize(
    ("sent", "received", "total"),
    [
        ({"tx_drops": 5}, {"rx_drops": 5}, 5),  # one packet, counted at both ends
        ({"tx_drops": 5}, {}, 5),
        ({"tx_drops": 5}, {"rx_drops": 7}, 7),  # two more after they arrived
        ({"tx_drops": 5}, {"tx_drops": 5}, 10),  # one direction each
        ({"rx_drops": 1, "tx_errors": 2}, {"tx_drops": 1, "rx_errors": 2}, 3),
    ],
)
def test_a_packet_dropped_on_a_veth_pair_counts_once(sent, received, total):
    both = [hop("guest.eth0", "guest-eth0"), hop("lab.guest-eth0", "guest-eth0")]
    assert (
        drops(both, {**counts("guest.eth0", **sent), **counts("lab.guest-eth0", **received)})
        == total
    )


def test_losses_of_different_hops_add_up():
    hops = [
        hop("lab.guest-eth0"),
        hop("nic.eth1"),
        hop("peer.eth0", "peer-eth0"),
        hop("lab.peer-eth0", "peer-eth0"),
    ]
    found = {
        name: value
        for each in hops
        for name, value in counts(each.name, rx_drops=1, tx_drops=2).items()
    }
    assert drops(hops, found) == 3 + 3 + 4


NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
guest-eth0: {received} 21534    0    0    0     0          0         0  1722720   21534    0    0    0     0       0          0
"""
"""Of 21534 packets of 116 bytes from the guest: Xen's netback counts them so, a tap 130 bytes each."""


@pytest.mark.parametrize(
    ("device", "received"), [("vif7.0", 2_497_944), ("vif7.0-emu", 2_799_420), ("", 2_799_420)]
)
def test_received_bytes_have_the_ethernet_header_whether_the_interface_counts_it_or_not(
    device, received, monkeypatch
):
    """So the size of packets and the bytes of `cpu_per_gigabyte` do not depend on the kind of the interface."""
    monkeypatch.setattr(segments, "run", lambda argv: None)
    monkeypatch.setattr(Namespace, "ip", lambda self, *commands: None)
    text = NET_DEV.format(received=received)
    monkeypatch.setattr(
        Namespace, "traffic", lambda self: SimpleNamespace(read=lambda: parse_traffic(text))
    )
    settings = LinkSettings(packet_bytes=116, mtu=116)
    wire = segments.VethSegment(NOWHERE)
    interface = make_interface(0, 0, 1, settings)
    wire.plug_tap("guest", interface, 1, device)
    guest = NetworkEnd("guest", [(interface, wire)], under_test=True)
    links = Links(None, settings, [guest], [Flow("guest", "guest", "", "")])  # type: ignore[arg-type]
    counters = links.counters()
    means = mean_packet_bytes({(LINK, name): value for name, value in counters.items()})
    assert means == {"lab.guest-eth0": 116.0}
    assert size_warning(means, settings.packet_bytes) is None
    assert counters[UNDER_TEST_BYTES.name] == 2_799_420 + 1_722_720
