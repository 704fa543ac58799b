"""What a platform's network interfaces cannot do is said before a run, naming platform, limit and setting."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from vtax.benchmarks import iperf3
from vtax.benchmarks.base import CPU_PER_GIGABYTE, Context
from vtax.benchmarks.network import check_link
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import ClockReading, GuestSample
from vtax.messages import Note
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.runner import counting
from vtax.runner.networks import network_obstacle
from vtax.runner.points import Point
from vtax.runner.trial import cpu_per_gigabyte


def point(topology="point-to-point", **link):
    settings = topologies.settings(topology, link)
    return Point("k", "iperf3", iperf3.Iperf3(), iperf3.Iperf3Parameters(), topology, settings)


def refuse_beyond_platforms(platforms, points, source):
    """Raise the first reason why one of the platforms cannot carry one of the points."""
    for platform in platforms:
        for each in points:
            if error := network_obstacle(platform, each, source):
                raise error


def test_an_attachment_that_a_interface_cannot_have_is_refused():
    chosen = [registry.get("native"), registry.get("xen-pv")]
    for attachment in ("bridge", "veth", "nat"):
        refuse_beyond_platforms(chosen, [point(attachment=attachment)], "study.toml")
    with pytest.raises(BadInput) as caught:
        refuse_beyond_platforms(chosen, [point(attachment="macvtap")], "study.toml")
    assert caught.value.what == Note(
        "not-joined-by", name="xen-pv", attachment="macvtap", label="iperf3"
    )
    assert "attachment" in caught.value.where
    assert "bridge, veth, nat" in caught.value.hint


@pytest.mark.parametrize(
    "platform",
    ["qemu-tcg-e1000", "qemu-tcg-rtl8139", "qemu-tcg-microvm", "xen-pv", "gvisor-ptrace"],
)
def test_more_queues_than_a_interface_has_are_refused(platform):
    chosen = [registry.get("native"), registry.get(platform)]
    refuse_beyond_platforms(chosen, [point(queues=1)], "study.toml")
    with pytest.raises(BadInput) as caught:
        refuse_beyond_platforms(chosen, [point(queues=4)], "study.toml")
    assert caught.value.what == Note("one-queue", name=platform, label="iperf3", wanted=4)
    assert "queues" in caught.value.where


def test_interfaces_that_have_several_queues_are_not_refused():
    chosen = [registry.get(name) for name in ("native", "docker", "qemu-tcg")]
    refuse_beyond_platforms(chosen, [point(queues=16)], "study.toml")


def test_a_platform_that_cannot_route_is_refused_as_a_router_only():
    chosen = [registry.get("native"), registry.get("gvisor-systrap")]
    refuse_beyond_platforms(
        chosen, [point("router-openflow"), point("multi-nic", interfaces=2)], "study.toml"
    )
    with pytest.raises(BadInput) as caught:
        refuse_beyond_platforms(chosen, [point("router")], "study.toml")
    assert caught.value.what == Note("no-routing", topology="router", name="gvisor-systrap")
    assert "gvisor-systrap" in caught.value.what
    assert "topology of iperf3" in caught.value.where


def test_cpu_per_gigabyte_needs_enough_of_both():
    counted = {
        ("layer", "under_test_cpu_s"): 3.0,
        ("layer", "host_cpu_s"): 1.0,
        ("link", "under_test.bytes"): 2e9,
    }
    assert cpu_per_gigabyte(counted, [CPU_PER_GIGABYTE]) == {"cpu_per_gigabyte": 1.5}
    assert cpu_per_gigabyte(counted, []) == {}
    assert (
        cpu_per_gigabyte({**counted, ("link", "under_test.bytes"): 10.0}, [CPU_PER_GIGABYTE]) == {}
    )
    assert cpu_per_gigabyte({("link", "under_test.bytes"): 2e9}, [CPU_PER_GIGABYTE]) == {}


def test_cpu_per_gigabyte_behind_a_switch_is_that_of_both_for_what_the_switch_carried():
    counted = {
        ("layer", "under_test_cpu_s"): 1.0,
        ("link", "under_test.bytes"): 1e4,
        ("link", "switch.cpu_s"): 2.0,
        ("link", "openflow.switched_bytes"): 1e9,
    }
    assert cpu_per_gigabyte(counted, iperf3.Iperf3().metrics)["cpu_per_gigabyte"] == pytest.approx(
        1.5, rel=1e-4
    )


def test_the_cpu_of_every_guest_under_test_is_counted():
    """The times are invented: two guests under test and one that serves, each a second later than before."""
    times = {"guest": [1.0, 2.0], "peer": [10.0, 14.0], "other": [100.0, 200.0]}
    sample = GuestSample(ClockReading(0.0, 0.0, 0.0, 0.0), {})
    silent = SimpleNamespace(
        has_own_kernel=True,
        begin_sample=lambda _: None,
        collect_sample=lambda _: sample,
        counted=lambda _: {},
    )
    ends = {
        role: counting.Endpoint(
            SimpleNamespace(
                host_cpu_s=iter(values).__next__, is_remote=False, parts=(), throttling=dict
            ),
            silent,
        )
        for role, values in times.items()
    }
    moved = iter([{"under_test.bytes": 0.0}, {"under_test.bytes": 2e9}])
    under_test = [SimpleNamespace(role=role) for role in ("peer", "guest")]
    counted = counting.Counting(
        ends, SimpleNamespace(counters=lambda: next(moved), guests=under_test)
    )
    with counted.around():
        pass
    counted.compare()
    difference = counted.differences
    assert difference["layer", "host_cpu_s"] == 1.0
    assert difference["layer", "under_test_cpu_s"] == 5.0
    assert cpu_per_gigabyte(difference, iperf3.Iperf3().metrics) == {"cpu_per_gigabyte": 2.5}


def test_a_guest_whose_cpu_is_unknown_leaves_the_sum_unknown():
    sample = GuestSample(ClockReading(0.0, 0.0, 0.0, 0.0), {})
    silent = SimpleNamespace(
        begin_sample=lambda _: None, collect_sample=lambda _: sample, counted=lambda _: {}
    )
    ends = {
        "guest": counting.Endpoint(
            SimpleNamespace(host_cpu_s=lambda: 1.0, parts=(), throttling=dict), silent
        ),
        "peer": counting.Endpoint(SimpleNamespace(host_cpu_s=lambda: None, parts=()), silent),
    }
    under_test = [SimpleNamespace(role=role) for role in ends]
    read = counting.Counting(ends, SimpleNamespace(counters=dict, guests=under_test))._read()
    assert ("layer", "under_test_cpu_s") not in read


@pytest.mark.parametrize(
    ("rate", "mtu", "duration_s", "mbit_s", "possible"),
    [
        (1.0, 9000, 1, 1.09, True),  # one frame is through at once
        (1.0, 9000, 1, 1.2, False),
        (1.0, 9000, 10, 1.09, False),
        (100.0, 1500, 1, 102.0, True),
        (100.0, 1500, 1, 102.3, False),
        (1000.0, 1500, 1, 1023.0, True),  # a bucket of 4 ms
        (1000.0, 1500, 1, 1025.0, False),
    ],
)
def test_a_figure_may_be_above_the_links_rate_by_the_burst_of_its_token_bucket(
    rate, mtu, duration_s, mbit_s, possible
):
    with nullcontext() if possible else pytest.raises(BenchmarkError, match="is impossible"):
        check_link(mbit_s, Context(1, 1, link_mbit_s=rate, mtu=mtu), duration_s)
