"""Trials whose packets or transactions are not those that were asked for are marked by the runner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vtax.benchmarks.base import Outcome
from vtax.benchmarks.netperf import Netperf, NetperfParameters
from vtax.counters.table import LINK, RX_BYTES, RX_PACKETS, TX_BYTES, TX_PACKETS
from vtax.network.settings import LinkSettings
from vtax.runner.trial import examine_links

BENCHMARK = Netperf()

REQUEST_RESPONSE = NetperfParameters(test="tcp_rr", request_size=512, response_size="equal")
WIRE_PER_S = 10_382  # of 512 B there and back at 100 Mbit/s
HEADER = 14


def codes(size_bytes: int, transactions: float, **link: Any) -> list[str]:
    counted = {}
    for size, packets in ((RX_BYTES, RX_PACKETS), (TX_BYTES, TX_PACKETS)):
        counted[LINK, size.of("peer")] = 1000.0 * (size_bytes + HEADER)
        counted[LINK, packets.of("peer")] = 1000.0
    links: Any = SimpleNamespace(settings=LinkSettings(**link), flows=[1], wire_share=None)
    point: Any = SimpleNamespace(own_metrics=BENCHMARK.metrics, parameters=REQUEST_RESPONSE)
    found = examine_links(links, counted, Outcome({"transactions": transactions}, {}), point)
    return [each.code for each in found.warnings]


@pytest.mark.parametrize(
    ("size_bytes", "transactions", "expected"),
    [
        (116, WIRE_PER_S / 2, []),
        (15_000, WIRE_PER_S / 2, ["packet-size"]),
        (116, 2 * WIRE_PER_S, ["not-a-wire"]),
        (15_000, 2 * WIRE_PER_S, ["packet-size", "not-a-wire"]),
    ],
)
def test_super_packets_and_bursts_mark_the_trial(
    size_bytes: int, transactions: float, expected: list[str]
) -> None:
    assert codes(size_bytes, transactions, mtu=116, packet_bytes=116, rate_mbit_s=100) == expected


@pytest.mark.parametrize(("has_netem", "expected"), [(False, ["undelayed"]), (True, [])])
def test_messages_of_one_frame_on_a_bucket_are_no_wire(
    monkeypatch: pytest.MonkeyPatch, has_netem: bool, expected: list[str]
) -> None:
    monkeypatch.setattr("vtax.network.wire.has_netem", lambda: has_netem)
    assert codes(1500, WIRE_PER_S / 2, mtu=1500, rate_mbit_s=100) == expected
    assert codes(1500, WIRE_PER_S / 2, mtu=1500) == []
