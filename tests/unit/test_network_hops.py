"""What crosses the hops of a lab is counted once; the counts are invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.network.hop import Hop
from vtax.network.links import drops
from vtax.network.namespace import Namespace

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
