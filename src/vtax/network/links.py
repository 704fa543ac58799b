"""A built topology: its ends, the flows between them, and changes of its links while guests run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from vtax.counters import table
from vtax.errors import NetworkError, VtaxError
from vtax.host.process import run
from vtax.messages import Note
from vtax.network import wire
from vtax.network.echo import echo, ping_pong_s
from vtax.network.end import NetworkEnd
from vtax.network.hop import Hop
from vtax.network.lab import Lab
from vtax.network.readback import mtu_of
from vtax.network.segment import Segment, port_name
from vtax.network.settings import LinkSettings
from vtax.network.translation import OUTER_HOP
from vtax.network.uplink import attach_uplink, nic_rate_mbit_s

_PING_PONG_BYTES, _PING_PONGS = 8192, 16


@dataclass(frozen=True)
class Flow:
    """Traffic between two ends: their roles, and the address by which each is called.

    hidden: the server cannot call the client, which is behind address translation.
    """

    client: str
    server: str
    client_address: str
    server_address: str
    hidden: bool = False


class OtherHalf(Protocol):
    """The half of a topology that stands on another machine, and is made there."""

    @property
    def link_mbit_s(self) -> float | None:
        """The rate of its slowest physical interface, once settings were applied; None when unknown."""
        ...

    def counters(self) -> Mapping[str, float]:
        """See Links.counters."""
        ...


def _nothing() -> AbstractContextManager[dict[str, Any]]:
    return nullcontext({})


class Links:
    """All links of one topology. Ends are started in their order: native ones first.

    ends: every guest to start, each a Plugboard. flows: what runs at once in one trial; the first is the one a
    single client and server use. more_hops: interfaces of the lab that belong to no segment (a trunk). notes: what
    must be shown wherever figures over these links appear. forced: settings these links cannot do without, whatever
    is requested. more_counters: what a switch of the lab counts. meanwhile: what happens to the lab in a trial, as a
    context that knows afterwards what it did. trunks: the networks that go on on another machine. there: the half
    that stands on it. wire_share: of the ping-pongs that a wire of the links' rate and delay carries, how many they
    do; None where none was sent.
    """

    def __init__(
        self,
        lab: Lab,
        settings: LinkSettings,
        ends: Sequence[NetworkEnd],
        flows: Sequence[Flow],
        more_hops: Sequence[Hop] = (),
        notes: Sequence[str] = (),
        forced: Mapping[str, Any] | None = None,
        more_counters: Callable[[], Mapping[str, float]] = dict,
        meanwhile: Callable[[], AbstractContextManager[dict[str, Any]]] = _nothing,
        trunks: Sequence[Segment] = (),
    ) -> None:
        self.lab = lab
        self.settings = settings
        self.ends = tuple(ends)
        self.flows = tuple(flows)
        self.notes = tuple(notes)
        self.effective: dict[str, Any] = {}
        self.warnings: tuple[Note, ...] = ()
        self.wire_share: float | None = None
        self._forced = dict(forced or {})
        self._more_counters = more_counters
        self.meanwhile = meanwhile
        self._more_hops = tuple(more_hops)
        self._trunks = tuple(trunks)
        self.there: OtherHalf | None = None
        self._verified = False
        self._nic_rates_mbit_s: list[float | None] = []
        for end in self.ends:
            end.request(settings, lab)

    @property
    def trunks(self) -> int:
        """How many networks go on on another machine."""
        return len(self._trunks)

    @property
    def guests(self) -> tuple[NetworkEnd, ...]:
        """The ends whose guests are of the platform under test."""
        return tuple(end for end in self.ends if end.under_test)

    @property
    def peer(self) -> NetworkEnd | None:
        """The native end that serves the first flow, if it is a native one."""
        server = self.end(self.flows[0].server)
        return None if server.under_test else server

    def end(self, role: str) -> NetworkEnd:
        """Return the end of a role. Raises KeyError."""
        return {end.role: end for end in self.ends}[role]

    @property
    def hops(self) -> list[Hop]:
        """Every interface that packets cross and that can be reached from outside, the lab's trunk first."""
        segments = dict.fromkeys(
            (*self._trunks, *(segment for end in self.ends for segment in end.segments))
        )
        own = (hop for end in self.ends for hop in end.own_hops)
        return [*self._more_hops, *(hop for segment in segments for hop in segment.hops), *own]

    @property
    def peer_address(self) -> str:
        """Where the client of the first flow finds its server."""
        return self.flows[0].server_address

    @property
    def link_mbit_s(self) -> float | None:
        """The known rate of the link in each direction, or of the slower physical interface; None when unknown."""
        there = self.there.link_mbit_s if self.there else None
        known = [
            rate
            for rate in (self.settings.rate_mbit_s, there, *self._nic_rates_mbit_s)
            if rate is not None
        ]
        return min(known, default=None)

    def join(self, nics: Iterable[str]) -> None:
        """Lead each network that goes on on another machine to it, by an interface of this host.

        Raises BadInput, NetworkError or CommandFailed.
        """
        for number, (trunk, nic) in enumerate(zip(self._trunks, nics, strict=True)):
            port = f"trunk{number}"
            attach_uplink(self.lab, trunk.namespace, nic, port, self.settings.mtu)
            trunk.plug_uplink(port, nic, limits=False)  # both ways are shaped at the ends
        for hop in self.hops:
            hop.apply(self.settings, LinkSettings(mtu=self.settings.mtu))

    def apply(self, link: LinkSettings) -> Mapping[str, Sequence[Sequence[str]]]:
        """Change MTU, offloads and rate at every hop without restarting a guest.

        Guests with taps that were `connected` are changed from inside here; for others the commands to run in them
        are returned, by role. When nothing is left to run, a full-size packet proves the new settings (see verify);
        `effective` and `warnings` show what is in force then.
        Raises NetworkError (also for a setting that needs fresh guests) or CommandFailed.
        """
        settings = link.model_copy(update=self._forced)
        before = self.settings
        left: dict[str, list[Sequence[str]]] = {}
        if settings == before and self._verified:
            return left
        if settings.structure() != before.structure():
            raise NetworkError(
                f"{_changed(settings, before)} cannot change while guests live; build the topology anew"
            )
        self.settings, self._verified = settings, False
        for hop in self.hops:
            hop.apply(settings, before)
        for end in self.ends:
            end.readdress(settings, before)
            for argv in end.change_commands(settings, before):
                if end.execute is None:
                    left.setdefault(end.role, []).append(argv)
                else:
                    _change(end, argv)
        if not left:
            self.verify()
            self.read_back()
        return left

    def verify(self) -> None:
        """Send a full-size packet that may not be fragmented along every flow. Raises NetworkError."""
        is_emulated = any(end.has_taps for end in self.ends)
        timeout_s = 20.0 if is_emulated else 2.0  # an emulated interface resets for seconds
        for flow in self.flows:
            client, server = self.end(flow.client), self.end(flow.server)
            if server.stack is not None and not flow.hidden:
                echo(server.stack, flow.client_address, self.settings.mtu, timeout_s=timeout_s)
            elif client.stack is not None:
                echo(client.stack, flow.server_address, self.settings.mtu, timeout_s=timeout_s)
            elif client.execute is not None:
                whole = ["-M", "do"] if client.has_taps else []  # a stack in user space ignores it
                size = str(self.settings.mtu - 28)
                client.execute(
                    ["ping", "-q", "-c", "1", "-W", "20", *whole, "-s", size, flow.server_address]
                )
        self._verified = True

    def counters(self) -> dict[str, float]:
        """Bytes, packets, errors and drops at every hop that can be read from outside: `guest.eth0.rx_bytes`."""
        hops = [hop for hop in self.hops if hop.counts]
        traffic = {
            path: hop.namespace.traffic()
            for path, hop in {h.namespace.path: h for h in hops}.items()
        }
        counted = {
            f"{hop.name}.{name}": float(value)
            for hop in hops
            for name, value in traffic[hop.namespace.path][hop.interface].items()
        }
        found = {
            **counted,
            **self._more_counters(),
            table.UNDER_TEST_BYTES.name: self._through_guests(counted),
            table.DROPS.name: drops(hops, counted),
        }
        return {**found, **_with_there(found, self.there.counters())} if self.there else found

    def _through_guests(self, counted: Mapping[str, float]) -> float:
        """Bytes in and out of every interface of the guests under test, from whichever end can be read."""
        total = 0.0
        for end in self.guests:
            for interface in end.interfaces:
                own, lab = f"{end.role}.{interface.name}", f"lab.{port_name(end.role, interface)}"
                name = own if table.RX_BYTES.of(own) in counted else lab
                total += sum(
                    counted.get(counter.of(name), 0.0)
                    for counter in (table.RX_BYTES, table.TX_BYTES)
                )
        if any(end.is_behind_engine and not end.own_hops for end in self.guests):
            total += sum(
                counted.get(counter.of(OUTER_HOP), 0.0)
                for counter in (table.RX_BYTES, table.TX_BYTES)
            )
        return total

    def read_back(self) -> None:
        """Read the MTU of every hop, the offloads of every interface, and the speed of physical ones.

        Raises NetworkError when a hop is too small.
        """
        for hop in self.hops:
            if (mtu := mtu_of(hop.namespace, hop.interface)) != self.settings.mtu:
                raise NetworkError(f"{hop.name} has an MTU of {mtu}, not {self.settings.mtu}")
        self._nic_rates_mbit_s = [
            nic_rate_mbit_s(_here, hop.interface) for hop in self.hops if hop.kind == "nic"
        ]
        for end in self.ends:
            self._nic_rates_mbit_s += (
                nic_rate_mbit_s(end.run_on_machine, uplink.there) for uplink in end.uplinks
            )
        states = {name: state for end in self.ends for name, state in end.states().items()}
        self.effective = {
            "link": self.settings.model_dump(mode="json", exclude_none=True),
            "interfaces": {name: asdict(state) for name, state in states.items()},
        }
        found = [
            text
            for name, state in states.items()
            for text in state.differences(name, self.settings)
        ]
        self.warnings = (*found, *self._as_wires())

    def _as_wires(self) -> list[Note]:
        """Describe shaped links that are no wires; see `wire`. Reads the kernel back, and sends messages.

        Raises NetworkError for settings that are not in force, and for one of netem that is faster than a wire.
        """
        settings, self.wire_share = self.settings, None
        if not wire.is_shaped(settings):
            return []
        for hop in self.hops:
            for wrong in (
                text for shaped in hop.shaped() for text in wire.differences(settings, shaped)
            ):
                raise NetworkError(f"{hop.name}: {wrong}")
        at_least = wire.echo_s(settings, _PING_PONG_BYTES)
        measured = [
            seconds
            for flow in self.flows
            if (seconds := self._ping_pong_s(flow, at_least)) is not None
        ]
        if measured and at_least:
            self.wire_share = at_least / min(measured)
        if not measured or min(measured) >= at_least * (1 - wire.TOLERANCE):
            return [what] if (what := wire.description(settings)) else []
        found_us, least_us = round(min(measured) * 1e6), round(at_least * 1e6)
        if not (what := wire.description(settings)):
            raise NetworkError(
                f"a link with {wire.MODULE} is no wire: {_PING_PONG_BYTES} bytes there and back took {found_us} us, "
                f"and a wire needs {least_us} us"
            )
        return [Note("link-echo", what=what, size=_PING_PONG_BYTES, found=found_us, limit=least_us)]

    def _ping_pong_s(self, flow: Flow, at_least: float) -> float | None:
        """Mean time of a message of known size along a flow and back, on a wire at_least so many seconds.

        None where no end can send one from outside, or it is lost.
        """
        client, server = self.end(flow.client), self.end(flow.server)
        stack, address = client.stack, flow.server_address
        if server.stack is not None and not flow.hidden:
            stack, address = server.stack, flow.client_address
        if stack is None or self.settings.loss:
            return None
        count = round(min(max(1 / at_least, 2), _PING_PONGS)) if at_least else _PING_PONGS
        with suppress(NetworkError):
            return ping_pong_s(stack, address, _PING_PONG_BYTES, count, timeout_s=2 + 10 * at_least)
        return None

    def close(self) -> None:
        """Remove the lab. May be called twice."""
        self.lab.close()


def _with_there(here: Mapping[str, float], there: Mapping[str, float]) -> dict[str, float]:
    """Add what the other machine counted: each hop by its name behind `there.`, the sums added to those here."""
    sums = (table.UNDER_TEST_BYTES.name, table.DROPS.name)
    hops = {f"there.{name}": value for name, value in there.items() if name.count(".") > 1}
    return {**hops, **{name: here[name] + there[name] for name in sums}}


def drops(hops: Sequence[Hop], counted: Mapping[str, float]) -> float:
    """Packets dropped or broken at any of these hops, each once.

    A veth counts a packet that its other end drops at both ends: as a drop in sending and as one in receiving. Of the
    two ends of a veth pair the higher count holds, in each direction.
    """
    veth_pairs: dict[str, list[Hop]] = {}
    for hop in hops:
        veth_pairs.setdefault(hop.veth_pair or hop.name, []).append(hop)

    def of(hop: Hop, direction: tuple[table.Counter, ...]) -> float:
        return sum(counted[counter.of(hop.name)] for counter in direction)

    total = 0.0
    for first, *others in veth_pairs.values():
        for direction, opposite in (
            (table.RX_DROPPED, table.TX_DROPPED),
            (table.TX_DROPPED, table.RX_DROPPED),
        ):
            total += max(of(first, direction), *(of(other, opposite) for other in others), 0.0)
    return total


def _here(argv: Sequence[str]) -> str:
    return run(argv).stdout


def _change(end: NetworkEnd, argv: Sequence[str]) -> None:
    assert end.execute is not None
    try:
        end.execute(argv)
    except VtaxError as error:
        raise NetworkError(
            f"the interface of {end.role} refuses its settings: {error.what}"
        ) from error


def _changed(settings: LinkSettings, before: LinkSettings) -> str:
    return ", ".join(
        dict.fromkeys(name for name, _ in set(settings.structure()) ^ set(before.structure()))
    )
