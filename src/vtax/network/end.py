"""One end of a topology: the plugboard a driver is handed, and how the guest behind it is reached afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_interface
from pathlib import Path

from vtax.errors import NetworkError
from vtax.network.hop import OFFLOADS, Hop, offload_words
from vtax.network.lab import Lab
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface, Uplink
from vtax.network.readback import InterfaceState, features, from_outside
from vtax.network.segment import Segment, port_name
from vtax.network.settings import LinkSettings
from vtax.network.uplink import attach_uplink

Execute = Callable[[Sequence[str]], str]
"""Runs a command inside a guest and returns what it printed; raises a VtaxError when it fails."""
Commands = Callable[[LinkSettings | None], Sequence[Sequence[str]]]
"""Commands inside a guest on another machine: to configure its interfaces (None), or after a change of links."""

_CONFIGURE = """set -e
batch=$1; settings=$2; shift 2
interface() {
  for d in /sys/class/net/*; do
    read -r a <"$d/address" || continue
    if [ "$a" = "$1" ]; then echo "${d##*/}"; return; fi
  done
  echo "no interface with address $1" >&2; return 1
}
for mac in "$@"; do
  now=$(interface "${mac%/*}")
  ip link set dev "$now" down
  [ "$now" = "${mac#*/}" ] || ip link set dev "$now" name "t${mac#*/}"
done
for mac in "$@"; do
  now=$(interface "${mac%/*}")
  [ "$now" = "${mac#*/}" ] || ip link set dev "$now" name "${mac#*/}"
done
printf '%s\\n' "$settings" | while IFS== read -r key value; do
  if [ -e "/proc/sys/net/$key" ]; then echo "$value" >"/proc/sys/net/$key"; fi
done
printf '%s\\n' "$batch" | ip -batch -
"""
_BUFFER_SETTINGS = (
    "core/rmem_max",
    "core/wmem_max",
    "core/rmem_default",
    "core/wmem_default",
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
)
_STATE = """i=$1; read -r mtu <"/sys/class/net/$i/mtu"; set -- /sys/class/net/$i/queues/rx-*
echo "$mtu"; echo $#; ethtool -k "$i" 2>/dev/null || true"""
_OFFLOADS = """for i in "$@"; do ethtool -K "$i" $S >/dev/null 2>&1 || true; done"""

# The machine's own interface is in the network namespace of what started the agent, which in turn started this shell.
_ON_MACHINE = """while read -r key value; do [ "$key" != PPid: ] || keeper=$value; done <"/proc/$PPID/status"
exec nsenter --net="/proc/$keeper/ns/net" -- "$@" """


class NetworkEnd:
    """A guest's place in a topology; it implements the protocol Plugboard.

    Its driver decides where the guest is: in a namespace, behind taps, or on another machine behind uplinks.

    role: its name (`guest`, `peer`, `receiver`, ...).
    interfaces: of the guest, with the networks that they stand in.
    under_test: whether the guest is of the platform under test, or native.
    forwards: whether it must route between its interfaces.
    prepare: runs in the started guest before the first trial.
    is_there: whether it stands in the half of its topology that another machine makes.
    own_hops: interfaces that no segment made.
    """

    def __init__(
        self,
        role: str,
        interfaces: Sequence[tuple[Interface, Segment]],
        *,
        under_test: bool,
        forwards: bool = False,
        prepare: Callable[[Execute], None] | None = None,
        is_there: bool = False,
    ) -> None:
        self.role = role
        self.under_test = under_test
        self.forwards = forwards
        self._placed = tuple(interfaces)
        self._prepare = prepare
        self.is_there = is_there
        self._commands: Commands | None = None
        self.uplinks: tuple[Uplink, ...] = ()
        self._tapped = False
        self.is_behind_engine = False
        self.own_hops: tuple[Hop, ...] = ()
        self._own_stack = False
        self.namespace: Namespace | None = None
        self.execute: Execute | None = None
        self._settings: LinkSettings | None = None
        self._lab: Lab | None = None

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Interfaces that the guest must have, in order."""
        return tuple(interface for interface, _ in self._placed)

    @property
    def lab_namespace(self) -> str:
        """Name (under /run/netns) of the namespace where its taps live and QEMU must run."""
        return self._placed[0][1].namespace.name

    @property
    def has_taps(self) -> bool:
        """Whether the guest's interfaces are taps, or on another machine: they are configured from inside."""
        return self._tapped or bool(self.uplinks) or self._commands is not None

    @property
    def stack(self) -> Namespace | None:
        """Where packets can be sent from outside as the guest would; None when only the guest itself can."""
        return None if self._own_stack else self.namespace

    @property
    def segments(self) -> Sequence[Segment]:
        """The networks its interfaces stand in, each once."""
        return list(dict.fromkeys(segment for _, segment in self._placed))

    def request(self, settings: LinkSettings, lab: Lab | None) -> None:
        """Set what its links shall be like when they are plugged, and the lab that owns what is made for them."""
        self._settings, self._lab = settings, lab

    def plug_namespace(self, netns: Path, *, own_stack: bool = False) -> None:
        """Make the interfaces appear in a network namespace, as Plugboard says. Raises NetworkError."""
        if own_stack and self.forwards:
            raise NetworkError(
                "this guest's own network stack drops the large packets that a router receives",
                hint="use another topology in studies with this platform",
            )
        self._own_stack = own_stack
        guest = Namespace(netns)
        guest.suppress_background_traffic()
        for interface, segment in self._placed:
            segment.plug(self.role, interface, guest)
        self._configure(guest)

    def _configure(self, guest: Namespace) -> None:
        """Set up the namespace of a guest whose interfaces are there."""
        for key, value in self._kernel_settings(shares_kernel=True).items():
            guest.set(key, value)
        commands = ["link set dev lo up"]
        for interface in self.interfaces:
            commands += address_lines(interface, self._requested)
        guest.ip(*commands)
        self.namespace = guest
        self._fit()

    def taps(self, queues: int = 1) -> Sequence[str]:
        """Make a tap for each interface, as Plugboard says. Raises NetworkError."""
        return self._plug_taps(queues, ["" for _ in self._placed])

    def plug_devices(self, devices: Sequence[str]) -> Sequence[str]:
        """Move interfaces of this host to the lab, as Plugboard says. Raises NetworkError or CommandFailed."""
        return self._plug_taps(1, devices)

    def _plug_taps(self, queues: int, devices: Sequence[str]) -> Sequence[str]:
        names = []
        for device, (interface, segment) in zip(devices, self._placed, strict=True):
            names.append(segment.plug_tap(self.role, interface, queues, device))
        self._tapped = True
        self._fit()
        return names

    def plug_engine(self, netns: Path | None = None) -> None:
        """Use the platform's own NAT engine, as Plugboard says. Raises NetworkError."""
        self.is_behind_engine = True
        if netns is None:
            self._tapped = True
            return
        guest = Namespace(netns)
        for interface in self.interfaces:
            name = interface.name
            guest.ip(f"link set dev {name} address {interface.mac} mtu {interface.mtu}")
            self.own_hops += (Hop(f"{self.role}.{name}", guest, name, "tap", role=self.role),)
        self._configure(guest)

    def plug_uplinks(self, uplinks: Sequence[Uplink]) -> None:
        """Join what the uplinks carry, as Plugboard says. Raises BadInput, NetworkError or CommandFailed."""
        assert self._lab is not None
        for uplink, (interface, segment) in zip(uplinks, self._placed, strict=True):
            port = port_name(self.role, interface)
            attach_uplink(self._lab, segment.namespace, uplink.here, port, interface.mtu)
            segment.plug_uplink(port, uplink.here)
        self.uplinks = tuple(uplinks)
        self._fit()

    def plug_there(self, commands: Commands) -> None:
        """Say that the guest was plugged into the other machine's half, which knows what to run inside it."""
        self._commands = commands

    def configure_commands(self) -> Sequence[Sequence[str]]:
        """Return the commands that configure the interfaces inside the guest; none where they are in a namespace."""
        if self._commands is not None:
            return self._commands(None)
        if not self.has_taps:
            return ()
        batch = ["link set dev lo up"]
        for interface in self.interfaces:
            batch.append(f"link set dev {interface.name} mtu {interface.mtu}")
            batch += address_lines(interface, self._requested)
        names = [f"{interface.mac}/{interface.name}" for interface in self.interfaces]
        settings = [
            f"{key}={value}" for key, value in self._kernel_settings(shares_kernel=False).items()
        ]
        arguments = ["\n".join(batch), "\n".join(settings), *names]
        commands: list[Sequence[str]] = [["sh", "-c", _CONFIGURE, "vtax", *arguments]]
        if not all(interface.offloads for interface in self.interfaces):
            commands += self._offload_commands(False)
        return commands

    def connected(self, execute: Execute) -> None:
        """Remember how to run commands in the started guest, and configure its interfaces from inside if need be."""
        self.execute = execute
        for argv in self.configure_commands():
            execute(argv)
        if self._prepare is not None:
            self._prepare(execute)

    def change_commands(
        self, settings: LinkSettings, before: LinkSettings
    ) -> Sequence[Sequence[str]]:
        """Return what to run inside a guest with taps to go from one setting to another."""
        if self._commands is not None:
            return self._commands(settings)
        if not self.has_taps:
            return ()
        commands: list[Sequence[str]] = []
        batch = []
        if settings.mtu != before.mtu:
            commands += self._on_uplinks("ip", "link", "set", "mtu", str(settings.mtu), "dev")
            for interface in self.interfaces:
                batch.append(f"link set dev {interface.name} mtu {settings.mtu}")
        batch += self._changed_addresses(settings, before)
        if batch:
            commands.append(
                ["sh", "-c", 'printf "%s\\n" "$1" | ip -batch -', "vtax", "\n".join(batch)]
            )
        commands += _flush_routes(settings, before)
        if settings.offloads != before.offloads:
            commands += self._offload_commands(settings.offloads)
        return commands

    def readdress(self, settings: LinkSettings, before: LinkSettings) -> None:
        """After a change of its links: put back in its namespace what the kernel drops, change what routes carry."""
        if self.namespace is not None:
            self.namespace.ip(*self._changed_addresses(settings, before))
            for argv in _flush_routes(settings, before):
                self.namespace.run(argv)

    def states(self) -> dict[str, InterfaceState]:
        """Return the effective state of its interfaces, read inside a guest with taps and outside of any other."""
        states = {}
        for interface in self.interfaces:
            name = f"{self.role}.{interface.name}"
            if self.namespace is not None:
                states[name] = from_outside(self.namespace, interface.name)
            elif self.execute is not None:
                output = self.execute(["sh", "-c", _STATE, "vtax", interface.name])
                mtu, queues, offloads = output.split("\n", 2)
                states[name] = InterfaceState(int(mtu), features(offloads), int(queues))
        return states

    def address(self, interface: int = 0) -> str:
        """Return the IPv4 address of one of its interfaces."""
        return self.interfaces[interface].addresses[0].partition("/")[0]

    def _fit(self) -> None:
        """Interfaces are born with their MTU; offloads and limits are set once all of them are there."""
        hops = [*self.own_hops]
        for segment in self.segments:
            hops += segment.hops
        for hop in hops:
            hop.apply(self._requested, LinkSettings(mtu=self._requested.mtu))

    @property
    def _requested(self) -> LinkSettings:
        if self._settings is None:
            raise NetworkError(f"the end {self.role} was plugged before its topology was built")
        return self._settings

    def _kernel_settings(self, *, shares_kernel: bool) -> dict[str, str]:
        """Return settings below /proc/sys/net that must be equal in every guest.

        A namespace has its own forwarding; a guest with a kernel of its own is also given the host's limits of socket
        buffers, which guests that share the host's kernel have anyway. Another machine keeps those that are of the
        whole machine.
        """
        settings = {}
        if self.forwards:
            settings = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}
        if shares_kernel:
            return settings
        for key in _BUFFER_SETTINGS:
            path = Path("/proc/sys/net", key)
            is_of_machine = bool(self.uplinks) and key.startswith("core/")
            if path.exists() and not is_of_machine:
                settings[key] = " ".join(path.read_text().split())
        return settings

    def _changed_addresses(self, settings: LinkSettings, before: LinkSettings) -> list[str]:
        """Return the commands of ip(8) that restore or change addresses and routes after a change of settings.

        The kernel drops IPv6 addresses and routes when an MTU falls below 1280; they are put back as it rises.
        """
        restores_ipv6 = settings.carries_ipv6 and not before.carries_ipv6
        changes_routes = settings.congestion != before.congestion
        commands = []
        for interface in self.interfaces:
            for line in address_lines(interface, settings):
                is_route = line.startswith("route replace")
                if (restores_ipv6 and ":" in line) or (changes_routes and is_route):
                    commands.append(line)
        return commands

    def _offload_commands(self, on: bool) -> list[Sequence[str]]:
        words = " ".join(offload_words(OFFLOADS, on))
        interfaces = [interface.name for interface in self.interfaces]
        return [
            *self._on_uplinks("sh", "-c", f'ethtool -K "$1" {words} || [ $? = 1 ]', "vtax"),
            ["sh", "-c", f"S='{words}'; {_OFFLOADS}", "vtax", *interfaces],
        ]

    def run_on_machine(self, argv: Sequence[str]) -> str:
        """Return the output of a command in the namespace of its machine's own interfaces.

        It is empty before the guest is up.
        """
        if self.execute is None:
            return ""
        return self.execute(["sh", "-c", _ON_MACHINE, "vtax", *argv])

    def _on_uplinks(self, *argv: str) -> list[Sequence[str]]:
        """Return a command for each uplink, with the name of its interface on the other machine appended."""
        return [["sh", "-c", _ON_MACHINE, "vtax", *argv, uplink.there] for uplink in self.uplinks]


def _flush_routes(settings: LinkSettings, before: LinkSettings) -> list[Sequence[str]]:
    """Return the commands that flush the path MTUs a kernel has learned, for when its interfaces have another MTU.

    TCP over the smallest MTU leaves one behind (`mtu lock 68`) for ten minutes at both ends, and a larger MTU of the
    interface does not end it.
    """
    if settings.mtu == before.mtu:
        return []
    families = ("-4", "-6") if settings.carries_ipv6 else ("-4",)
    return [("ip", family, "route", "flush", "cache") for family in families]


def address_lines(interface: Interface, settings: LinkSettings) -> list[str]:
    """Return the commands of ip(8) that bring an interface up with its addresses and routes.

    Congestion control is an attribute of the routes: a namespace may not choose one that the host has not allowed to
    everybody, but root may give any to a route (ip-route(8), congctl).
    """
    name, control = interface.name, f"congctl {settings.congestion}"
    addresses, routes = [], []
    for address in interface.addresses:
        parsed = ip_interface(address)
        route = f"route replace {parsed.network} dev {name} proto kernel"
        if parsed.version == 4:
            addresses.append(f"address add {address} dev {name}")
            routes.append(f"{route} scope link src {parsed.ip} {control}")
        elif settings.carries_ipv6:
            addresses.append(f"address add {address} dev {name} nodad")
            routes.append(f"{route} metric 256 {control}")
    for destination, gateway in interface.routes:
        if ":" not in destination or settings.carries_ipv6:
            routes.append(f"route replace {destination} via {gateway} dev {name} {control}")
    return [*addresses, f"link set dev {name} up", *routes]
