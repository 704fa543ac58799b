"""Counters of network benchmarks as `vtax show --counters` tells them; the figures are invented."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from shown import drawn

from vtax.report.answers.counters.compute import Counted, HopTraffic, counted_cells
from vtax.report.answers.counters.view import document_of
from vtax.report.document import PlatformCell
from vtax.report.renderers.json import as_json

RUN: Any = SimpleNamespace(
    platform_of=lambda name: PlatformCell(
        name, ("emulated",) if name.startswith("qemu-tcg") else ()
    )
)
HOP = {"rx_packets": 10.0, "rx_bytes": 1e9, "tx_packets": 5.0, "tx_bytes": 3e8}
LOST = {"rx_drops": 1.0, "tx_drops": 2.0, "rx_errors": 0.0, "tx_errors": 4.0}


def cells(**more: float) -> list[Counted]:
    """A native cell, a virtual machine's, and one without a network. more: counters of the links."""
    records = [
        SimpleNamespace(point="p", label="iperf3", levels={"mtu": 1500}, platform="native"),
        SimpleNamespace(point="q", label="dd", levels={}, platform="native"),
        SimpleNamespace(point="p", label="iperf3", levels={"mtu": 1500}, platform="qemu-tcg"),
    ]
    link = {f"guest.eth0.{name}": value for name, value in {**HOP, **LOST}.items()} | {
        "under_test.bytes": 2e9
    }
    link |= {"drops.packets": 4.0, **more}
    values = {
        0: {
            "layer.host_cpu_s": 2.0,
            "layer.under_test_cpu_s": 3.0,
            "peer.host_cpu_s": 1.0,
            "guest.tcp_retransmits": 2.0,
            "guest.cpu_user_s": 99.0,
        },
        1: {"layer.host_cpu_s": 9.0},
        2: {
            "layer.host_cpu_s": 8.0,
            "layer.under_test_cpu_s": 8.0,
            "guest.kernel_cpu_s": 7.0,
            "peer.kernel_cpu_s": 0.5,
        },
    }
    counters = {
        (cell, *name.split(".", 1)): (value, 4)
        for cell, found in values.items()
        for name, value in {
            **found,
            **({f"link.{k}": v for k, v in link.items()} if cell != 1 else {}),
        }.items()
    }
    trials = SimpleNamespace(
        id=np.arange(10, 16),
        cell=np.array([0, 0, 0, 0, 2, 0]),
        is_ok=np.array([True, True, True, False, True, True]),
        is_warmup=np.array([True, False, False, False, False, False]),
    )
    in_force = {
        10: '{"mss": 1}',
        11: '{"mss": 1448, "interfaces": {"guest.eth0": {"mtu": 1500}}}',
        12: '{"mss": 1460, "interfaces": {"guest.eth0": {"mtu": 1500}}}',
        13: '{"mss": 2}',
        14: '{"mss": 536}',
        15: '{"mss": 1448}',
    }
    data: Any = SimpleNamespace(run=SimpleNamespace(cells=records), trials=trials)
    return counted_cells(data, counters, in_force)


def test_only_cells_with_a_network_are_reported_in_the_order_of_the_study():
    assert [(cell.label, cell.platform, cell.trials) for cell in cells()] == [
        ("iperf3", "native", 4),
        ("iperf3", "qemu-tcg", 4),
    ]


def test_cpu_is_reported_by_who_spent_it():
    native, machine = cells()
    assert (native.layer_cpu_s, native.guest_cpu_s, native.ends_cpu_s) == (2.0, None, {"peer": 1.0})
    assert (machine.layer_cpu_s, machine.guest_cpu_s, machine.ends_cpu_s) == (
        8.0,
        7.0,
        {"peer": 0.5},
    )
    assert native.cpu_per_gigabyte == pytest.approx(1.5)  # of all guests under test
    assert machine.cpu_per_gigabyte == pytest.approx(4.0)


def test_a_switch_works_for_the_guest_that_decides_for_it():
    native, machine = cells(**{"openflow.switched_bytes": 1e9, "switch.cpu_s": 2.0})
    assert native.cpu_per_gigabyte == pytest.approx((3.0 + 2.0) / (2 + 2 * 1))
    assert cells(**{"switch.cpu_s": 2.0})[0].cpu_per_gigabyte == pytest.approx(1.5)  # that of a lab
    assert machine.under_test_bytes == 4e9


def test_lost_packets_are_drops_and_errors():
    (hop,) = cells()[0].hops
    assert (hop.name, hop.rx_bytes, hop.drops) == ("guest.eth0", 1e9, 7.0)


def test_a_report_has_only_interfaces_that_dropped_packets():
    dropping = cells()[0]
    whole = replace(dropping, hops=tuple(replace(hop, drops=0.0) for hop in dropping.hops))
    assert "guest.eth0" in drawn(document_of([dropping], RUN, is_report=True))
    assert "guest.eth0" not in drawn(document_of([whole], RUN, is_report=True))
    assert "guest.eth0" in drawn(document_of([whole], RUN))


def test_both_tables_and_the_json_say_the_same():
    text = drawn(document_of(cells(), RUN), 120)
    assert "iperf3 · mtu=1500" in text
    row, hops = [
        number for number, line in enumerate(text.splitlines()) if line.startswith("native")
    ]
    lines = [line.split() for line in text.splitlines()]
    assert lines[row] == ["native", "2.00", "–", "1.00", "2.00", "1.50", "2.00", "4.00"]
    assert lines[hops] == ["native"]
    assert lines[hops + 1] == ["guest.eth0", "10.0", "1", "000", "5.00", "300", "7.00", "–"]
    printed = json.loads(json.dumps(as_json(document_of(cells(), RUN))))
    assert printed[0]["cpu_s_per_gigabyte"] == pytest.approx(1.5)
    assert printed[0]["counters"]["link.guest.eth0.rx_bytes"] == 1e9
    assert printed[1]["cpu_s"]["guest"] == 7.0


@pytest.mark.parametrize("width", [60, 80])
def test_names_of_platforms_and_interfaces_are_whole_where_there_is_little_room(width):
    long = replace(
        cells()[1],
        platform="qemu-tcg-virtio-vhost",
        ends_cpu_s={"client": 0.27, "router": 0.5, "server": 1.0},
        hops=tuple(
            HopTraffic(f"lab.router-guest-eth{n}", 49_200.0, 2.34e9, 14_800.0, 983.0, 0.0)
            for n in "01"
        ),
    )
    text = drawn(document_of([long], RUN), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("qemu-tcg-virtio-vhost") == 2
    for name in (
        "lab.router-guest-eth0",
        "lab.router-guest-eth1",
        "client",
        "router",
        "server",
        "49\u202f200",
    ):
        assert name in text


def test_what_was_in_force_is_reported_with_every_different_value_of_the_measured_trials():
    native, machine = json.loads(json.dumps(as_json(document_of(cells(), RUN))))
    assert native["effective"] == {
        "mss": [1448, 1460],
        "interfaces": [{"guest.eth0": {"mtu": 1500}}],
    }
    assert machine["effective"] == {"mss": [536]}


def test_a_run_without_a_network_says_so():
    assert "no network benchmark" in drawn(document_of([], RUN))
