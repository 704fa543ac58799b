"""Pairs of guests on VLANs of their own over trunks: what neighbours cost when they share a wire.

Two bridges of Open vSwitch are joined by a trunk (a veth, IEEE 802.1Q tagged), or by several, among which the pairs
are dealt out; every pair has its guest on one side and the guest that serves it on the other, as access ports of the
pair's VLAN. All pairs send at once. With the serving guests on another machine, each trunk is an uplink to it.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from vtax.counters.table import SWITCH_CPU
from vtax.messages import Note
from vtax.network.end import NetworkEnd
from vtax.network.hop import Hop
from vtax.network.lab import Lab, make_interface, numbered
from vtax.network.links import Flow, Links
from vtax.network.openvswitch import MAX_MTU, Switch, SwitchSegment, check_installed, userspace
from vtax.network.settings import Elsewhere, LinkSettings
from vtax.network.topology import Topology, register_topology

_FIRST_VLAN = 100
_LEFT, _RIGHT = "left", "right"
_DRAWING = """
with pairs = 2:
guest  eth0 ── VLAN 100 ┐                        ┌ VLAN 100 ── eth0 peer
                        ├ left ── trunk ── right ┤
guest2 eth0 ── VLAN 101 ┘                        └ VLAN 101 ── eth0 peer2
"""


class VlanPairsSettings(LinkSettings):
    """Link settings of `vlan-pairs`."""

    ABSENT = (*LinkSettings.ABSENT, "peer")

    pairs: int = Field(1, ge=1, le=16, description="pairs of guests, each on a VLAN of its own")
    trunks: int = Field(1, ge=1, le=16, description="trunks, among which the pairs are dealt out")
    peer: Elsewhere = ""

    @model_validator(mode="after")
    def _no_idle_trunk(self) -> Self:
        if self.trunks > self.pairs:
            raise ValueError(
                f"trunks {self.trunks} is more than pairs {self.pairs}, so one would carry nothing"
            )
        return self

    def vlans(self, trunk: int) -> list[int]:
        """Return the VLANs of the pairs that a trunk carries, by its number from 0."""
        return [_FIRST_VLAN + pair for pair in range(trunk, self.pairs, self.trunks)]


def wire(lab: Lab, settings: VlanPairsSettings) -> Links:
    """Make the trunks, and a network for every pair."""
    forced_settings = {"offloads": False} if userspace() else {}
    settings = settings.model_copy(update=forced_settings)
    switch = Switch(lab, lab.namespace("lab"))
    switch.add_bridge(_LEFT)
    hops, trunks = [], []
    if settings.peer:
        trunks = [
            SwitchSegment(switch, _LEFT, vlans=settings.vlans(trunk))
            for trunk in range(settings.trunks)
        ]
    else:
        switch.add_bridge(_RIGHT)
        hops = [hop for trunk in range(settings.trunks) for hop in _trunk(switch, trunk, settings)]
    ends, flows = [], []
    for pair in range(settings.pairs):
        peer = _end(
            switch, "peer", pair, settings, trunks[pair % settings.trunks] if trunks else None
        )
        guest = _end(switch, "guest", pair, settings)
        ends += [peer, guest]
        flows.append(Flow(guest.role, peer.role, guest.address(), peer.address()))
    return Links(
        lab,
        settings,
        ends,
        flows,
        notes=[Note("switch-in-user-space" if forced_settings else "switch-in-kernel")],
        forced=forced_settings,
        more_hops=hops,
        more_counters=lambda: {SWITCH_CPU.name: switch.cpu_s()},
        trunks=trunks,
    )


def wire_there(lab: Lab, settings: VlanPairsSettings) -> Links:
    """Make the right side: the other ends of the trunks, and the serving guest of every pair."""
    forced_settings = {"offloads": False} if userspace() else {}
    settings = settings.model_copy(update=forced_settings)
    switch = Switch(lab, lab.namespace("lab"))
    switch.add_bridge(_RIGHT)
    ends = [_end(switch, "peer", pair, settings) for pair in range(settings.pairs)]
    trunks = [
        SwitchSegment(switch, _RIGHT, vlans=settings.vlans(trunk))
        for trunk in range(settings.trunks)
    ]
    return Links(lab, settings, ends, [], forced=forced_settings, trunks=trunks)


def _trunk(switch: Switch, number: int, settings: VlanPairsSettings) -> list[Hop]:
    """Make a trunk between both bridges; return its interfaces."""
    pair = numbered("trunk", number)
    ports = {side: f"{pair}-{side}" for side in (_LEFT, _RIGHT)}
    switch.namespace.ip(
        f"link add name {ports[_LEFT]} mtu {settings.mtu} type veth peer name {ports[_RIGHT]} mtu {settings.mtu}",
        *(f"link set dev {port} up" for port in ports.values()),
    )
    for side, port in ports.items():
        switch.add_port(side, port, vlans=settings.vlans(number))
    return [
        Hop(f"lab.{port}", switch.namespace, port, "veth", veth_pair=pair)
        for port in ports.values()
    ]


def _end(
    switch: Switch,
    role: str,
    pair: int,
    settings: VlanPairsSettings,
    trunk: SwitchSegment | None = None,
) -> NetworkEnd:
    """Make a guest of a pair: the client on the left, the serving one on the right, or behind a trunk.

    The first pair has the plain roles.
    """
    host, side = (1, _RIGHT) if role == "peer" else (2, _LEFT)
    network = trunk or SwitchSegment(switch, side, tag=_FIRST_VLAN + pair)
    interface = make_interface(0, pair, host, settings)
    return NetworkEnd(
        f"{role}{pair if pair else ''}",
        [(interface, network)],
        under_test=True,
        is_there=trunk is not None,
    )


register_topology(
    Topology(
        "vlan-pairs",
        "pairs of guests, each pair on a VLAN of its own over trunks that they share",
        wire,
        VlanPairsSettings,
        guests=lambda settings: 2 * settings.pairs,
        natives=(),
        max_mtu=MAX_MTU,
        check_host=check_installed,
        wire_there=wire_there,
        trunks=lambda settings: settings.trunks,
        drawing=_DRAWING,
    )
)
