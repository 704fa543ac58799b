"""Every topology proves its path: the bytes crossed the guest under test, or they did not, as it promises."""

import subprocess
import sys
from pathlib import Path

import pytest
from host_network import host_network
from lab_guests import LabGuests, crossed
from support import needs_program, needs_root, thorough, undisturbed

from vtax.benchmarks import registry as benchmarks
from vtax.errors import BadInput
from vtax.guest.guest import Guest
from vtax.host.journal import clean
from vtax.host.resources import tagged_pids
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.network import registry
from vtax.network.namespace import NAMES
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
CONTAINED = [
    "native",
    "qemu-tcg",
    *thorough("lxc", "docker"),
]  # where a guest sets up its own network too
PLATFORMS = ["native", "qemu-tcg", *thorough("lxc", "docker")]
BURST = 200  # packets: many more than the few that links send by themselves


@pytest.fixture
def unchanged_host():
    before = host_network()
    yield
    assert host_network() == before


@pytest.fixture
def lab(image, shared_home, journal, private_home, unchanged_host):
    def build(platform, topology, *, side_by_side=1, **link):
        packages = registry.get(topology).packages
        image_with = (
            images.ensure(shared_home, DEFAULT.with_packages(packages)) if packages else image
        )
        probe = (platforms.get(platform) if isinstance(platform, str) else platform).probe(image)
        if not probe.available:
            pytest.skip(f"{platform} does not run here: {probe.reason}")
        return LabGuests(
            topology, platform, image_with, journal, private_home, link, side_by_side=side_by_side
        )

    return build


def bytes_of(outcome, duration_s=1):
    """At least what must have crossed; a tenth is left for what was still under way."""
    return outcome.values["throughput"] * 1e6 / 8 * duration_s * 0.9


def measured(at, flow=0, **parameters):
    """One short trial and what every hop carried during it."""
    at.apply(at.link)
    before = at.links.counters()
    outcome = at.measure_flow(flow, "iperf3", duration_s=1, **parameters)
    after = at.links.counters()
    return outcome, {hop.name: crossed(before, after, hop.name) for hop in at.links.hops}


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["veth", "macvtap", "nat"])
@pytest.mark.parametrize("platform", CONTAINED)
@pytest.mark.push_with("native")
def test_every_attachment_carries_the_test_in_both_directions(platform, attachment, lab):
    with lab(platform, "point-to-point", attachment=attachment) as at:
        for direction, side in (("send", "rx_bytes"), ("receive", "tx_bytes")):
            outcome, carried = measured(at, direction=direction)
            assert carried["peer.eth0"][side] > bytes_of(outcome)
        at.apply({"attachment": attachment, "mtu": 9000})
        at.apply({"attachment": attachment, "mtu": 500})
        if attachment == "veth" and platform != "qemu-tcg":
            assert {hop.name for hop in at.links.hops} == {"peer.eth0", "guest.eth0"}


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["nat", "own-nat"])
@pytest.mark.parametrize("topology", ["point-to-point", "guest-to-guest"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_behind_translation_the_peer_never_sees_the_guests_address(
    platform, topology, attachment, lab
):
    with lab(platform, topology, attachment=attachment) as at:
        outcome, carried = measured(at)
        at.run("guest", "ping", "-c", "1", "-W", "5", "198.18.1.1")
        assert "198.18.0.15" not in at.run("peer", "ip", "neigh")
        result = at.guests["peer"].run(["ping", "-c", "1", "-W", "1", "198.18.0.15"])
        assert result.status != 0
        assert through(carried, "peer")[1] > bytes_of(outcome)
        has_engine = attachment == "own-nat" and platform == "qemu-tcg"
        assert at.links.end("guest").is_behind_engine == has_engine
        assert ("lab.guest-eth0" in carried) != has_engine
        if topology == "guest-to-guest":
            return
        done = at.trial("iperf3", duration_s=1)
        assert not done.error
        assert done.counters["link", "under_test.bytes"] > bytes_of(done.outcome)


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("mtu", [1500, 65520])
@pytest.mark.parametrize("network", ["pasta", "slirp4netns"])
@pytest.mark.parametrize("engine", ["podman", *thorough("docker")])
def test_the_network_of_a_rootless_container_carries_the_test_to_the_peer_outside(
    engine, network, mtu, lab
):
    """The tool's bytes arrive at the peer, which sees the lab's address; the program's CPU time is the guest's."""
    platform = platforms.make("mine", engine, {"network": network})
    with lab(platform, "point-to-point", attachment="own-nat", mtu=mtu) as at:
        before = at.endpoints["guest"].running.host_cpu_s()
        for direction, side in (("send", "rx_bytes"), ("receive", "tx_bytes")):
            outcome, carried = measured(at, direction=direction)
            assert carried["peer.eth0"][side] > bytes_of(outcome)
        assert through(carried, "guest")[1] > bytes_of(outcome)
        assert "198.18.0.15" not in at.run("peer", "ip", "neigh")
        assert at.guests["peer"].run(["ping", "-c", "1", "-W", "1", "198.18.0.15"]).status != 0
        done = at.trial("iperf3", duration_s=1)
        assert not done.error
        part, spent = (
            done.counters["layer", "network.thread_cpu_s"],
            done.counters["layer", "host_cpu_s"],
        )
        assert 0.01 < part < spent < at.endpoints["guest"].running.host_cpu_s() - before
        assert network in " ".join(at.endpoints["guest"].running.notes)


@pytest.mark.parametrize(
    "platform", ["qemu-tcg", *thorough("native")]
)  # native: test_network_rates
def test_the_platforms_own_translation_is_shaped_once_in_each_direction(platform, lab):
    with lab(platform, "point-to-point", attachment="own-nat", rate_mbit_s=10) as at:
        for direction in ("send", "receive"):

            def throughput(direction=direction):
                return at.measure("iperf3", duration_s=2, direction=direction).values["throughput"]

            assert 3 < undisturbed(throughput, reaches=lambda found: found > 3) < 10


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["nat", "own-nat"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_guest_reaches_its_host_outside_the_network_that_is_translated(platform, attachment, lab):
    with lab(platform, "guest-to-host", attachment=attachment) as at:
        assert at.links.flows[0].server_address == "198.18.1.1"
        assert "MASQUERADE" in at.run("peer", "iptables", "-t", "nat", "-S")
        for direction in ("send", "receive"):
            assert at.measure("iperf3", duration_s=1, direction=direction).values["throughput"] > 0


def through(carried, role, interface=0):
    """Bytes that a guest sent and received by one of its interfaces, from whichever side of it can be read."""
    if f"{role}.eth{interface}" in carried:
        own = carried[f"{role}.eth{interface}"]
        return own["tx_bytes"], own["rx_bytes"]
    port = carried[f"lab.{role}-eth{interface}"]
    return port["rx_bytes"], port["tx_bytes"]


@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg", "lxc", "docker")])
def test_guest_to_host_meets_the_host_side_of_the_guests_own_link(platform, lab):
    with lab(platform, "guest-to-host") as at:
        assert "bridge" in at.run("peer", "ip", "-d", "link", "show", "eth0")
        outcome, carried = measured(at)
        assert carried["lab.guest-eth0"]["rx_bytes"] > bytes_of(outcome)
        assert carried["peer.eth0"]["rx_bytes"] > bytes_of(outcome)


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["bridge", "veth"])
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.push_with("native")
def test_guest_to_guest_crosses_both_guests(platform, attachment, lab):
    with lab(platform, "guest-to-guest", attachment=attachment) as at:
        outcome, carried = measured(at)
        assert through(carried, "guest")[0] > bytes_of(outcome)
        assert through(carried, "peer")[1] > bytes_of(outcome)
        assert all(end.under_test for end in at.links.ends)


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["bridge", "veth"])
@pytest.mark.parametrize("platform", CONTAINED)
@pytest.mark.push_with("native")
def test_a_router_forwards_every_byte_and_keeps_none(platform, attachment, lab):
    with lab(platform, "router", attachment=attachment) as at:
        outcome, carried = measured(at)
        assert through(carried, "generator")[0] > bytes_of(outcome)
        assert through(carried, "guest", 0)[1] > bytes_of(outcome)
        assert through(carried, "guest", 1)[0] > bytes_of(outcome)
        assert through(carried, "receiver")[1] > bytes_of(outcome)
        assert delivered_segments(at) < 0.01 * bytes_of(outcome) / 1448
        at.apply({"attachment": attachment, "mtu": 600})
        assert at.measure("iperf3", duration_s=1).effective["mss"] == 548


def delivered_segments(at):
    """TCP segments that a routing guest took for itself since its start."""
    names, values = [
        line
        for line in at.run("guest", "cat", "/proc/net/snmp").splitlines()
        if line.startswith("Tcp:")
    ]
    return int(dict(zip(names.split(), values.split(), strict=True))["InSegs"])


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("attachment", ["bridge", "veth"])
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.push_with("native")
def test_several_interfaces_carry_a_flow_each_and_both_at_once(platform, attachment, lab):
    with lab(platform, "multi-nic", attachment=attachment, interfaces=2) as at:
        assert len(at.links.flows) == 2
        for number in (0, 1):
            outcome, carried = measured(at, flow=number)
            assert through(carried, "guest", number)[0] > bytes_of(outcome)
            assert through(carried, "peer", number)[1] > bytes_of(outcome)
            assert sum(through(carried, "guest", 1 - number)) < 0.01 * bytes_of(outcome)
        carried = at_once(at, "iperf3", **TOOLS["iperf3"])
        assert min(through(carried, "guest", number)[0] for number in (0, 1)) > least_of("iperf3")


TOOLS = {
    "iperf3": {"duration_s": 2},
    "iperf2": {"duration_s": 2},
    "netperf": {"duration_s": 2},
    "sockperf": {"duration_s": 2, "messages_per_second": 2000, "message_size": 1000},
}
"""Every network tool."""


def at_once(at, tool, **parameters):
    """A trial of two flows of a topology, at once, whose figures add up: what every hop carried."""
    at.apply(at.link)
    calls = []

    def noted(name):
        call = getattr(Guest, name)
        return lambda *args, **rest: (calls.append(name), call(*args, **rest))[1]

    with pytest.MonkeyPatch.context() as patch:
        for name in ("start", "finish"):
            patch.setattr(Guest, name, noted(name))
        trial = at.trial(tool, **parameters)
    assert trial.error == ""
    assert calls[-4:] == [
        "start",
        "start",
        "finish",
        "finish",
    ]  # both clients before either is waited for
    assert trial.outcome.effective["flows"] == 2
    figure = "throughput" if "throughput" in trial.outcome.values else "messages"
    alone = [alone_of(at, trial, tool, parameters, number).values[figure] for number in (0, 1)]
    assert min(alone) > 0
    assert trial.outcome.values[figure] == pytest.approx(sum(alone))
    carried = {hop.name: {} for hop in at.links.hops}
    for (place, name), value in trial.counters.items():
        hop, _, field = name.rpartition(".")
        if place == "link" and hop in carried:
            carried[hop][field] = value
    return carried


def alone_of(at, trial, tool, parameters, number):
    """What the benchmark reads in the output of one flow's programs."""
    benchmark, suffix = benchmarks.get(tool), f".{number}" if number else ""
    results = {role: trial.results[role + suffix] for role in ("client", "server")}
    return benchmark.parse(benchmark.Parameters(**parameters), at.context(number), results)


def least_of(tool):
    """Bytes that each of two flows through one busy switch moves, however unequal their shares are."""
    return 300 * TOOLS[tool]["message_size"] if tool == "sockperf" else 1_000_000


@pytest.mark.parametrize("tool", [name for name in TOOLS if name != "iperf3"])
def test_the_interfaces_of_a_guest_carry_their_flows_at_once_and_rates_add_up(tool, lab):
    with lab("native", "multi-nic", interfaces=2) as at:
        carried = at_once(at, tool, **TOOLS[tool])
        assert min(through(carried, "guest", interface)[0] for interface in (0, 1)) > least_of(tool)


@pytest.mark.parametrize("tool", ["iperf3", *thorough("iperf2", "netperf", "sockperf")])
@needs_program("ovs-vswitchd", "ovs-vsctl")
def test_all_pairs_send_at_once_over_the_trunk_and_rates_add_up(tool, lab):
    with lab("native", "vlan-pairs", pairs=2) as at:
        carried = at_once(at, tool, **TOOLS[tool])
        assert min(
            carried[f"lab.guest{suffix}-eth0"]["rx_bytes"] for suffix in ("", "1")
        ) > least_of(tool)


def test_what_a_topology_cannot_be_built_with_is_refused_before_the_run():
    with pytest.raises(BadInput, match="macvtap"):
        registry.get("router").check(registry.settings("router", {"attachment": "macvtap"}))
    with pytest.raises(BadInput, match="interfaces"):
        registry.settings("router", {"interfaces": 3})


@pytest.mark.parametrize("platform", CONTAINED)
@needs_program("ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
def test_only_the_first_packets_of_a_flow_reach_the_controller_in_the_guest(platform, lab):
    with lab(platform, "router-openflow") as at:
        at.apply({})
        before = at.links.counters()
        outcome = at.measure("iperf3", duration_s=2)
        after = at.links.counters()
        counted = {name: after[name] - before[name] for name in after}
        assert counted["receiver.eth0.rx_bytes"] > bytes_of(outcome, 2)
        assert counted["openflow.flows"] >= 4  # iperf3's two connections, both directions
        assert counted["openflow.to_guest_packets"] >= counted["openflow.flows"]
        assert counted["openflow.to_guest_packets"] < 0.05 * counted["openflow.switched_packets"]
        assert counted["openflow.switched_bytes"] > bytes_of(outcome, 2)
        assert counted["under_test.bytes"] < 0.01 * counted["openflow.switched_bytes"]
        assert {note.code for note in at.links.notes} & {
            "switch-in-kernel",
            "switch-in-user-space",
        }


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("topology", ["point-to-point", "guest-to-host"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_guests_side_by_side_send_to_one_peer_at_once(platform, topology, lab):
    with lab(platform, topology, side_by_side=2) as at:
        at.apply({})
        done = at.trial("iperf3", duration_s=1)
        assert not done.error
        received = done.counters["link", "peer.eth0.rx_bytes"]
        shares = [
            max(
                done.counters.get(("link", f"{hop}.eth0.tx_bytes"), 0),
                done.counters["link", f"lab.{hop}-eth0.rx_bytes"],
            )
            for hop in ("guest", "guest2")
        ]
        assert min(shares) > 1e5
        assert bytes_of(done.outcome) < received < 1.01 * sum(shares)  # a busy switch may drop some
        assert done.counters["link", "under_test.bytes"] > sum(shares)


@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg")])
def test_guests_route_side_by_side_each_between_networks_of_its_own(platform, lab):
    with lab(platform, "router", side_by_side=2) as at:
        at.apply({})
        done = at.trial("iperf3", duration_s=1)
        assert not done.error
        for number in range(2):
            left = done.counters["link", f"generator.eth{number}.tx_bytes"]
            arrived = done.counters["link", f"receiver.eth{number}.rx_bytes"]
            assert 1e5 < arrived < 1.01 * left  # a busy router may drop some
        first = at.links.end("guest").namespace
        if first is None:
            at.run("guest", "ip", "link", "set", "eth0", "down")
        else:
            first.ip("link set dev eth0 down")
        outcome = at.measure_flow(1, "iperf3", duration_s=1)  # the other virtual router goes on
        assert outcome.values["throughput"] > 0


@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg")])
@needs_program("ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
def test_guests_control_bridges_of_one_data_plane_each_by_itself(platform, lab):
    with lab(platform, "router-openflow", side_by_side=2) as at:
        at.apply({})
        done = at.trial("iperf3", duration_s=1)
        assert not done.error
        assert done.counters["link", "openflow.flows"] >= 8
        for number in range(2):
            assert done.counters["link", f"receiver.eth{number}.rx_bytes"] > 1e5
        cut_off(at, "guest")
        outcome = at.measure_flow(
            1, "iperf3", duration_s=1
        )  # the other plane needs only its own controller
        assert outcome.values["throughput"] > 0


@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg")])
@needs_program("ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
def test_the_controller_moves_while_a_flow_goes_on(platform, lab):
    with lab(platform, "router-openflow", move_after_s=1) as at:
        at.apply({"move_after_s": 1})
        first = at.trial("iperf3", duration_s=5)
        assert not first.error
        (move,) = first.outcome.effective["controller_moves"]
        assert move["to"] == "standby"
        assert 1 <= move["after_s"] < 5  # before the trial ended
        assert min(rate for rate in rates(first)) > 0  # no second of it was without traffic
        cut_off(at, "guest")
        outcome = at.measure("iperf3", duration_s=1)  # new flows are the other guest's to decide
        assert outcome.values["throughput"] > 0


@needs_program("ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
def test_a_trial_that_ends_before_its_controller_moves_fails(lab):
    with lab("native", "router-openflow", move_after_s=4) as at:
        at.apply({"move_after_s": 4})
        assert "before its controller had moved" in at.trial("iperf3", duration_s=1).error


def cut_off(at, role):
    """Take a guest's first interface down, from outside where its kernel is the host's."""
    if (namespace := at.links.end(role).namespace) is not None:
        namespace.ip("link set dev eth0 down")
    else:
        at.run(role, "ip", "link", "set", "eth0", "down")


def rates(trial):
    """Mbit/s of every second of a trial."""
    (series,) = {len(each): each for each in trial.outcome.samples.values()}.values()
    return series


@pytest.mark.parametrize("platform", CONTAINED)
@needs_program("ovs-vswitchd", "ovs-vsctl")
def test_pairs_on_vlans_share_a_trunk_and_nothing_else(platform, lab):
    with lab(platform, "vlan-pairs", pairs=2) as at:
        for number in range(2):
            outcome, carried = measured(at, flow=number)
            suffix = str(number) if number else ""
            assert carried["lab.trunk-right"]["rx_bytes"] > bytes_of(outcome)
            assert carried[f"lab.guest{suffix}-eth0"]["rx_bytes"] > bytes_of(outcome)
            assert carried[f"lab.peer{suffix}-eth0"]["tx_bytes"] > bytes_of(outcome)
        for hop in at.links.hops:
            if (
                hop.name == "lab.trunk-left"
            ):  # a tag beside the frame, as for a NIC that inserts it, is in no counter
                hop.namespace.run(["ethtool", "-K", hop.interface, "txvlan", "off"])
        before = at.links.counters()
        at.run("guest", "ping", "-q", "-c", str(BURST), "-i", "0.01", "198.18.0.1")
        after = at.links.counters()
        trunk, guest = (crossed(before, after, hop) for hop in ("lab.trunk-left", "lab.guest-eth0"))
        assert trunk["tx_packets"] >= BURST
        tags = trunk["tx_bytes"] - guest["rx_bytes"]  # four bytes of IEEE 802.1Q for every packet
        assert 2 * BURST < tags < 8 * BURST
        if outside := at.links.end("guest1").namespace:  # a container's root may not
            outside.ip("address add 198.18.0.9/24 dev eth0")
        else:
            at.run("guest1", "ip", "address", "add", "198.18.0.9/24", "dev", "eth0")
        before = at.links.counters()
        at.guests["guest1"].run(
            ["ping", "-q", "-b", "-c", str(BURST), "-i", "0.01", "-W", "1", "198.18.0.255"]
        )
        after = at.links.counters()
        assert crossed(before, after, "lab.peer1-eth0")["tx_packets"] >= BURST
        assert crossed(before, after, "lab.peer-eth0")["tx_packets"] < BURST / 4


@needs_program("ovs-vswitchd", "ovs-vsctl")
def test_each_pair_crosses_one_trunk_of_several(lab):
    with lab("native", "vlan-pairs", pairs=3, trunks=2) as at:
        for number, (own, other) in enumerate(
            (("trunk", "trunk2"), ("trunk2", "trunk"), ("trunk", "trunk2"))
        ):
            outcome, carried = measured(at, flow=number)
            assert carried[f"lab.{own}-right"]["rx_bytes"] > bytes_of(outcome)
            assert carried[f"lab.{other}-right"]["rx_bytes"] < 0.01 * bytes_of(outcome)


HOLD = """
import sys, time
from pathlib import Path
from vtax.host.journal import Journal
from vtax.network import registry
links = registry.get("vlan-pairs").build(Journal(Path(sys.argv[1])), registry.settings("vlan-pairs", {}))
print(links.lab.token, flush=True)
time.sleep(60)
"""


@needs_program("ovs-vswitchd", "ovs-vsctl")
def test_a_killed_lab_is_removed_with_its_switch(tmp_path, unchanged_host):
    registered = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    token = registered.stdout.readline().strip()
    registered.kill()
    registered.wait()
    tag = f"vtax-{token}-ovs"
    assert len(tagged_pids(tag)) == 2
    assert (NAMES / f"vtax-{token}-lab").exists()
    cleaned = clean(tmp_path)
    assert not cleaned.problems
    assert not tagged_pids(tag)
    assert not [path for path in (*NAMES.iterdir(), *Path("/run").iterdir()) if token in path.name]
