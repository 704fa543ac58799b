"""A built topology: its ends, the flows between them, and changes of its links while guests run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
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
from vtax.network.namespace import Traffic
from vtax.network.readback import mtu_of
from vtax.network.segment import Segment, port_name
from vtax.network.settings import LinkSettings
from vtax.network.translation import OUTER_HOP
from vtax.network.uplink import attach_uplink, nic_rate_mbit_s

_PING_PONG_BYTES, _PING_PONGS = 8192, 16


@dataclass(frozen=True)
class Flow:
    """Traffic between two ends.

    client, server: roles of the ends.
    client_address, server_address: by which each end reaches the other.
    hidden: whether the client is behind address translation, so that the server cannot reach it.
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
        """Bytes, packets, errors and drops at every hop of this half, as Links.counters has them."""
        ...


def _nothing() -> AbstractContextManager[dict[str, Any]]:
    return nullcontext({})


class Links:
    """All links of one topology. Ends are started in their order: native ones first.

    lab: where they are.
    settings: of the links.
    ends: every guest to start, each a Plugboard.
    flows: traffic that runs at once in one trial; a benchmark with a single client and server uses the first.
    more_hops: interfaces of the lab that belong to no segment (a trunk).
    notes: must be shown wherever figures over these links appear.
    forced: settings that these links have whatever is requested.
    more_counters: counters of a switch of the lab.
    meanwhile: what happens to the lab in a trial, as a context that knows afterwards what it did.
    trunks: the networks that continue on another machine.
    there: the half of the topology on that machine.
    wire_share: ping-pongs per second over the links, as a share of those that a wire of their rate and delay carries;
        None where none was sent.
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
        self._traffic: dict[Path, Traffic] = {}
        self._nic_rates_mbit_s: list[float | None] = []
        for end in self.ends:
            end.request(settings, lab)

    @property
    def trunks(self) -> int:
        """How many networks continue on another machine."""
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
        segments = dict.fromkeys(self._trunks)
        own_hops: list[Hop] = []
        for end in self.ends:
            segments |= dict.fromkeys(end.segments)
            own_hops += end.own_hops
        hops = list(self._more_hops)
        for segment in segments:
            hops += segment.hops
        return hops + own_hops

    @property
    def peer_address(self) -> str:
        """Address of the server of the first flow."""
        return self.flows[0].server_address

    @property
    def link_mbit_s(self) -> float | None:
        """The known rate of the link in each direction, or of the slower physical interface; None when unknown."""
        rates = [self.settings.rate_mbit_s, *self._nic_rates_mbit_s]
        if self.there:
            rates.append(self.there.link_mbit_s)
        return min((rate for rate in rates if rate is not None), default=None)

    def join(self, nics: Iterable[str]) -> None:
        """Connect each network that continues on another machine to it, by an interface of this host.

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
        `effective` and `warnings` hold the effective settings then.
        Raises NetworkError (also for a setting that needs fresh guests) or CommandFailed.
        """
        settings = link.model_copy(update=self._forced)
        before = self.settings
        guest_commands: dict[str, list[Sequence[str]]] = {}
        if settings == before and self._verified:
            return guest_commands
        structure = set(settings.structure()) ^ set(before.structure())
        if structure:
            names = ", ".join(dict(structure))
            raise NetworkError(f"{names} cannot change while guests live; build the topology anew")
        self.settings, self._verified = settings, False
        for hop in self.hops:
            hop.apply(settings, before)
        for end in self.ends:
            end.readdress(settings, before)
            for argv in end.change_commands(settings, before):
                if end.execute is None:
                    guest_commands.setdefault(end.role, []).append(argv)
                else:
                    _change(end, argv)
        if not guest_commands:
            self.verify()
            self.read_back()
        return guest_commands

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
                no_fragments = (
                    ["-M", "do"] if client.has_taps else []
                )  # a stack in user space ignores it
                size = str(self.settings.mtu - 28)
                client.execute(
                    [
                        "ping",
                        "-q",
                        "-c",
                        "1",
                        "-W",
                        "20",
                        *no_fragments,
                        "-s",
                        size,
                        flow.server_address,
                    ]
                )
        self._verified = True

    def counters(self) -> dict[str, float]:
        """Bytes, packets, errors and drops at every hop that can be read from outside: `guest.eth0.rx_bytes`."""
        hops = [hop for hop in self.hops if hop.counts]
        traffic: dict[Path, Mapping[str, Mapping[str, int]]] = {}
        counters: dict[str, float] = {}
        for hop in hops:
            namespace = hop.namespace
            if namespace.path not in self._traffic:
                self._traffic[namespace.path] = namespace.traffic()
            if namespace.path not in traffic:
                traffic[namespace.path] = self._traffic[namespace.path].read()
            for name, value in hop.counters(traffic[namespace.path][hop.interface]).items():
                counters[f"{hop.name}.{name}"] = value
        sums = {
            table.UNDER_TEST_BYTES.name: self._through_guests(counters),
            table.DROPS.name: drops(hops, counters),
        }
        counters |= {**self._more_counters(), **sums}
        if self.there:
            counters |= _add_there(sums, self.there.counters())
        return counters

    def _through_guests(self, counters: Mapping[str, float]) -> float:
        """Return the bytes in and out of every interface of the guests under test, from whichever end can be read."""
        total = 0.0
        for end in self.guests:
            for interface in end.interfaces:
                name = f"{end.role}.{interface.name}"
                if table.RX_BYTES.of(name) not in counters:
                    name = f"lab.{port_name(end.role, interface)}"
                total += _bytes_at(name, counters)
        if any(end.is_behind_engine and not end.own_hops for end in self.guests):
            total += _bytes_at(OUTER_HOP, counters)
        return total

    def read_back(self) -> None:
        """Read the MTU of every hop, the offloads of every interface, and the speed of physical ones.

        Raises NetworkError when a hop is too small.
        """
        self._nic_rates_mbit_s = []
        for hop in self.hops:
            mtu = mtu_of(hop.namespace, hop.interface)
            if mtu != self.settings.mtu:
                raise NetworkError(f"{hop.name} has an MTU of {mtu}, not {self.settings.mtu}")
            if hop.kind == "nic":
                self._nic_rates_mbit_s.append(nic_rate_mbit_s(_run_here, hop.interface))
        interfaces: dict[str, Any] = {}
        warnings: list[Note] = []
        for end in self.ends:
            for uplink in end.uplinks:
                self._nic_rates_mbit_s.append(nic_rate_mbit_s(end.run_on_machine, uplink.there))
            for name, state in end.states().items():
                interfaces[name] = asdict(state)
                warnings += state.differences(name, self.settings)
        self.effective = {
            "link": self.settings.model_dump(mode="json", exclude_none=True),
            "interfaces": interfaces,
        }
        self.warnings = (*warnings, *self._check_shaping())

    def _check_shaping(self) -> list[Note]:
        """Return notes on shaped links that are no wires, in the sense of `wire`. Reads the kernel, sends messages.

        Raises NetworkError for settings that are not effective, and for a link with netem that is faster than a wire.
        """
        settings, self.wire_share = self.settings, None
        if not wire.is_shaped(settings):
            return []
        for hop in self.hops:
            for shaping in hop.shaped():
                for difference in wire.differences(settings, shaping):
                    raise NetworkError(f"{hop.name}: {difference}")
        wire_s = wire.echo_s(settings, _PING_PONG_BYTES)
        description = wire.description(settings)
        echoes = [self._ping_pong_s(flow, wire_s) for flow in self.flows]
        fastest = min((seconds for seconds in echoes if seconds is not None), default=None)
        if fastest is not None and wire_s:
            self.wire_share = wire_s / fastest
        if fastest is None or fastest >= wire_s * (1 - wire.TOLERANCE):
            return [description] if description else []
        fastest_us, wire_us = round(fastest * 1e6), round(wire_s * 1e6)
        if not description:
            raise NetworkError(
                f"a link with {wire.MODULE} is no wire: {_PING_PONG_BYTES} bytes there and back took {fastest_us} us, "
                f"and a wire needs {wire_us} us"
            )
        return [
            Note(
                "link-echo",
                what=description,
                size=_PING_PONG_BYTES,
                found=fastest_us,
                limit=wire_us,
            )
        ]

    def _ping_pong_s(self, flow: Flow, wire_s: float) -> float | None:
        """Return the mean time of a message along a flow and back. wire_s: the time that it needs on a wire.

        None where no end can send one from outside, or where it is lost.
        """
        client, server = self.end(flow.client), self.end(flow.server)
        stack, address = client.stack, flow.server_address
        if server.stack is not None and not flow.hidden:
            stack, address = server.stack, flow.client_address
        if stack is None or self.settings.loss:
            return None
        count = round(min(max(1 / wire_s, 2), _PING_PONGS)) if wire_s else _PING_PONGS
        with suppress(NetworkError):
            return ping_pong_s(stack, address, _PING_PONG_BYTES, count, timeout_s=2 + 10 * wire_s)
        return None

    def close(self) -> None:
        """Remove the lab. May be called twice."""
        while self._traffic:
            self._traffic.popitem()[1].close()
        self.lab.close()


def _add_there(
    sums: Mapping[str, float], machine_counters: Mapping[str, float]
) -> dict[str, float]:
    """Return counters of the other machine: each hop by its name behind `there.`, and the sums of both machines."""
    counters = {
        f"there.{name}": value for name, value in machine_counters.items() if name.count(".") > 1
    }
    for name, value in sums.items():
        counters[name] = value + machine_counters[name]
    return counters


def _bytes_at(name: str, counters: Mapping[str, float]) -> float:
    rx_name, tx_name = table.RX_BYTES.of(name), table.TX_BYTES.of(name)
    return counters.get(rx_name, 0.0) + counters.get(tx_name, 0.0)


def drops(hops: Sequence[Hop], counters: Mapping[str, float]) -> float:
    """Return the packets dropped or broken at any of these hops, each once.

    A veth counts a packet that its other end drops at both ends: as a drop in sending and as one in receiving. Of the
    two ends of a veth pair the higher count holds, in each direction.
    """
    rx_by_pair: dict[str, float] = {}
    tx_by_pair: dict[str, float] = {}
    for hop in hops:
        rx_drops = sum(counters[counter.of(hop.name)] for counter in table.RX_DROPPED)
        tx_drops = sum(counters[counter.of(hop.name)] for counter in table.TX_DROPPED)
        pair = hop.veth_pair or hop.name
        if pair in rx_by_pair:  # the other end: what it receives, the first end has sent
            rx_drops, tx_drops = tx_drops, rx_drops
        rx_by_pair[pair] = max(rx_by_pair.get(pair, 0.0), rx_drops)
        tx_by_pair[pair] = max(tx_by_pair.get(pair, 0.0), tx_drops)
    return sum(rx_by_pair.values()) + sum(tx_by_pair.values())


def _run_here(argv: Sequence[str]) -> str:
    return run(argv).stdout


def _change(end: NetworkEnd, argv: Sequence[str]) -> None:
    assert end.execute is not None
    try:
        end.execute(argv)
    except VtaxError as error:
        raise NetworkError(
            f"the interface of {end.role} refuses its settings: {error.what}"
        ) from error
