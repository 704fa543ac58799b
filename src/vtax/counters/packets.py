"""The mean size of the packets that carried a trial's data, at every hop that is counted outside of guests.

An interface counts a packet as its driver is given it: with segmentation offloads one of 64 KB where 44 cross a wire.
A figure "with packets of 64 bytes" is one only where the packets were of 64 bytes, so they are counted, and what was
asked for (link setting `packet_bytes`) is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vtax.counters.table import LINK, RX_BYTES, RX_PACKETS, TX_BYTES, TX_PACKETS
from vtax.messages import Note

Counted = Mapping[tuple[str, str], float]
"""(place, name) -> value."""

TOLERANCE = 0.05
"""By which the mean may be off what was asked for: the packets of a connection's start and end are smaller."""
ETHERNET_HEADER = (
    14  # bytes, IEEE 802.3; counters of hops include it, the size of an IP packet does not
)
LEAST_SHARE = 0.1  # of the bytes of the hop with most: others carry control, such as of a switch by its controller
FEWEST = 100  # packets that say what a trial is made of; fewer are of a tool's control connection


def mean_packet_bytes(counters: Counted) -> dict[str, float]:
    """Return the mean bytes of the IP packets in the direction with more, by hop.

    Hops that carried less than a share of the data are left out.
    """
    traffic_by_hop: dict[str, tuple[float, float]] = {}
    for place, name in counters:
        if place != LINK or not name.endswith(RX_BYTES.of("")):
            continue
        hop = name.removesuffix(RX_BYTES.of(""))
        directions = []
        for size, packets in ((RX_BYTES, RX_PACKETS), (TX_BYTES, TX_PACKETS)):
            size_bytes = counters.get((LINK, size.of(hop)), 0.0)
            directions.append((size_bytes, counters.get((LINK, packets.of(hop)), 0.0)))
        size_bytes, count = max(directions)
        if count >= FEWEST:
            traffic_by_hop[hop] = size_bytes, count
    max_bytes = max((size_bytes for size_bytes, _ in traffic_by_hop.values()), default=0.0)
    means = {}
    for hop, (size_bytes, count) in traffic_by_hop.items():
        if size_bytes >= LEAST_SHARE * max_bytes:
            means[hop] = size_bytes / count - ETHERNET_HEADER
    return means


def size_warning(means: Mapping[str, float], requested: int | None) -> Note | None:
    """Return what is wrong with the packets of a trial: their size at the hop where it is farthest off; None where
    nothing is.

    means: as mean_packet_bytes gives them. requested: bytes of an IP packet, None when nothing was asked for.
    """
    if requested is None:
        return None
    if not means:
        return Note("packets-not-counted", requested=requested, minimum=FEWEST)
    hop = max(means, key=lambda name: abs(means[name] / requested - 1))
    if abs(means[hop] / requested - 1) <= TOLERANCE:
        return None
    return Note("packet-size", requested=requested, found=round(means[hop]), hop=hop)
