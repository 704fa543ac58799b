"""The path between guest and peer is the one that was built: proven by what its interfaces counted."""

import pytest
from drivers import RUNTIMES, SHARE_A_KERNEL
from host_network import host_network
from lab_guests import LabGuests, crossed
from support import needs_program, needs_root, thorough, undisturbed

from vtax.errors import BenchmarkError, NetworkError
from vtax.network.echo import echo
from vtax.network.namespace import NAMES
from vtax.platforms import registry as platforms

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc")]
PLATFORMS = [*SHARE_A_KERNEL, "gvisor-systrap", "qemu-tcg"]
CHANGING = ["native", "qemu-tcg", *thorough(*RUNTIMES)]


def lab(name, image, journal, home, topology="point-to-point", **link):
    if name not in platforms.names():
        pytest.skip(f"there is no platform {name} yet")
    probe = platforms.get(name).probe(image)
    if not probe.available:
        pytest.skip(f"{name} does not run here: {probe.reason}")
    return LabGuests(topology, name, image, journal, home, link)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_byte_crosses_the_guests_own_link_and_the_host_is_unchanged(
    platform, image, journal, private_home
):
    before_all = host_network()
    with lab(platform, image, journal, private_home) as at:
        assert host_network() == before_all
        at.links.verify()
        before = at.links.counters()
        outcome = at.measure("iperf3", duration_s=1, direction="send")
        after = at.links.counters()
        carried = outcome.values["throughput"] * 1e6 / 8 * 0.9
        port = "guest-eth0" if "lab.guest-eth0.rx_bytes" in after else "guest"
        assert crossed(before, after, f"lab.{port}")["rx_bytes"] > carried
        assert crossed(before, after, "peer.eth0")["rx_bytes"] > carried
        before = after
        outcome = at.measure("iperf3", duration_s=1, direction="receive")
        carried = outcome.values["throughput"] * 1e6 / 8 * 0.9
        assert crossed(before, at.links.counters(), f"lab.{port}")["tx_bytes"] > carried
    assert host_network() == before_all


@pytest.mark.parametrize("platform", CHANGING)
@pytest.mark.push_with("native")
def test_mtu_and_offloads_change_while_the_guest_lives(platform, image, journal, private_home):
    with lab(platform, image, journal, private_home) as at:
        peer = at.links.end("peer").namespace
        for mtu in (500, 9000, 1500):
            at.apply({"mtu": mtu, "offloads": mtu != 500})
            at.links.verify()
            assert at.run("guest", "cat", "/sys/class/net/eth0/mtu").strip() == str(mtu)
            with pytest.raises(NetworkError):
                echo(peer, at.links.flows[0].client_address, mtu + 1, timeout_s=0.5)
        used = at.measure("iperf3", duration_s=1).effective
        assert used["mss"] == 1448
        assert used["congestion"] == "cubic"
        at.apply({"mtu": 500})
        assert at.measure("iperf3", duration_s=1).effective["mss"] == 448


@pytest.mark.parametrize("platform", ["native", *thorough("qemu-tcg")])
def test_a_rate_limit_makes_a_known_link_in_both_directions(platform, image, journal, private_home):
    rate = 10 if platform == "qemu-tcg" else 100
    with lab(platform, image, journal, private_home, rate_mbit_s=rate) as at:
        for direction in ("send", "receive"):

            def throughput(direction=direction):
                return at.measure("iperf3", duration_s=2, direction=direction).values["throughput"]

            effective = undisturbed(throughput, reaches=lambda found: found > 0.3 * rate)
            assert 0.3 * rate < effective < rate
        at.apply({})
        assert undisturbed(throughput, reaches=lambda found: found > 1.1 * rate) > 1.1 * rate


def test_ipv6_connects_the_ends_and_returns_with_the_mtu(image, journal, private_home):
    with lab("native", image, journal, private_home, mtu=500) as at:
        assert "2001:2:" not in at.run("guest", "ip", "-6", "address")
        at.apply({"mtu": 1500})
        at.run("guest", "ping", "-c", "1", "-W", "2", "2001:2::1")


def test_there_is_no_way_out(image, journal, private_home):
    with lab("native", image, journal, private_home) as at:
        assert "default" not in at.run("guest", "ip", "route") + at.run(
            "guest", "ip", "-6", "route"
        )
        result = at.guests["guest"].run(["ping", "-c", "1", "-W", "1", "192.0.2.1"])
        assert result.status != 0
        assert "unreachable" in result.stdout + result.stderr


def test_two_labs_at_once_do_not_meet(image, journal, private_home):
    with (
        lab("native", image, journal, private_home) as one,
        lab("native", image, journal, private_home) as two,
    ):
        before = two.links.counters()
        one.run("guest", "ping", "-c", "50", "-i", "0.01", "198.18.0.1")
        # A link's own first minute has a few packets (neighbour discovery, multicast reports), never fifty.
        assert crossed(before, two.links.counters(), "peer.eth0")["rx_packets"] < 25
        two.links.verify()


def test_a_peer_that_does_not_answer_is_named(image, journal, private_home):
    with lab("native", image, journal, private_home) as at:
        at.links.end("guest").namespace.ip("link set dev eth0 down")
        with pytest.raises(NetworkError, match=r"198\.18\.0\.2"):
            echo(at.links.end("peer").namespace, "198.18.0.2", 1500, timeout_s=0.3)


def test_a_peer_without_the_tool_fails_the_trial_with_its_name(image, journal, private_home):
    with lab("native", image, journal, private_home) as at:
        result = at.guests["guest"].run(["iperf3", "-c", "198.18.0.1", "-J", "-t", "1"])
        from vtax.benchmarks.iperf3 import Iperf3, Iperf3Parameters

        with pytest.raises(BenchmarkError, match="Connection refused"):
            Iperf3().parse(Iperf3Parameters(), None, {"client": result})


def test_closing_leaves_no_namespace(journal):
    from vtax.network import registry

    links = registry.get("point-to-point").build(journal, registry.settings("point-to-point", {}))
    name = f"vtax-{links.lab.token}-lab"
    assert (NAMES / name).exists()
    links.close()
    assert not (NAMES / name).exists()
    links.close()
