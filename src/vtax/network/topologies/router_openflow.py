"""Routing with the planes apart: a switch in the host carries packets, its controller in the guest decides.

Generator and receiver are ports of an Open vSwitch; the guest's only interface leads to the switch's control channel
(mauricio2013). Just the first packets of every flow reach the guest: `openflow.to_guest_packets` counts them,
`openflow.switched_packets` what the switch carried alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files

from vtax.counters import table
from vtax.host.emulated_cpu import timeout_factor
from vtax.network.end import End, Execute
from vtax.network.lab import Lab, address, make_interface
from vtax.network.links import Flow, Links
from vtax.network.openvswitch import MAX_MTU, USERSPACE_NOTE, Switch, SwitchSegment, check_installed, userspace
from vtax.network.plugboard import Interface
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topologies.router import RouterSettings
from vtax.network.topology import Topology

_END, _GUEST, _GATEWAY = 1, 2, 254
_CONTROL = 2
_CONTROL_MAC = f"02:76:74:{_CONTROL:02x}:fe:00"
"""Of the bridge to the controller: else it were one of its ports', and another when a rate changes them."""
_BRIDGE = "plane"
_COOKIE = 0x76740001
_CONTROLLER_TIMEOUT_S = 90.0
_START = """set -e
printf '%s' "$1" >/scratch/openflow_router.py
VTAX_CONTROLLER=$2 setsid osken-manager --ofp-listen-host "$3" --ofp-tcp-listen-port 6653 \\
  /scratch/openflow_router.py >/scratch/controller.log 2>&1 </dev/null &
"""


def wire(lab: Lab, settings: LinkSettings) -> Links:
    """The switch between generator and receiver, a bridge between switch and guest."""
    forced = {"offloads": False} if userspace() else {}
    settings = settings.model_copy(update=forced)
    namespace = lab.namespace("lab")
    switch = Switch(lab, namespace)
    switch.add_bridge(_BRIDGE, "fail_mode=secure", "protocols=OpenFlow13")
    ends = []
    for network, role in enumerate(("generator", "receiver")):
        route = (f"{address(1 - network, 0)}/24", address(network, _GATEWAY))
        interface = make_interface(0, network, _END, settings, (route,))
        ends.append(End(role, [(interface, SwitchSegment(switch, _BRIDGE, number=network + 1))], under_test=False))
    control = BridgeSegment(namespace, "control", settings.mtu, mac=_CONTROL_MAC, ends=True)
    namespace.ip(f"address add {address(_CONTROL, _GATEWAY)}/24 dev control")
    guest_interface = make_interface(0, _CONTROL, _GUEST, settings)
    configuration = json.dumps(_controller_configuration([end.interfaces[0] for end in ends]))

    def start_controller(execute: Execute) -> None:
        source = files("vtax.network").joinpath("openflow_router.py").read_text()
        execute(["sh", "-c", _START, "vtax", source, configuration, guest.address()])
        switch.set_controller(_BRIDGE, f"tcp:{guest.address()}:6653")
        switch.wait_for_controller(_BRIDGE, _CONTROLLER_TIMEOUT_S * timeout_factor())

    guest = End("guest", [(guest_interface, control)], under_test=True, prepare=start_controller)
    flow = Flow("generator", "receiver", ends[0].address(), ends[1].address())
    return Links(
        lab,
        settings,
        [*ends, guest],
        [flow],
        notes=[USERSPACE_NOTE] if forced else ["the switch runs in the kernel"],
        forced=forced,
        more_counters=lambda: _counters(switch),
    )


def _controller_configuration(interfaces: list[Interface]) -> dict[str, object]:
    """What the controller must know, see openflow_router."""
    routes = [
        {
            "port": network + 1,
            "network": f"{address(network, 0)}/24",
            "gateway": {"address": address(network, _GATEWAY), "mac": f"02:76:74:{network:02x}:fe:00"},
            "hosts": {address(network, _END): interface.mac},
        }
        for network, interface in enumerate(interfaces)
    ]
    return {"routes": routes, "cookie": _COOKIE}


def _counters(switch: Switch) -> Mapping[str, float]:
    """Packets that reached the guest, what the switch carried without it, and the CPU time of the switch."""
    decided = [(packets, size) for cookie, packets, size in switch.flows(_BRIDGE) if cookie == _COOKIE]
    return {
        table.CONTROLLER_PACKETS.name: float(switch.controller_replies()),
        table.OPENFLOW_FLOWS.name: float(len(decided)),
        table.SWITCHED_PACKETS.name: float(sum(packets for packets, _ in decided)),
        table.SWITCHED_BYTES.name: float(sum(size for _, size in decided)),
        table.SWITCH_CPU.name: switch.cpu_s(),
    }


TOPOLOGY = Topology(
    "router-openflow",
    "a switch in the host routes between native generator and receiver, its OpenFlow controller is the guest",
    wire,
    RouterSettings,
    natives=("generator", "receiver"),
    packages=("python3-os-ken",),
    max_mtu=MAX_MTU,
    check_host=check_installed,
)
