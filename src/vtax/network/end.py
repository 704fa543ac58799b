"""One end of a topology: the plugboard a driver is handed, and how the guest behind it is reached afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_interface
from pathlib import Path

from vtax.errors import NetworkError
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Card, Machine
from vtax.network.readback import CardState, features, from_outside
from vtax.network.segment import Segment
from vtax.network.settings import LinkSettings

Execute = Callable[[Sequence[str]], str]
"""Runs a command inside a guest and returns what it printed; raises a VtaxError when it fails."""

_CONFIGURE = """set -e
batch=$1; settings=$2; shift 2
card() {
  for d in /sys/class/net/*; do
    read -r a <"$d/address" || continue
    if [ "$a" = "$1" ]; then echo "${d##*/}"; return; fi
  done
  echo "no card with address $1" >&2; return 1
}
for mac in "$@"; do
  now=$(card "${mac%/*}")
  ip link set dev "$now" down
  [ "$now" = "${mac#*/}" ] || ip link set dev "$now" name "t${mac#*/}"
done
for mac in "$@"; do
  now=$(card "${mac%/*}")
  [ "$now" = "${mac#*/}" ] || ip link set dev "$now" name "${mac#*/}"
done
printf '%s\\n' "$settings" | while IFS== read -r key value; do
  if [ -e "/proc/sys/net/$key" ]; then echo "$value" >"/proc/sys/net/$key"; fi
done
printf '%s\\n' "$batch" | ip -batch -
"""
_BUFFER_SETTINGS = (
    "core/rmem_max", "core/wmem_max", "core/rmem_default", "core/wmem_default", "ipv4/tcp_rmem", "ipv4/tcp_wmem",
)  # fmt: skip
_STATE = """i=$1; read -r mtu <"/sys/class/net/$i/mtu"; set -- /sys/class/net/$i/queues/rx-*
echo "$mtu"; echo $#; ethtool -k "$i" 2>/dev/null || true"""
_OFFLOADS = """for i in "$@"; do ethtool -K "$i" $S >/dev/null 2>&1 || true; done"""

# The card below is in the network namespace of what started the agent, which in turn started this shell.
_BELOW = """while read -r key value; do [ "$key" != PPid: ] || keeper=$value; done <"/proc/$PPID/status"
exec nsenter --net="/proc/$keeper/ns/net" -- "$@" """


class End:
    """A guest's place in a topology; it has the shape of a Plugboard.

    role: what it is called (`guest`, `peer`, `receiver`, ...). under_test: whether the guest is of the platform under
    test or native. forwards: whether it must route between its cards. prepare: what else must happen in the started
    guest before the first trial. machine: where its guest stands, when that is not this host.
    """

    def __init__(
        self,
        role: str,
        cards: Sequence[tuple[Card, Segment]],
        *,
        under_test: bool,
        forwards: bool = False,
        prepare: Callable[[Execute], None] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.role = role
        self.under_test = under_test
        self.forwards = forwards
        self._sockets = tuple(cards)
        self._prepare = prepare
        self._machine = machine
        self._tapped = False
        self._own_stack = False
        self.namespace: Namespace | None = None
        self.execute: Execute | None = None
        self._settings: LinkSettings | None = None

    @property
    def cards(self) -> Sequence[Card]:
        """See Plugboard.cards."""
        return tuple(card for card, _ in self._sockets)

    @property
    def lab_namespace(self) -> str:
        """See Plugboard.lab_namespace."""
        return self._sockets[0][1].namespace.name

    @property
    def machine(self) -> Machine | None:
        """See Plugboard.machine."""
        return self._machine

    @property
    def has_taps(self) -> bool:
        """Whether the guest's cards are taps, or on another machine: they are configured from inside."""
        return self._tapped or self._machine is not None

    @property
    def stack(self) -> Namespace | None:
        """Where packets can be sent from outside as the guest would; None when only the guest itself can."""
        return None if self._own_stack else self.namespace

    @property
    def segments(self) -> Sequence[Segment]:
        """The networks its cards stand in, each once."""
        return list(dict.fromkeys(segment for _, segment in self._sockets))

    def aim(self, settings: LinkSettings) -> None:
        """The settings its links get when they are plugged."""
        self._settings = settings

    def plug_namespace(self, netns: Path, *, own_stack: bool = False) -> None:
        """See Plugboard.plug_namespace. Raises NetworkError."""
        if own_stack and self.forwards:
            raise NetworkError(
                "this guest's own network stack drops the large packets that a router is handed",
                cure="take router topologies out of studies with this platform",
            )
        self._own_stack = own_stack
        guest = Namespace(netns)
        guest.quieten()
        for card, segment in self._sockets:
            segment.plug(self.role, card, guest)
        for key, value in self._kernel_settings(shared=True).items():
            guest.set(key, value)
        addresses = (line for card in self.cards for line in address_lines(card, self._wanted))
        guest.ip("link set dev lo up", *addresses)
        self.namespace = guest
        self._fit()

    def taps(self, queues: int = 1) -> Sequence[str]:
        """See Plugboard.taps. Raises NetworkError."""
        names = [segment.plug_tap(self.role, card, queues) for card, segment in self._sockets]
        self._tapped = True
        self._fit()
        return names

    def configure_commands(self) -> Sequence[Sequence[str]]:
        """See Plugboard.configure_commands. Nothing when the cards are in a namespace: they are ready."""
        if not self.has_taps:
            return ()
        batch = ["link set dev lo up"]
        for card in self.cards:
            batch += [f"link set dev {card.interface} mtu {card.mtu}", *address_lines(card, self._wanted)]
        names = [f"{card.mac}/{card.interface}" for card in self.cards]
        settings = "\n".join(f"{key}={value}" for key, value in self._kernel_settings(shared=False).items())
        commands: list[Sequence[str]] = [["sh", "-c", _CONFIGURE, "vtax", "\n".join(batch), settings, *names]]
        if not all(card.offloads for card in self.cards):
            commands += self._offload_commands(False)
        return commands

    def connected(self, execute: Execute) -> None:
        """Remember how to run commands in the started guest, and configure its cards from inside if need be."""
        self.execute = execute
        for argv in self.configure_commands():
            execute(argv)
        if self._prepare is not None:
            self._prepare(execute)

    def change_commands(self, settings: LinkSettings, before: LinkSettings) -> Sequence[Sequence[str]]:
        """What to run inside a guest with taps to go from one setting to another."""
        if not self.has_taps:
            return ()
        commands: list[Sequence[str]] = []
        batch = (
            []
            if settings.mtu == before.mtu
            else [f"link set dev {c.interface} mtu {settings.mtu}" for c in self.cards]
        )
        batch += self._changed_addresses(settings, before)
        if settings.mtu != before.mtu:
            commands += self._below("ip", "link", "set", "mtu", str(settings.mtu), "dev")
        if batch:
            commands.append(["sh", "-c", 'printf "%s\\n" "$1" | ip -batch -', "vtax", "\n".join(batch)])
        commands += _forget_routes(settings, before)
        if settings.offloads != before.offloads:
            commands += self._offload_commands(settings.offloads)
        return commands

    def readdress(self, settings: LinkSettings, before: LinkSettings) -> None:
        """After a change of its links: put back in its namespace what the kernel drops, change what routes carry."""
        if self.namespace is not None:
            self.namespace.ip(*self._changed_addresses(settings, before))
            for argv in _forget_routes(settings, before):
                self.namespace.run(argv)

    def states(self) -> dict[str, CardState]:
        """What is in force at its cards, asked inside a guest with taps and outside of any other."""
        found = {}
        for card in self.cards:
            if self.namespace is not None:
                found[f"{self.role}.{card.interface}"] = from_outside(self.namespace, card.interface)
            elif self.execute is not None:
                told = self.execute(["sh", "-c", _STATE, "vtax", card.interface])
                mtu, queues, rest = told.split("\n", 2)
                found[f"{self.role}.{card.interface}"] = CardState(int(mtu), features(rest), int(queues))
        return found

    def address(self, card: int = 0) -> str:
        """The IPv4 address of one of its cards."""
        return self.cards[card].addresses[0].partition("/")[0]

    def _fit(self) -> None:
        """Interfaces are born with their MTU; offloads and limits are set once all of them are there."""
        for hop in (hop for segment in self.segments for hop in segment.hops):
            hop.apply(self._wanted, LinkSettings(mtu=self._wanted.mtu))

    @property
    def _wanted(self) -> LinkSettings:
        if self._settings is None:
            raise NetworkError(f"the end {self.role} was plugged before its topology was built")
        return self._settings

    def _kernel_settings(self, *, shared: bool) -> dict[str, str]:
        """Settings below /proc/sys/net that must be equal in every guest.

        A namespace has its own forwarding; a guest with a kernel of its own is also given the host's limits of socket
        buffers, which guests that share the host's kernel have anyway. Another machine keeps those that are of the
        whole machine.
        """
        found = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"} if self.forwards else {}
        own = (
            _BUFFER_SETTINGS if self._machine is None else tuple(k for k in _BUFFER_SETTINGS if k.startswith("ipv4/"))
        )
        for key in () if shared else own:
            path = Path("/proc/sys/net", key)
            if path.exists():
                found[key] = " ".join(path.read_text().split())
        return found

    def _changed_addresses(self, settings: LinkSettings, before: LinkSettings) -> list[str]:
        """The kernel drops IPv6 addresses and routes when an MTU falls below 1280; they are put back as it rises."""
        lines = []
        for card in self.cards:
            for line in address_lines(card, settings):
                returning = ":" in line and settings.carries_ipv6 and not before.carries_ipv6
                changing = line.startswith("route replace") and settings.congestion != before.congestion
                lines += [line] if returning or changing else []
        return lines

    def _offload_commands(self, on: bool) -> list[Sequence[str]]:
        pairs = [word for feature in ("tx", "tso", "gso", "gro") for word in (feature, "on" if on else "off")]
        cards = [card.interface for card in self.cards]
        return [
            *self._below("sh", "-c", f'ethtool -K "$1" {" ".join(pairs)} || [ $? = 1 ]', "vtax"),
            ["sh", "-c", f"S='{' '.join(pairs)}'; {_OFFLOADS}", "vtax", *cards],
        ]

    def ask_below(self, argv: Sequence[str]) -> str:
        """What a command says in the network namespace of the machine's own card; nothing before the guest is up."""
        return "" if self.execute is None else self.execute(["sh", "-c", _BELOW, "vtax", *argv])

    def _below(self, *argv: str) -> list[Sequence[str]]:
        """A command on the machine's own card, whose name is its last word: nothing when this host has the guest."""
        return [] if self._machine is None else [["sh", "-c", _BELOW, "vtax", *argv, self._machine.nic]]


def _forget_routes(settings: LinkSettings, before: LinkSettings) -> list[Sequence[str]]:
    """What makes a kernel forget the path MTUs it has learned, run once its cards have another MTU.

    TCP over the smallest MTU leaves one behind (`mtu lock 68`) for ten minutes at both ends, and a larger MTU of the
    card does not end it.
    """
    if settings.mtu == before.mtu:
        return []
    families = ("-4", "-6") if settings.carries_ipv6 else ("-4",)
    return [("ip", family, "route", "flush", "cache") for family in families]


def address_lines(card: Card, settings: LinkSettings) -> list[str]:
    """The commands of ip(8) that bring a card up with its addresses and routes.

    Congestion control is an attribute of the routes: a namespace may not choose one that the host has not allowed to
    everybody, but root may give any to a route (ip-route(8), congctl).
    """
    control = f"congctl {settings.congestion}"
    addresses, routes = [], []
    for address in card.addresses:
        interface = ip_interface(address)
        if interface.version == 6 and not settings.carries_ipv6:
            continue
        addresses.append(f"address add {address} dev {card.interface}" + (" nodad" if interface.version == 6 else ""))
        own = f"{interface.network} dev {card.interface} proto kernel"
        own += f" scope link src {interface.ip}" if interface.version == 4 else " metric 256"
        routes.append(f"route replace {own} {control}")
    for destination, gateway in card.routes:
        if ":" not in destination or settings.carries_ipv6:
            routes.append(f"route replace {destination} via {gateway} dev {card.interface} {control}")
    return [*addresses, f"link set dev {card.interface} up", *routes]
