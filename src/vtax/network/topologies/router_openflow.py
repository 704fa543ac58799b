"""Routing with the planes apart: a switch in the host carries packets, its controller in the guest decides.

Generator and receiver are ports of an Open vSwitch; the guest's only interface leads to the switch's control channel
(mauricio2013). Just the first packets of every flow reach the guest: `openflow.to_guest_packets` counts them,
`openflow.switched_packets` what the switch carried alone. Several guests are the controllers of as many bridges of
one switch, which have its data plane in common (figures 8 and 9 there). In the middle of a trial the control can
move to another guest (section 3.3 there): flows that stand in the switch are not touched by it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from threading import Thread
from typing import Any

from pydantic import Field

from vtax.counters import table
from vtax.errors import NetworkError, VtaxError
from vtax.host.emulated_cpu import timeout_factor
from vtax.messages import Note
from vtax.network.end import Execute, NetworkEnd
from vtax.network.lab import Lab, address, mac, make_interface, numbered
from vtax.network.links import Flow, Links
from vtax.network.openvswitch import MAX_MTU, Switch, SwitchSegment, check_installed, userspace
from vtax.network.plugboard import Interface
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings
from vtax.network.topologies.router import RouterSettings, sides
from vtax.network.topology import Topology, register_topology

_END, _GUEST, _STANDBY, _GATEWAY = 1, 2, 3, 254
_DRAWING = """
generator eth0 ── Open vSwitch ── eth0 receiver
                       │
                   controller: eth0 guest (and standby, with move_after_s)

with guests = [2], both at once, two bridges of one switch:
generator eth0 ── plane  ── eth0 receiver    plane ──  eth0 guest
          eth1 ── plane2 ── eth1             plane2 ── eth0 guest2
"""
_COOKIE = 0x76740001
_CONTROLLER_TIMEOUT_S = 90.0
_START = """set -e
printf '%s' "$1" >/scratch/openflow_router.py
VTAX_CONTROLLER=$2 setsid osken-manager --ofp-listen-host "$3" --ofp-tcp-listen-port 6653 \\
  /scratch/openflow_router.py >/scratch/controller.log 2>&1 </dev/null &
"""


class RouterOpenflowSettings(RouterSettings):
    """Link settings of `router-openflow`."""

    ABSENT = (*RouterSettings.ABSENT, "move_after_s")

    move_after_s: float = Field(
        0,
        ge=0,
        le=3600,
        description="seconds into a trial at which another guest becomes the controller; 0: never",
    )


class _Plane:
    """A bridge of the switch, and the guests of which one is its controller."""

    def __init__(
        self, lab: Lab, switch: Switch, number: int, settings: RouterOpenflowSettings
    ) -> None:
        self._switch = switch
        self.bridge = numbered("plane", number)
        self.networks = sides(number)
        switch.add_bridge(self.bridge, "fail_mode=secure", "protocols=OpenFlow13")
        control, name = 2 * lab.guests + number, numbered("control", number)
        # Of the bridge to the controller: else it were one of its ports', and another when a rate changes them.
        network = BridgeSegment(
            switch.namespace, name, settings.mtu, mac=mac(control, _GATEWAY, 0), ends=True
        )
        switch.namespace.ip(f"address add {address(control, _GATEWAY)}/24 dev {name}")
        roles = {"guest": _GUEST}
        if settings.move_after_s:
            roles["standby"] = _STANDBY
        self.guests = []
        for role, host in roles.items():
            interface = make_interface(0, control, host, settings)
            start_controller = self._starter(address(control, host))
            end = NetworkEnd(
                numbered(role, number),
                [(interface, network)],
                under_test=True,
                prepare=start_controller,
            )
            self.guests.append(end)
        self._configuration = ""
        self._controller = 0

    def configure(self, interfaces: Sequence[Interface]) -> None:
        """Set what its controllers must know: the interfaces that the bridge has as ports, in their order."""
        self._configuration = json.dumps(_controller_configuration(self.networks, interfaces))

    def move(self) -> tuple[str, float]:
        """Make the other guest the controller. Returns its role, and the seconds until it was connected."""
        self._controller = 1 - self._controller
        controller, start_s = self.guests[self._controller], time.monotonic()
        self._control_by(controller.address())
        return controller.role, time.monotonic() - start_s

    def _starter(self, own_address: str) -> Callable[[Execute], None]:
        """Return what starts a controller in a guest.

        Each has the control until the next one is started, so that both are known to be able to.
        """

        def start_controller(execute: Execute) -> None:
            source = files("vtax.network").joinpath("openflow_router.py").read_text()
            execute(["sh", "-c", _START, "vtax", source, self._configuration, own_address])
            self._control_by(own_address)

        return start_controller

    def _control_by(self, controller: str) -> None:
        timeout_s = _CONTROLLER_TIMEOUT_S * timeout_factor()
        self._switch.control_by(self.bridge, f"tcp:{controller}:6653", timeout_s)


def wire(lab: Lab, settings: RouterOpenflowSettings) -> Links:
    """Make a switch between generator and receiver, with a bridge and a network to the controller for each guest."""
    forced_settings = {"offloads": False} if userspace() else {}
    settings = settings.model_copy(update=forced_settings)
    switch = Switch(lab, lab.namespace("lab"))
    planes = [_Plane(lab, switch, number, settings) for number in range(lab.guests)]
    ends = [
        _native_end(role, side, switch, planes, settings)
        for side, role in enumerate(("generator", "receiver"))
    ]
    for number, plane in enumerate(planes):
        plane.configure([end.interfaces[number] for end in ends])
    return Links(
        lab,
        settings,
        [*ends, *(guest for plane in planes for guest in reversed(plane.guests))],
        [
            Flow("generator", "receiver", ends[0].address(n), ends[1].address(n))
            for n in range(lab.guests)
        ],
        notes=[Note("switch-in-user-space" if forced_settings else "switch-in-kernel")],
        forced=forced_settings,
        more_counters=lambda: _counters(switch, planes),
        meanwhile=lambda: _move_controllers(planes, settings.move_after_s),
    )


def _native_end(
    role: str, side: int, switch: Switch, planes: Sequence[_Plane], settings: LinkSettings
) -> NetworkEnd:
    """Make the end on one side of every plane: port 1 or 2 of each bridge."""
    interfaces = []
    for number, plane in enumerate(planes):
        network, far_network = plane.networks[side], plane.networks[1 - side]
        route = (f"{address(far_network, 0)}/24", address(network, _GATEWAY))
        segment = SwitchSegment(switch, plane.bridge, number=side + 1)
        interfaces.append((make_interface(number, network, _END, settings, (route,)), segment))
    return NetworkEnd(role, interfaces, under_test=False)


@contextmanager
def _move_controllers(planes: Sequence[_Plane], after_s: float) -> Iterator[dict[str, Any]]:
    """Move the control of every plane once, so many seconds into the block; 0: never.

    Afterwards the given settings have `controller_moves`. Raises NetworkError when the block ended before, and what
    moving raises.
    """
    effective: dict[str, Any] = {}
    if not after_s:
        yield effective
        return
    start_s, errors = time.monotonic(), list[VtaxError]()

    def move() -> None:
        time.sleep(after_s)
        at_s = time.monotonic() - start_s
        try:
            moves = [plane.move() for plane in planes]
        except VtaxError as error:
            errors.append(error)
        else:
            effective["controller_moves"] = [
                {"to": role, "after_s": at_s, "connected_after_s": connected_s}
                for role, connected_s in moves
            ]

    mover = Thread(target=move, name="vtax-controller-move")
    mover.start()
    try:
        yield effective
        was_late = mover.is_alive()
    finally:
        mover.join()
    if errors:
        raise errors[0]
    if was_late:
        raise NetworkError(
            f"the trial ended before its controller had moved, {after_s:g} s into it",
            hint="set move_after_s well below the duration",
        )


def _controller_configuration(
    networks: Sequence[int], interfaces: Sequence[Interface]
) -> dict[str, object]:
    """Make the controller's configuration, see openflow_router."""
    routes = []
    for port, (network, interface) in enumerate(zip(networks, interfaces, strict=True), 1):
        gateway = {"address": address(network, _GATEWAY), "mac": mac(network, _GATEWAY, 0)}
        hosts = {address(network, _END): interface.mac}
        subnet = f"{address(network, 0)}/24"
        routes.append({"port": port, "network": subnet, "gateway": gateway, "hosts": hosts})
    return {"routes": routes, "cookie": _COOKIE}


def _counters(switch: Switch, planes: Sequence[_Plane]) -> Mapping[str, float]:
    """Return the packets that reached the guests, what the switch carried without them, and the switch's CPU time."""
    flows = [flow for plane in planes for flow in switch.flows(plane.bridge)]
    decided = [(packets, size) for cookie, packets, size in flows if cookie == _COOKIE]
    return {
        table.CONTROLLER_PACKETS.name: float(switch.controller_replies()),
        table.OPENFLOW_FLOWS.name: float(len(decided)),
        table.SWITCHED_PACKETS.name: float(sum(packets for packets, _ in decided)),
        table.SWITCHED_BYTES.name: float(sum(size for _, size in decided)),
        table.SWITCH_CPU.name: switch.cpu_s(),
    }


register_topology(
    Topology(
        "router-openflow",
        "a switch in the host routes between native generator and receiver, its OpenFlow controller is the guest",
        wire,
        RouterOpenflowSettings,
        guests=lambda settings: 2 if settings.move_after_s else 1,
        natives=("generator", "receiver"),
        joins_several=True,
        packages=("python3-os-ken",),
        max_mtu=MAX_MTU,
        check_host=check_installed,
        drawing=_DRAWING,
    )
)
