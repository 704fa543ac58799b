"""Pairs of guests on VLANs of their own over one trunk: what neighbours cost when they share a wire.

Two bridges of one Open vSwitch are joined by a trunk (a veth, IEEE 802.1Q tagged); every pair has its guest on one
side and the guest that serves it on the other, as access ports of the pair's VLAN. All pairs send at once.
"""

from __future__ import annotations

from pydantic import Field

from vtax.counters.table import SWITCH_CPU
from vtax.messages import Note
from vtax.network.end import End
from vtax.network.hop import Hop
from vtax.network.lab import Lab, make_interface
from vtax.network.links import Flow, Links
from vtax.network.openvswitch import MAX_MTU, Switch, SwitchSegment, check_installed, userspace
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology

_FIRST_VLAN = 100


class VlanPairsSettings(LinkSettings):
    """Link settings of `vlan-pairs`."""

    pairs: int = Field(1, ge=1, le=16, description="pairs of guests, each on a VLAN of its own")


def wire(lab: Lab, settings: VlanPairsSettings) -> Links:
    """The trunk, and a network for every pair."""
    forced = {"offloads": False} if userspace() else {}
    settings = settings.model_copy(update=forced)
    namespace = lab.namespace("lab")
    switch = Switch(lab, namespace)
    namespace.ip(
        f"link add name trunk-left mtu {settings.mtu} type veth peer name trunk-right mtu {settings.mtu}",
        "link set dev trunk-left up",
        "link set dev trunk-right up",
    )
    for side in ("left", "right"):
        switch.add_bridge(side)
        switch.add_port(side, f"trunk-{side}")
    ends, flows = [], []
    for pair in range(settings.pairs):
        peer, guest = _pair(switch, pair, settings)
        ends += [peer, guest]
        flows.append(Flow(guest.role, peer.role, guest.address(), peer.address()))
    return Links(
        lab,
        settings,
        ends,
        flows,
        notes=[Note("switch-in-user-space" if forced else "switch-in-kernel")],
        forced=forced,
        more_hops=[
            Hop(f"lab.trunk-{side}", namespace, f"trunk-{side}", "veth", veth_pair="trunk")
            for side in ("left", "right")
        ],
        more_counters=lambda: {SWITCH_CPU.name: switch.cpu_s()},
    )


def _pair(switch: Switch, pair: int, settings: LinkSettings) -> tuple[End, End]:
    """The serving guest on the right, its client on the left; the first pair has the plain roles."""
    suffix = str(pair) if pair else ""
    tag = _FIRST_VLAN + pair
    made = []
    for host, (role, side) in enumerate((("peer", "right"), ("guest", "left")), start=1):
        segment = SwitchSegment(switch, side, tag=tag)
        made.append(End(f"{role}{suffix}", [(make_interface(0, pair, host, settings), segment)], under_test=True))
    return made[0], made[1]


TOPOLOGY = Topology(
    "vlan-pairs",
    "pairs of guests, each pair on a VLAN of its own over one trunk",
    wire,
    VlanPairsSettings,
    guests=lambda settings: 2 * settings.pairs,
    natives=(),
    max_mtu=MAX_MTU,
    check_host=check_installed,
)
