"""One end of a topology: the plugboard a driver is handed, and how the guest behind it is reached afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_interface
from pathlib import Path

from vtax.errors import NetworkError
from vtax.network.hop import Hop
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
    """A guest's place in a topology; it has the shape of a Plugboard.

    role: what it is called (`guest`, `peer`, `receiver`, ...). under_test: whether the guest is of the platform under
    test or native. own_hops: interfaces that no segment made. forwards: whether it must route between its interfaces.
    prepare: what else must happen in the started guest before the first trial. is_there: it stands in the half of its
    topology that another machine makes.
    Its driver decides where the guest is: in a namespace, behind taps, or on another machine behind uplinks.
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
        """See Plugboard.interfaces."""
        return tuple(interface for interface, _ in self._placed)

    @property
    def lab_namespace(self) -> str:
        """See Plugboard.lab_namespace."""
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
        """See Plugboard.plug_namespace. Raises NetworkError."""
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
        for key, value in self._kernel_settings(shared=True).items():
            guest.set(key, value)
        addresses = (
            line
            for interface in self.interfaces
            for line in address_lines(interface, self._requested)
        )
        guest.ip("link set dev lo up", *addresses)
        self.namespace = guest
        self._fit()

    def taps(self, queues: int = 1) -> Sequence[str]:
        """See Plugboard.taps. Raises NetworkError."""
        names = [
            segment.plug_tap(self.role, interface, queues) for interface, segment in self._placed
        ]
        self._tapped = True
        self._fit()
        return names

    def plug_devices(self, devices: Sequence[str]) -> Sequence[str]:
        """See Plugboard.plug_devices. Raises NetworkError or CommandFailed."""
        placed = zip(devices, self._placed, strict=True)
        names = [
            segment.plug_tap(self.role, interface, 1, device)
            for device, (interface, segment) in placed
        ]
        self._tapped = True
        self._fit()
        return names

    def plug_engine(self, netns: Path | None = None) -> None:
        """See Plugboard.plug_engine. Raises NetworkError."""
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
        """See Plugboard.plug_uplinks. Raises BadInput, NetworkError or CommandFailed."""
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
        """See Plugboard.configure_commands. Nothing when the interfaces are in a namespace: they are ready."""
        if self._commands is not None:
            return self._commands(None)
        if not self.has_taps:
            return ()
        batch = ["link set dev lo up"]
        for interface in self.interfaces:
            batch += [
                f"link set dev {interface.name} mtu {interface.mtu}",
                *address_lines(interface, self._requested),
            ]
        names = [f"{interface.mac}/{interface.name}" for interface in self.interfaces]
        settings = "\n".join(
            f"{key}={value}" for key, value in self._kernel_settings(shared=False).items()
        )
        commands: list[Sequence[str]] = [
            ["sh", "-c", _CONFIGURE, "vtax", "\n".join(batch), settings, *names]
        ]
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
        batch = (
            []
            if settings.mtu == before.mtu
            else [f"link set dev {i.name} mtu {settings.mtu}" for i in self.interfaces]
        )
        batch += self._changed_addresses(settings, before)
        if settings.mtu != before.mtu:
            commands += self._on_uplinks("ip", "link", "set", "mtu", str(settings.mtu), "dev")
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
        """Return what is in force at its interfaces, read inside a guest with taps and outside of any other."""
        found = {}
        for interface in self.interfaces:
            if self.namespace is not None:
                found[f"{self.role}.{interface.name}"] = from_outside(
                    self.namespace, interface.name
                )
            elif self.execute is not None:
                mtu, queues, rest = self.execute(
                    ["sh", "-c", _STATE, "vtax", interface.name]
                ).split("\n", 2)
                found[f"{self.role}.{interface.name}"] = InterfaceState(
                    int(mtu), features(rest), int(queues)
                )
        return found

    def address(self, interface: int = 0) -> str:
        """Return the IPv4 address of one of its interfaces."""
        return self.interfaces[interface].addresses[0].partition("/")[0]

    def _fit(self) -> None:
        """Interfaces are born with their MTU; offloads and limits are set once all of them are there."""
        for hop in (*self.own_hops, *(hop for segment in self.segments for hop in segment.hops)):
            hop.apply(self._requested, LinkSettings(mtu=self._requested.mtu))

    @property
    def _requested(self) -> LinkSettings:
        if self._settings is None:
            raise NetworkError(f"the end {self.role} was plugged before its topology was built")
        return self._settings

    def _kernel_settings(self, *, shared: bool) -> dict[str, str]:
        """Return settings below /proc/sys/net that must be equal in every guest.

        A namespace has its own forwarding; a guest with a kernel of its own is also given the host's limits of socket
        buffers, which guests that share the host's kernel have anyway. Another machine keeps those that are of the
        whole machine.
        """
        found = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"} if self.forwards else {}
        own = (
            tuple(k for k in _BUFFER_SETTINGS if k.startswith("ipv4/"))
            if self.uplinks
            else _BUFFER_SETTINGS
        )
        for key in () if shared else own:
            path = Path("/proc/sys/net", key)
            if path.exists():
                found[key] = " ".join(path.read_text().split())
        return found

    def _changed_addresses(self, settings: LinkSettings, before: LinkSettings) -> list[str]:
        """Return the kernel drops IPv6 addresses and routes when an MTU falls below 1280; they are put back as it
        rises."""
        lines = []
        for interface in self.interfaces:
            for line in address_lines(interface, settings):
                returning = ":" in line and settings.carries_ipv6 and not before.carries_ipv6
                changing = (
                    line.startswith("route replace") and settings.congestion != before.congestion
                )
                lines += [line] if returning or changing else []
        return lines

    def _offload_commands(self, on: bool) -> list[Sequence[str]]:
        pairs = [
            word
            for feature in ("tx", "tso", "gso", "gro")
            for word in (feature, "on" if on else "off")
        ]
        interfaces = [interface.name for interface in self.interfaces]
        return [
            *self._on_uplinks(
                "sh", "-c", f'ethtool -K "$1" {" ".join(pairs)} || [ $? = 1 ]', "vtax"
            ),
            ["sh", "-c", f"S='{' '.join(pairs)}'; {_OFFLOADS}", "vtax", *interfaces],
        ]

    def run_on_machine(self, argv: Sequence[str]) -> str:
        """Output of a command in the namespace of its machine's own interfaces; empty before the guest is up."""
        return (
            "" if self.execute is None else self.execute(["sh", "-c", _ON_MACHINE, "vtax", *argv])
        )

    def _on_uplinks(self, *argv: str) -> list[Sequence[str]]:
        """Return a command on each of its machine's own interfaces, the name appended; none for a guest on this
        host."""
        return [["sh", "-c", _ON_MACHINE, "vtax", *argv, uplink.there] for uplink in self.uplinks]


def _flush_routes(settings: LinkSettings, before: LinkSettings) -> list[Sequence[str]]:
    """Commands that flush the path MTUs a kernel has learned, run once its interfaces have another MTU.

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
    control = f"congctl {settings.congestion}"
    addresses, routes = [], []
    for address in interface.addresses:
        parsed = ip_interface(address)
        if parsed.version == 6 and not settings.carries_ipv6:
            continue
        addresses.append(
            f"address add {address} dev {interface.name}"
            + (" nodad" if parsed.version == 6 else "")
        )
        own = f"{parsed.network} dev {interface.name} proto kernel"
        own += f" scope link src {parsed.ip}" if parsed.version == 4 else " metric 256"
        routes.append(f"route replace {own} {control}")
    for destination, gateway in interface.routes:
        if ":" not in destination or settings.carries_ipv6:
            routes.append(
                f"route replace {destination} via {gateway} dev {interface.name} {control}"
            )
    return [*addresses, f"link set dev {interface.name} up", *routes]
