"""Counters around the trials of a network benchmark: where the CPU went, and what crossed every hop.

Where throughput is at its limit, overhead is no longer in the rate but in the CPU that the same bytes cost; where
bytes did not go the way they should, no rate means anything. Both are means over a cell's measured trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from vtax.counters import cost, packets
from vtax.counters.table import (
    DROPS,
    GUEST,
    HOST_CPU,
    KERNEL_CPU,
    LAYER,
    LINK,
    RX_BYTES,
    RX_DROPPED,
    RX_PACKETS,
    SWITCH_CPU,
    TCP_RETRANSMITS,
    TX_BYTES,
    TX_DROPPED,
    TX_PACKETS,
    UNDER_TEST_BYTES,
)
from vtax.described import Means
from vtax.foreign_data import parse_json
from vtax.store.query import RunData
from vtax.store.records import LEVELS

Counters = Mapping[tuple[int, str, str], tuple[float, int]]
"""(cell, place, name) -> mean and number of trials, as store.query.counters gives them."""

_HOP_COLUMNS = (RX_PACKETS, RX_BYTES, TX_PACKETS, TX_BYTES)
_DROPS = (*RX_DROPPED, *TX_DROPPED)


@dataclass(frozen=True)
class HopTraffic:
    """Traffic of one interface in a trial. drops: dropped or broken packets. packet_bytes: mean of the IP
    packets in the direction with more bytes; None where it carried no share of the data."""

    name: str
    rx_packets: float
    rx_bytes: float
    tx_packets: float
    tx_bytes: float
    drops: float
    packet_bytes: float | None = None


@dataclass(frozen=True)
class Counted:
    """A cell of a network benchmark, means of its trials.

    layer_cpu_s: CPU time of the guest with its virtualization layer, counted by the host. guest_cpu_s: that of the
    guest's own kernel; None where it has none. ends_cpu_s: of every other end, by role; of one on another machine,
    what that machine spent in all. switch_cpu_s: of a switch of the lab. under_test_cpu_s, under_test_bytes: CPU of
    all guests under test with their layers, and what went through their interfaces; where a guest decides for a
    switch of the lab, with the switch's CPU and bytes, in and out. retransmits: TCP segments sent again, by the end
    that counted them. drops: packets on the whole way, each once. everything: every counter, `PLACE.NAME`.
    effective: by name, every different value that was really in force in a measured trial: socket buffers, MSS,
    offloads.
    """

    label: Annotated[str, Means("name of the benchmark table", name="benchmark")]
    levels: Annotated[Mapping[str, Any], LEVELS]
    platform: Annotated[str, Means("platform")]
    trials: Annotated[int, Means("how many trials")]
    layer_cpu_s: float | None
    guest_cpu_s: float | None
    ends_cpu_s: Mapping[str, float]
    switch_cpu_s: float | None
    under_test_cpu_s: float | None
    under_test_bytes: Annotated[
        float,
        Means("what went through the guests under test", unit="bytes", name="bytes_under_test"),
    ]
    retransmits: Annotated[Mapping[str, float], Means("end -> TCP segments that it sent again")]
    hops: Annotated[tuple[HopTraffic, ...], Means("interfaces on the way")]
    drops: Annotated[float, Means("packets that were lost on the way")]
    everything: Annotated[
        Mapping[str, float], Means("place and name -> every counter", name="counters")
    ]
    effective: Annotated[Mapping[str, list[Any]], Means("name -> settings that were in force")]

    @property
    def cpu_s(
        self,
    ) -> Annotated[Mapping[str, float | None], Means("who -> CPU time", unit="s")]:
        """By end, and of the layer, all guests under test, and the lab's switch."""
        return {
            "layer": self.layer_cpu_s,
            "guest": self.guest_cpu_s,
            "under_test": self.under_test_cpu_s,
            **self.ends_cpu_s,
            "switch": self.switch_cpu_s,
        }

    @property
    def cpu_per_gigabyte(
        self,
    ) -> Annotated[
        float | None, Means("of what carried it; null of too little", name="cpu_s_per_gigabyte")
    ]:
        """CPU seconds of what carried the traffic for 10^9 bytes of it; None when too little moved."""
        return cost.per_gigabyte(self.under_test_cpu_s, self.under_test_bytes)


def counted_cells(data: RunData, counters: Counters, in_force: Mapping[int, str]) -> list[Counted]:
    """Return every cell whose trials counted links, points in the study's order, platforms in theirs.

    in_force: see store.query.effective.
    """
    by_cell: dict[int, dict[tuple[str, str], float]] = {}
    trials: dict[int, int] = {}
    for (cell, place, name), (mean, number) in counters.items():
        by_cell.setdefault(cell, {})[place, name] = mean
        trials[cell] = max(number, trials.get(cell, 0))
    points = {
        key: number
        for number, key in enumerate(dict.fromkeys(cell.point for cell in data.run.cells))
    }
    order = sorted(by_cell, key=lambda cell: (points[data.run.cells[cell].point], cell))
    effective = effective_of_cells(data, in_force)
    return [
        _of(data, cell, by_cell[cell], trials[cell], effective.get(cell, {}))
        for cell in order
        if (LINK, UNDER_TEST_BYTES.name) in by_cell[cell]
    ]


def effective_of_cells(
    data: RunData, in_force: Mapping[int, str]
) -> dict[int, dict[str, list[Any]]]:
    """Return every different value of what was in force in a cell's measured trials, in the order they came."""
    texts: dict[int, dict[str, None]] = {}
    trials = data.trials
    for trial, cell, counts in zip(
        trials.id, trials.cell, trials.is_ok & ~trials.is_warmup, strict=True
    ):
        if counts and int(trial) in in_force:
            texts.setdefault(int(cell), {})[in_force[int(trial)]] = None
    settings_by_cell: dict[int, dict[str, list[Any]]] = {}
    for cell, distinct in texts.items():
        values = settings_by_cell.setdefault(cell, {})
        for reported in map(parse_json, distinct):
            for name, value in reported.items():
                if value not in values.setdefault(name, []):
                    values[name].append(value)
    return settings_by_cell


def _of(
    data: RunData,
    cell: int,
    values: Mapping[tuple[str, str], float],
    trials: int,
    effective: Mapping[str, list[Any]],
) -> Counted:
    record = data.run.cells[cell]
    link = {name: value for (place, name), value in values.items() if place == LINK}
    names = dict.fromkeys(
        name.rpartition(".")[0] for name in link if name.endswith(RX_BYTES.of(""))
    )
    sizes = packets.mean_packet_bytes(values)
    hops = tuple(_hop(name, link, sizes.get(name)) for name in names)
    under_test_cpu_s, under_test_bytes = cost.carried(values, cost.under_test_cpu_s(values))
    return Counted(
        label=record.label,
        levels=dict(record.levels),
        platform=record.platform,
        trials=trials,
        layer_cpu_s=values.get((LAYER, HOST_CPU.name)),
        guest_cpu_s=values.get((GUEST, KERNEL_CPU.name)),
        ends_cpu_s={p: v for p, v in _ends(values).items() if p not in (LAYER, GUEST)},
        switch_cpu_s=link.get(SWITCH_CPU.name),
        under_test_cpu_s=under_test_cpu_s,
        under_test_bytes=under_test_bytes,
        retransmits={p: v for (p, n), v in values.items() if n == TCP_RETRANSMITS.name},
        hops=hops,
        drops=link.get(DROPS.name, sum(hop.drops for hop in hops)),
        everything={f"{place}.{name}": value for (place, name), value in values.items()},
        effective=effective,
    )


def _hop(name: str, link: Mapping[str, float], packet_bytes: float | None) -> HopTraffic:
    carried = {counter.name: link[counter.of(name)] for counter in _HOP_COLUMNS}
    drops = sum(link[counter.of(name)] for counter in _DROPS)
    return HopTraffic(name, **carried, drops=drops, packet_bytes=packet_bytes)


def _ends(values: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """CPU seconds by role: as the host counts them, or as the end's own kernel does."""
    reported = {place: value for (place, name), value in values.items() if name == KERNEL_CPU.name}
    return reported | {
        place: value for (place, name), value in values.items() if name == HOST_CPU.name
    }
