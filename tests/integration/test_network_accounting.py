"""What a network trial leaves in the store: every hop, every end's CPU, what was lost, and CPU per gigabyte."""

import json
import os
import subprocess
import sys
import time
from collections import Counter

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root, thorough

from vtax.benchmarks import registry as benchmarks
from vtax.benchmarks.base import Context
from vtax.host.process import find_program
from vtax.platforms import registry
from vtax.runner.lanes import Lane
from vtax.runner.parsers import Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.runner.trial import run_trial

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
DURATION_S = 2
STUDY = """
name = "accounts"
platforms = ["native"{more}]
[design]
blocks = 1
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = {duration} }}
"""


def vtax(*arguments):
    """A whole run, once nothing else measures on this host."""
    deadline = time.monotonic() + 300
    while True:
        argv = [sys.executable, "-m", "vtax", *map(str, arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != os.EX_TEMPFAIL or time.monotonic() > deadline:
            assert done.returncode == 0, done.stderr
            return done.stdout
        time.sleep(1)


def accounts(platform, tmp_path):
    """A whole run; its results and the counters of the platform's cell."""
    path = tmp_path / "study.toml"
    more = "" if platform == "native" else f', "{platform}"'
    path.write_text(STUDY.format(more=more, duration=DURATION_S))
    vtax("run", path)
    results = json.loads(vtax("show", "--json"))["results"]
    printed = json.loads(vtax("show", "--counters", "--json"))["counters"]
    (cell,) = [each for each in printed if each["platform"] == platform]
    return results, cell


def mean_of(results, name, platform):
    (metric,) = [each for each in results if each["metric"] == name]
    (row,) = [row for row in metric["points"][0]["rows"] if row["platform"] == platform]
    return row["summary"]["mean"]


@pytest.mark.parametrize(
    "platform", ["native", "docker", "qemu-tcg", "gvisor-systrap", *thorough("lxc")]
)
def test_the_accounts_of_a_trial_are_whole_and_plausible(platform, image, private_home, tmp_path):
    probe = registry.get(platform).probe(image)
    if not probe.available:
        pytest.skip(f"{platform} does not run here: {probe.reason}")
    results, cell = accounts(platform, tmp_path)
    cpu = cell["cpu_s"]
    maximum = 2 * DURATION_S * 3  # two CPUs and more, with room for starting and ending
    assert 0.005 < cpu["layer"] < maximum
    assert 0.001 < cpu["peer"] < maximum
    if platform in ("qemu-tcg", "gvisor-systrap"):
        assert 0 < cpu["guest"] < maximum
    else:
        assert cpu["guest"] is None
    moved = cell["bytes_under_test"]
    assert moved > 1e6
    assert cpu["under_test"] == cpu["layer"]
    assert cell["cpu_s_per_gigabyte"] == pytest.approx(cpu["layer"] / (moved / 1e9))
    assert mean_of(results, "cpu_per_gigabyte", platform) == pytest.approx(
        cell["cpu_s_per_gigabyte"]
    )
    assert set(cell["retransmits"]) == {"guest", "peer"}
    hops = {hop["name"]: hop for hop in cell["hops"]}
    for name, side in (("lab.guest-eth0", "rx"), ("lab.peer-eth0", "tx"), ("peer.eth0", "rx")):
        assert hops[name][f"{side}_bytes"] > 0.9 * moved
        assert hops[name][f"{side}_packets"] >= hops[name][f"{side}_bytes"] / 65536
        assert hops[name]["drops"] < 0.1 * (hops[name]["rx_packets"] + hops[name]["tx_packets"])
    assert "lab.br0" not in hops  # the kernel counts there only what is the bridge's own
    assert cell["drops"] <= sum(hop["drops"] for hop in hops.values())
    counted_everywhere(cell["counters"], platform, maximum)


PARTS = {
    "docker": {"daemon"},
    "lxc": {"runtime"},
    "qemu-tcg": {"vcpu", "qemu"},
    "gvisor-systrap": {"sentry"},
}


def counted_everywhere(counted, platform, maximum):
    """Program, guest, layer by part, host and clock. counted: `PLACE.NAME` -> mean."""
    assert counted["host.context_switches"] > 100
    assert counted["host.timer_interrupts"] > 0
    assert counted["host.softirq_net_rx"] > 0
    assert counted["program.max_rss_bytes"] > 1 << 20
    assert counted["program.user_cpu_s"] + counted["program.system_cpu_s"] > 0
    assert counted["guest.clock_rate"] == pytest.approx(
        1, abs=0.02 + counted["guest.clock_rate_error"]
    )
    parts = {name.split(".")[1] for name in counted if name.endswith(".thread_cpu_s")}
    assert parts >= PARTS.get(platform, set())
    assert platform in PARTS or not parts
    spent = {part: counted[f"layer.{part}.thread_cpu_s"] for part in parts}
    assert all(0 <= cpu_s < maximum for cpu_s in spent.values())
    if platform == "qemu-tcg":
        assert spent["vcpu"] > 0.1
        assert counted["layer.qemu.peak_memory_bytes"] > 64 << 20
        assert counted["guest.device_interrupts"] > 0
        assert sum(spent.values()) < 1.1 * counted["layer.host_cpu_s"] + 0.1


@pytest.mark.parametrize(
    ("topology", "link", "roles"),
    [
        ("guest-to-guest", {}, {"guest", "peer"}),
        ("vlan-pairs", {"pairs": 2}, {"guest", "peer", "guest1", "peer1"}),
    ],
)
def test_with_several_guests_under_test_a_gigabyte_costs_the_cpu_of_all(
    topology, link, roles, image, journal, private_home
):
    if topology == "vlan-pairs" and find_program("ovs-vswitchd") is None:
        pytest.skip("Open vSwitch is not installed")
    native, iperf3 = registry.get("native"), benchmarks.get("iperf3")
    with LabGuests(
        topology, "native", image, journal, private_home, link={"rate_mbit_s": 200, **link}
    ) as at:
        requested = iperf3.Parameters(duration_s=1)
        cell = PlannedCell(
            "c", native, Point("p", "iperf3", iperf3, requested, topology, at.links.settings)
        )
        lanes = [
            Lane(
                Context(
                    1,
                    2**29,
                    guest_address=flow.client_address,
                    peer_address=flow.server_address,
                    flow=number,
                ),
                {"guest": at.endpoints[flow.client], "peer": at.endpoints[flow.server]},
            )
            for number, flow in enumerate(at.links.flows)
        ]
        with Parsers() as parsers:
            trial = run_trial(parsers, cell, lanes, at.endpoints, at.links, 60)
    assert not trial.error
    each = {place: value for (place, name), value in trial.counters.items() if name == "host_cpu_s"}
    assert each.keys() == roles - {"guest"} | {"layer"}
    assert min(each.values()) > 0.0005
    moved = trial.counters["link", "under_test.bytes"]
    through = {
        role: sum(trial.counters["link", f"{role}.eth0.{way}_bytes"] for way in ("rx", "tx"))
        for role in roles
    }
    for flow in at.links.flows:
        assert through[flow.client] > 1e6
        assert 0.5 < through[flow.server] / through[flow.client] < 1.5  # its bucket drops some
    assert moved == sum(through.values())  # every byte counts where it leaves and where it arrives
    assert trial.outcome.values["cpu_per_gigabyte"] == pytest.approx(
        sum(each.values()) / (moved / 1e9)
    )


@pytest.mark.parametrize(
    ("attachment", "bridges", "veth_pairs"),
    [("bridge", [], 2), ("veth", [], 1), ("nat", ["lab.br0", "lab.br1"], 2), ("macvtap", [], 1)],
)
def test_hops_are_those_that_the_kernel_counts_and_both_ends_of_a_veth_pair_are_known(
    attachment, bridges, veth_pairs, image, journal, private_home
):
    with LabGuests(
        "point-to-point", "native", image, journal, private_home, link={"attachment": attachment}
    ) as at:
        counted = at.links.counters()
        ends = Counter(hop.veth_pair for hop in at.links.hops if hop.veth_pair)
    assert sorted({name.rpartition(".")[0] for name in counted if ".br" in name}) == bridges
    assert sorted(ends.values()) == [2] * veth_pairs
