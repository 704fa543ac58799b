"""One guest with several interfaces, each in a network of its own, and the peer with as many.

Shows how throughput grows with the number of interfaces.
"""

from __future__ import annotations

from pydantic import Field

from vtax.network.attach import segment
from vtax.network.end import NetworkEnd
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology, register_topology

_PEER, _GUEST = 1, 2
_DRAWING = """
with interfaces = 2 (veth: no bridges):
guest eth0 ── bridge ── eth0 peer
      eth1 ── bridge ── eth1
"""


class MultiNicSettings(LinkSettings):
    """Link settings of `multi-nic`."""

    ABSENT = (*LinkSettings.ABSENT, "peer")

    peer: Elsewhere = ""
    interfaces: int = Field(
        1, ge=1, le=8, description="interfaces of each guest, a network and a flow for each"
    )


def wire(lab: Lab, settings: MultiNicSettings) -> Links:
    """Make as many networks as a guest has interfaces, and a flow over each."""
    namespace = lab.namespace("lab")
    networks = [
        (number, segment(namespace, number, settings)) for number in range(settings.interfaces)
    ]
    peer = NetworkEnd(
        "peer",
        [(make_interface(n, n, _PEER, settings), network) for n, network in networks],
        under_test=False,
    )
    guest = NetworkEnd(
        "guest",
        [(make_interface(n, n, _GUEST, settings), network) for n, network in networks],
        under_test=True,
    )
    flows = [Flow("guest", "peer", guest.address(n), peer.address(n)) for n, _ in networks]
    return Links(lab, settings, [peer, guest], flows)


register_topology(
    Topology(
        "multi-nic",
        "guest and native peer with several interfaces, a flow over each",
        wire,
        MultiNicSettings,
        interfaces=lambda settings: settings.interfaces,
        attachments=("bridge", "veth"),
        drawing=_DRAWING,
    )
)
